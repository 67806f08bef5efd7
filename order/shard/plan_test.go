package shard

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pixel is byte at of sample i's image, for these tests.
func pixel(i int, at int64) byte { return byte(int64(i)*31 + at*7 + 1) }

func paint(i int, dst []byte, off int64) error {
	for k := range dst {
		dst[k] = pixel(i, off+int64(k))
	}
	return nil
}

// readerAt reads a plan as a file.
type readerAt struct{ *Plan }

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.Plan.ReadAt(p, off, paint)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func plan(t rapid.TB, samples []Sample) *Plan {
	t.Helper()
	p, err := New(len(samples), func(i int) Sample { return samples[i] })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// written is the same shard as archive/tar writes it.
func written(t rapid.TB, samples []Sample) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, body []byte) {
		h := &tar.Header{Name: name, Size: int64(len(body)), Mode: 0o444, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range samples {
		image := make([]byte, s.Bytes)
		_ = paint(i, image, 0)
		add(KeyText(s.Key)+s.Suffix, image)
		if s.Labelled {
			add(KeyText(s.Key)+".cls", []byte(strconv.FormatInt(s.Label, 10)))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func samples(t *rapid.T) []Sample {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sample {
		return Sample{
			Key:      rapid.Uint64().Draw(t, "key"),
			Suffix:   rapid.SampledFrom([]string{".npy", ".png", ".jpg", ".raw"}).Draw(t, "suffix"),
			Bytes:    rapid.SampledFrom([]int64{0, 1, 128, 511, 512, 513, 1024, 4000}).Draw(t, "bytes"),
			Label:    rapid.Int64().Draw(t, "label"),
			Labelled: rapid.Bool().Draw(t, "labelled"),
		}
	}), 0, 12).Draw(t, "samples")
}

// TestAsArchiveTar: the bytes are those that archive/tar writes, wherever and in
// whatever pieces they are read.
func TestAsArchiveTar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := samples(t)
		p, want := plan(t, list), written(t, list)
		if p.Size() != int64(len(want)) {
			t.Fatalf("the plan has %d bytes, archive/tar writes %d", p.Size(), len(want))
		}
		got := make([]byte, len(want))
		if n, err := p.ReadAt(got, 0, paint); n != len(want) || err != nil {
			t.Fatalf("%d bytes of %d were read: %v", n, len(want), err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("archive/tar writes other bytes: %s", cmp.Diff(want, got))
		}
		off := rapid.IntRange(0, len(want)+10).Draw(t, "off")
		piece := bytes.Repeat([]byte{0xee}, rapid.IntRange(0, 3000).Draw(t, "length"))
		n, err := p.ReadAt(piece, int64(off), paint)
		end := min(len(want), off+len(piece))
		if err != nil || n != max(end-off, 0) || n > 0 && !bytes.Equal(piece[:n], want[off:end]) {
			t.Fatalf("%d bytes at %d are wrong (%v)", n, off, err)
		}
	})
}

// TestReadBack: archive/tar finds what was put in, and where the plan says.
func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := samples(t)
		p := plan(t, list)
		for i, s := range list {
			from, to := p.Image(i)
			r := tar.NewReader(io.NewSectionReader(readerAt{p}, p.Start(i), p.Size()-p.Start(i)))
			h, err := r.Next()
			if err != nil || h.Name != KeyText(s.Key)+s.Suffix || h.Size != s.Bytes || h.Format != tar.FormatUSTAR || to-from != s.Bytes {
				t.Fatalf("sample %d: %+v, %v", i, h, err)
			}
			body, err := io.ReadAll(r)
			if err != nil || int64(len(body)) != s.Bytes || s.Bytes > 0 && body[0] != pixel(i, 0) {
				t.Fatalf("sample %d: %d bytes, %v", i, len(body), err)
			}
			for _, at := range []int64{p.Start(i), from - 1, max(to-1, from-1), p.Start(i+1) - 1} {
				if got := p.Find(at); got != i {
					t.Fatalf("the byte at %d is of sample %d, want %d", at, got, i)
				}
			}
		}
		if p.Find(p.Size()-1) != p.Len() {
			t.Fatal("the end belongs to a sample")
		}
	})
}

// TestOnlyWhatIsRead: an image is asked for the bytes that are read and no others.
func TestOnlyWhatIsRead(t *testing.T) {
	p := plan(t, []Sample{{Bytes: 10_000, Suffix: ".npy", Labelled: true}, {Key: 1, Bytes: 10_000, Suffix: ".npy"}})
	from, to := p.Image(0)
	asked := 0
	image := func(i int, dst []byte, off int64) error {
		asked += len(dst)
		return paint(i, dst, off)
	}
	buf := make([]byte, 20_000)
	for _, c := range []struct{ off, length, want int64 }{
		{0, 512, 0}, {from, 1, 1}, {to, p.Start(1) + 512 - to, 0}, {to - 7, 7 + 1536, 7}, {p.Size() - 1024, 1024, 0}, {0, p.Size(), 20_000},
	} {
		asked = 0
		if _, err := p.ReadAt(buf[:min(c.length, int64(len(buf)))], c.off, image); err != nil {
			t.Fatal(err)
		}
		if c.length <= int64(len(buf)) && int64(asked) != c.want {
			t.Errorf("%d bytes at %d: %d bytes of images were asked for, want %d", c.length, c.off, asked, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := p.ReadAt(buf, 0, func(int, []byte, int64) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error of an image: %v", err)
	}
	if n, err := p.ReadAt(buf, p.Size()+5, image); n != 0 || err != nil {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

func TestTooLarge(t *testing.T) {
	for _, n := range []int64{MaxMemberBytes + 1, -1} {
		if _, err := New(1, func(int) Sample { return Sample{Bytes: n} }); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	p, err := New(1, func(int) Sample { return Sample{Bytes: MaxMemberBytes, Suffix: ".npy"} })
	if err != nil {
		t.Fatal(err)
	}
	var block [blockBytes]byte
	if _, err := p.ReadAt(block[:], 0, paint); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(bytes.NewReader(block[:])).Next()
	if err != nil || h.Size != MaxMemberBytes {
		t.Errorf("the largest member: %+v, %v", h, err)
	}
}

// TestNoAllocations: reading allocates nothing, however many headers there are.
func TestNoAllocations(t *testing.T) {
	p := plan(t, []Sample{{Bytes: 100, Suffix: ".npy", Labelled: true, Label: 7}, {Key: 1, Bytes: 100, Suffix: ".npy", Labelled: true}})
	buf := make([]byte, p.Size())
	image := func(int, []byte, int64) error { return nil }
	if n := testing.AllocsPerRun(100, func() { _, _ = p.ReadAt(buf, 0, image) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
