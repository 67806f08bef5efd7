package dataset

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"prismfs/pcr"
)

// TestCases are the rows of the table of hard cases that are about records, by
// their names.
func TestCases(t *testing.T) {
	t.Run("p01", caseOfBadOffsets)
	t.Run("p02", caseOfAnotherRecord)
	t.Run("p04", caseOfACutRecord)
	t.Run("p05", caseOfALargeRecord)
	t.Run("p12", TestLabels) // negative ones are refused, counted, and shown nowhere
}

// caseOfBadOffsets: lengths of an index that are negative, lead out of the file or
// say that a record is there twice. No image is read by them: those of records
// that say where their images are stay right, others are errors.
func caseOfBadOffsets(t *testing.T) {
	for name, spoil := range map[string]func([]int64) []int64{
		"negative":        func(l []int64) []int64 { return slices.Concat(l[:2], []int64{-l[2]}, l[3:]) },
		"beyond the file": func(l []int64) []int64 { return slices.Concat(l[:len(l)-1], []int64{1 << 40}) },
		"overflowing":     func(l []int64) []int64 { return slices.Concat(l[:len(l)-1], []int64{1<<63 - 1}) },
	} {
		for _, bare := range []bool{false, true} {
			dir := t.TempDir()
			m := ownFolder(t, dir)
			if bare {
				dir = t.TempDir()
				m = bareFolder(t, dir, 3, 3, 2)
			}
			d, _ := openPCR(t, dir, Options{})
			want := allJPEGs(t, d)
			var index []byte
			for i, e := range m.entries {
				lengths := e.Lengths
				if i == 1 {
					lengths = spoil(lengths)
				}
				index = append(index, rawEntry(e.Name, lengths...)...)
			}
			replace(t, filepath.Join(dir, pcr.IndexNamePB), index)
			d, log := logged(t, dir, Options{})
			if !bare {
				if got := allJPEGs(t, d); !maps.Equal(got, want) {
					t.Errorf("%s: %d images of a record that describes itself, want %d", name, len(got), len(want))
				}
				continue
			}
			if !strings.Contains(log.String()+bareState(t, d), "PCR_1.pcr") {
				t.Errorf("%s: nobody is told of PCR_1.pcr:\n%s", name, log)
			}
			noForeignBytes(t, d, want)
		}
	}
	// Twice, once as another record: each image is shown once.
	dir := t.TempDir()
	m := bareFolder(t, dir, 3, 3, 2)
	d, _ := openPCR(t, dir, Options{})
	want := allJPEGs(t, d)
	index := rawEntry(m.entries[1].Name, m.entries[0].Lengths...)
	for _, e := range m.entries {
		index = append(index, rawEntry(e.Name, e.Lengths...)...)
	}
	replace(t, filepath.Join(dir, pcr.IndexNamePB), index)
	d, _ = openPCR(t, dir, Options{})
	if got := allJPEGs(t, d); !maps.Equal(got, want) {
		t.Errorf("with a record named twice: %d images, want %d", len(got), len(want))
	}
}

// bareState lists what a folder says of its records.
func bareState(t *testing.T, d *Dataset) string {
	s := summary(t, d, "")
	told := slices.Concat(s.Stale, s.Mistaken)
	for _, b := range slices.Concat(s.Bad, s.Damaged) {
		told = append(told, b.Name)
	}
	return strings.Join(told, " ")
}

// noForeignBytes reads everything: what can be read is the image of that path.
func noForeignBytes(t *testing.T, d *Dataset, want map[string]string) {
	t.Helper()
	right := 0
	for _, path := range samplePaths(t, d, "") {
		s, err := d.Sample(context.Background(), path)
		var got []byte
		if err == nil {
			got, err = d.ReadEncoded(context.Background(), s, 0, nil)
		}
		switch {
		case err == nil && string(got) != want[path]:
			t.Errorf("%s has bytes of something else", path)
		case err == nil:
			right++
		case !isDamage(err) && !errors.Is(err, ErrChanged) && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("%s: %v", path, err)
		}
	}
	if right == 0 {
		t.Error("nothing can be read: nothing was checked")
	}
}

// caseOfAnotherRecord puts one record in another's place, of the same size and of
// another: no image of it appears under the names of the other.
func caseOfAnotherRecord(t *testing.T) {
	for _, bare := range []bool{false, true} {
		dir := t.TempDir()
		m := ownFolder(t, dir)
		if bare {
			dir = t.TempDir()
			m = bareFolder(t, dir, 3, 3, 2)
		}
		d, _ := openPCR(t, dir, Options{})
		want := allJPEGs(t, d)
		other, err := os.ReadFile(filepath.Join(dir, m.entries[2].Name))
		must(t, err)
		replace(t, filepath.Join(dir, m.entries[1].Name), other)
		d, log := logged(t, dir, Options{})
		noForeignBytes(t, d, want)
		if told := log.String() + bareState(t, d); !strings.Contains(told, m.entries[1].Name) {
			t.Errorf("bare=%v: nobody is told of %s: %s", bare, m.entries[1].Name, told)
		}
	}
	// One byte of a record that has checksums: that image alone, and only from the
	// fidelity that needs the byte.
	dir := t.TempDir()
	m := ownFolder(t, dir)
	path := filepath.Join(dir, "PCR_1.pcr")
	b, err := os.ReadFile(path)
	must(t, err)
	b[m.entries[1].GroupOffset(3)+20] ^= 1
	replace(t, path, b)
	d, _ := openPCR(t, dir, Options{})
	for k, want := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1} {
		if good, bad := readable(t, d, k); bad != want || good+bad != ownImages {
			t.Errorf("fidelity %d: %d good, %d bad, want %d bad", k, good, bad, want)
		}
	}
}

// caseOfACutRecord: what is told names the record, and the others are served.
func caseOfACutRecord(t *testing.T) {
	dir := t.TempDir()
	m := bareFolder(t, dir, 3, 3, 2)
	must(t, os.Truncate(dir+"/PCR_1.pcr", m.entries[1].GroupOffset(1)+40))
	d, log := logged(t, dir, Options{})
	good, bad := readable(t, d, 1)
	if good != 6 || bad != 3 {
		t.Errorf("%d images can be read and %d not, want those of the other records", good, bad)
	}
	if !strings.Contains(log.String(), "PCR_1.pcr") {
		t.Errorf("the log does not name the record:\n%s", log)
	}
	s, err := d.Sample(context.Background(), imagePath(0, "PCR_1", 0))
	if err == nil {
		_, err = d.ReadEncoded(context.Background(), s, 1, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "PCR_1") {
		t.Errorf("the error does not name the record: %v", err)
	}
}

// caseOfALargeRecord reads an image that lies beyond 5 GiB of a sparse record.
func caseOfALargeRecord(t *testing.T) {
	const large = 5 << 30
	dir := t.TempDir()
	jpeg := fakeJPEG(30, 20, 3, 7, 100)
	jpeg = jpeg[:len(jpeg)-2] // records leave the end marker away
	whole, lengths := rawRecord([]int64{0, 1}, 1, group(nil, jpeg))
	head := protowire.AppendVarint([]byte{0x0a}, large)
	tail := protowire.AppendBytes([]byte{0x0a}, jpeg)
	size := lengths[0] + int64(len(head)) + large + int64(len(tail))
	f, err := os.Create(dir + "/PCR_0.pcr")
	must(t, err)
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skipf("no sparse file of %d bytes can be made here: %v", size, err)
	}
	for off, b := range map[int64][]byte{0: whole[:lengths[0]], lengths[0]: head, size - int64(len(tail)): tail} {
		_, err := f.WriteAt(b, off)
		must(t, err)
	}
	replace(t, filepath.Join(dir, pcr.IndexNamePB), rawEntry("PCR_0.pcr", lengths[0], size-lengths[0]))
	d, _ := openPCR(t, dir, Options{})
	if got := readAt(t, d, imagePath(1, "PCR_0", 1), 0); !bytes.Equal(got, append(bytes.Clone(jpeg), 0xff, 0xd9)) {
		t.Errorf("the image beyond 5 GiB has %d bytes, want %d", len(got), len(jpeg)+2)
	}
	if s, err := d.Sample(context.Background(), imagePath(0, "PCR_0", 0)); err == nil {
		t.Errorf("an image of 5 GiB of nothing was taken: %+v", s.Shape)
	}
}
