package fs

import (
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"prismfs/cache"
	"prismfs/dataset"
)

// linesOf returns the lines of a log that say a text.
func linesOf(log, text string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// replaceBytes replaces a file as pack does, by other bytes made of its own.
func replaceBytes(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name+".new", change(data), 0o644)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsToldOncePerContent: a damaged file is one line, however often and in
// whichever view it is read, and another one when it is repaired and damaged anew.
func TestDamageIsToldOncePerContent(t *testing.T) {
	m, dir, log := servedMount(t, func(string, string) {})
	file := filepath.Join(m.opt.Source, "cat", "bad.l3")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) func([]byte) []byte {
		return func([]byte) []byte {
			data := append([]byte(nil), whole...)
			data[at] ^= 1
			return data
		}
	}
	zero := func(n int) func([]byte) []byte {
		return func([]byte) []byte { return append(make([]byte, n), whole[n:]...) }
	}
	reads := func(want string) {
		t.Helper()
		for range 3 {
			for _, name := range []string{"cat/bad.npy", "cat+png/bad.png", "cat/bad+chw.npy"} {
				said, err := cat(filepath.Join(dir, name))
				if err == nil != (want == "") || !strings.Contains(said, want) {
					t.Errorf("reading %s: %v, %q, want %q", name, err, said, want)
				}
			}
		}
	}
	for i, c := range []struct {
		change func([]byte) []byte
		want   string
		lines  int
	}{
		{flip(len(whole) - 1), "Input/output error", 1},                          // of its samples
		{func([]byte) []byte { return whole }, "", 1},                            //
		{flip(len(whole) - 1), "Input/output error", 2},                          // the same damage, of another file
		{flip(9), "Input/output error", 3},                                       // of its header
		{func(b []byte) []byte { return b[:len(b)-3] }, "Input/output error", 4}, // too short
		{zero(4), "Input/output error", 5},                                       // its first bytes
		{func([]byte) []byte { return whole }, "", 5},                            //
		{zero(4), "Input/output error", 6},                                       //
		{zero(len(whole)), "Input/output error", 7},                              // never written, as after a power cut
		{zero(len(whole)), "Input/output error", 8},                              //
		{func([]byte) []byte { return nil }, "Input/output error", 9},            // empty
		{func([]byte) []byte { return nil }, "Input/output error", 10},           //
		{func([]byte) []byte { return whole[:3] }, "Input/output error", 11},     // the beginning of the first bytes
		{func([]byte) []byte { return whole[:9] }, "Input/output error", 12},     // of its header
	} {
		replaceBytes(t, file, c.change)
		reads(c.want)
		lines := linesOf(log.String(), "cannot serve a file")
		if len(lines) != c.lines {
			t.Fatalf("step %d: %d lines, want %d:\n%s", i, len(lines), c.lines, strings.Join(lines, ""))
		}
		for _, line := range lines {
			if !strings.Contains(line, " path=cat/bad.npy ") || !strings.Contains(line, " source="+file+" ") {
				t.Errorf("the line does not name the file as the reader and as the owner does: %s", line)
			}
		}
	}
}

// TestErrorsThatVaryAreToldOnce: only what is wrong with a content is told by its text.
func TestErrorsThatVaryAreToldOnce(t *testing.T) {
	m := recordMount(t, false)
	s, err := m.ds.Sample(background, "train/cat/001.pcr")
	if err != nil {
		t.Fatal(err)
	}
	about := subjectOf(s, "train+png/cat/001.png")
	for i := range 5 {
		if errno := m.fail("open", about, fmt.Errorf("%d bytes are held: %w", i, cache.ErrNoSpace)); errno != syscall.ENOMEM {
			t.Fatal(errno)
		}
		if errno := m.fail("open", about, fmt.Errorf("at %v: %w", time.Now(), syscall.EIO)); errno != syscall.EIO {
			t.Fatal(errno)
		}
	}
	lines := linesOf(m.tail.String(), "cannot serve a file")
	if len(lines) != 2 {
		t.Errorf("%d lines, want one of each errno:\n%s", len(lines), strings.Join(lines, ""))
	}
	record := filepath.Join(m.opt.Source, m.ds.Full("train/PCR_0.pcr"))
	for _, line := range lines {
		if !strings.Contains(line, " path=train+png/cat/001.png source="+record+" image=0 errno=") {
			t.Errorf("the line does not name the image: %s", line)
		}
	}
}

// TestShardErrorsNameTheirSource: the line has the image where one is at fault, else the
// folder.
func TestShardErrorsNameTheirSource(t *testing.T) {
	m, dir, log := servedMount(t, func(string, string) {})
	file := filepath.Join(m.opt.Source, "cat", "bad.l3")
	replaceBytes(t, file, func(data []byte) []byte {
		data[len(data)-1] ^= 1
		return data
	})
	shard := "cat+stream+raw/epoch-0000/000000.tar"
	if said, err := cat(filepath.Join(dir, shard)); err == nil || !strings.Contains(said, "Input/output error") {
		t.Errorf("reading %s: %v, %.99q", shard, err, said)
	}
	n := &streamFile{m: m, view: streamView("cat"), written: "cat+stream/epoch-0000/000001.tar"}
	if errno := m.fail("open", n.subjectOf(syscall.EIO), syscall.EIO); errno != syscall.EIO {
		t.Error(errno)
	}
	lines := linesOf(log.String(), "cannot serve a file")
	if len(lines) != 2 || !strings.Contains(lines[0], " path="+shard+" source="+file+" ") ||
		!strings.Contains(lines[1], " path="+n.written+" source="+filepath.Dir(file)+" ") {
		t.Errorf("the log says\n%s", strings.Join(lines, ""))
	}
}

// TestRemedyOfNoMemory: who has one image that never fits has nothing to close.
func TestRemedyOfNoMemory(t *testing.T) {
	m, _, _ := servedMount(t, func(string, string) {})
	for _, cut := range []bool{false, true} {
		m.cut = cut
		crowded, never := m.remedyOfNoMemory(cache.ErrNoSpace), m.remedyOfNoMemory(fmt.Errorf("open: %w", cache.ErrNeverFits))
		if !strings.HasSuffix(crowded, ", or hold fewer files open or mapped") || never+", or hold fewer files open or mapped" != crowded {
			t.Errorf("where the cache is cut: %v: %q and %q", cut, crowded, never)
		}
	}
}

// TestLevelOfTheTail: details are in it if they were asked for, and everything else always.
func TestLevelOfTheTail(t *testing.T) {
	for level, details := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0, slog.LevelError: 0} {
		tail := new(logTail)
		log := withTail(slog.New(slog.NewTextHandler(new(lockedBuffer), &slog.HandlerOptions{Level: level})), tail)
		log.Debug("a detail")
		log.Info("an event")
		if text := tail.String(); strings.Count(text, "a detail") != details || strings.Count(text, "an event") != 1 {
			t.Errorf("at %v the tail has %q", level, text)
		}
	}
}

// TestUnreadableHeaderIsToldOncePerContent: so is a header that the disk does not give,
// whatever the words, and anew of the file that takes its place.
func TestUnreadableHeaderIsToldOncePerContent(t *testing.T) {
	m, _, log := servedMount(t, func(string, string) {})
	file := filepath.Join(m.opt.Source, "cat", "bad.l3")
	for i, want := range []int{1, 1, 2} {
		if i == 2 {
			replaceBytes(t, file, func(data []byte) []byte { return data })
		}
		m.fail("lookup", subject{path: "cat/bad.npy"}, &iofs.PathError{Op: fmt.Sprint("try ", i, " to read"), Path: file, Err: syscall.EIO})
		if lines := linesOf(log.String(), "cannot serve a file"); len(lines) != want || !strings.Contains(lines[0], " source="+file+" ") {
			t.Errorf("try %d: %d lines, want %d:\n%s", i, len(lines), want, strings.Join(lines, ""))
		}
	}
}

// TestDamagedImageOfARecord: a line names the record and the place in it, whether
// the reader came to open the image or not.
func TestDamagedImageOfARecord(t *testing.T) {
	m := recordMount(t, false)
	record := m.ds.Full("train/PCR_0.pcr")
	s, err := m.ds.Sample(background, "train/cat/grey.pcr")
	if err != nil {
		t.Fatal(err)
	}
	replaceBytes(t, record, func(data []byte) []byte {
		for i := len(data) / 3; i < len(data); i++ {
			data[i] ^= 0x55
		}
		return data
	})
	_, err = m.ds.ReadEncoded(background, s, 0, nil)
	if err == nil {
		t.Fatal("a replaced record is read")
	}
	if s, err = m.ds.Sample(background, "train/cat/grey.pcr"); err != nil {
		t.Fatal(err)
	}
	_, err = m.ds.ReadEncoded(background, s, 0, nil)
	if !isDamage(err) {
		t.Fatalf("a damaged record gives %v", err)
	}
	if of, ok := m.ds.CulpritOf(err); !ok || of != s.Culprit() || of != (dataset.Culprit{Path: "train/PCR_0.pcr", Image: 1}) {
		t.Errorf("the error is of %+v, %v, and the sample of %+v", of, ok, s.Culprit())
	}
	for range 2 {
		m.fail("lookup", subject{path: "train+orig/cat/grey.png"}, err)
		m.fail("open", subjectOf(s, "train/cat/grey.npy"), err)
	}
	lines := linesOf(m.tail.String(), "cannot serve a file")
	if len(lines) != 1 || !strings.Contains(lines[0], " path=train+orig/cat/grey.png source="+record+" image=1 ") {
		t.Errorf("the log says\n%s", strings.Join(lines, ""))
	}
}
