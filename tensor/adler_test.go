package tensor

import (
	"bytes"
	"hash/adler32"
	"testing"
)

func TestAdler32(t *testing.T) {
	// The largest bytes make the largest sums; the lengths cross every loop.
	for _, n := range []int{0, 1, 63, 64, 65, 127, 5552, 65535, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20} {
		for _, p := range [][]byte{bytes.Repeat([]byte{255}, n), make([]byte, n), noise(int64(n))} {
			if got, want := adler32Update(1, p), adler32.Checksum(p); got != want {
				t.Errorf("%d bytes: %08x, want %08x", n, got, want)
			}
		}
	}
}

func FuzzAdler32(f *testing.F) {
	f.Add([]byte("a"), []byte("b"))
	f.Add(bytes.Repeat([]byte{255}, 200), noise(100))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		got := adler32Update(adler32Update(1, a), b)
		if want := adler32.Checksum(append(bytes.Clone(a), b...)); got != want {
			t.Errorf("%d and %d bytes: %08x, want %08x", len(a), len(b), got, want)
		}
	})
}
