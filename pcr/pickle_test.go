package pcr

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// pickled is a line of testdata/pickles.tsv.
type pickled struct {
	name, want string // integers, or "refused"
	data       []byte
}

func pickles(tb testing.TB) []pickled {
	tb.Helper()
	f, err := os.Open("testdata/pickles.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var out []pickled
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "\t")
		if len(parts) != 3 {
			tb.Fatalf("%q", lines.Text())
		}
		data, err := hex.DecodeString(parts[2])
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, pickled{name: parts[0], want: parts[1], data: data})
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		tb.Fatalf("%d pickles, %v", len(out), err)
	}
	return out
}

func TestPickles(t *testing.T) {
	for _, p := range pickles(t) {
		got, err := parsePickleInts(p.data)
		if p.want == "refused" {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v, %v", p.name, got, err)
			}
			continue
		}
		if text := strings.Trim(fmt.Sprint(got), "[]"); err != nil || text != p.want {
			t.Errorf("%s: %s, %v, want %s", p.name, text, err, p.want)
		}
		// Every prefix is cut: STOP is the last byte.
		for n := range p.data[:min(len(p.data), 300)-1] {
			if _, err := parsePickleInts(p.data[:n]); err == nil {
				t.Errorf("%s: the first %d bytes are taken for all", p.name, n)
			}
		}
	}
}

func TestPickledInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"\x80\x05K\x10.":                        16,
		"\x80\x05M\x10\x27.":                    10000,
		"\x80\x03J\xff\xff\xff\xff.":            -1,
		"\x80\x04\x8a\x05\x00\x00\x00\x00\x01.": 1 << 32,
		"\x80\x04\x8a\x00.":                     0,
	} {
		if got, err := parsePickleInt([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "\x80\x05].", "\x80\x05N.", "\x80\x01K\x01.", "\x80\x06K\x01."} {
		if got, err := parsePickleInt([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// A pickle cannot make much of a little: an array of the same memoised bytes
// again and again, a name again and again.
func TestPickleBomb(t *testing.T) {
	size := 1 << 16
	b := []byte("\x80\x05\x8e") // BINBYTES8
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = append(b, make([]byte, size)...)
	b = append(b, "q\x00\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02i1\x85Rq\x01"...)
	b = append(b, "\x8c\x12numpy.core.numeric\x8c\x0b_frombuffer\x93q\x02"...)
	again := append([]byte("h\x02(h\x00h\x01J"), binary.LittleEndian.AppendUint32(nil, uint32(size))...)
	again = append(again, "\x85\x8c\x01CtR"...)
	once := append(bytes.Clone(b), again...)
	// The values below the array are left on the stack.
	if _, err := parsePickle(append(bytes.Clone(once), '.')); err == nil || !strings.Contains(err.Error(), "left at its end") {
		t.Fatalf("one array: %v", err)
	}
	for range 100 {
		once = append(once, again...)
	}
	if _, err := parsePickle(append(once, '.')); err == nil || !strings.Contains(err.Error(), "more than it holds") {
		t.Errorf("100 arrays of the same bytes: %v", err)
	}

	name := []byte("\x80\x05X\x00\x00\x01\x00") // BINUNICODE of 65536 bytes
	name = append(name, bytes.Repeat([]byte("x"), size)...)
	name = append(name, "q\x00"...)
	for range 100 {
		name = append(name, "h\x00h\x00\x93"...)
	}
	if _, err := parsePickle(append(name, '.')); err == nil || !strings.Contains(err.Error(), "more than it holds") {
		t.Errorf("100 names: %v", err)
	}
}
