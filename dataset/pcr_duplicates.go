package dataset

import (
	"bytes"
	"context"
	"errors"
	"io"

	"prismfs/pcr"
)

// sampledBytes is compared of every image whose lengths, in all groups, are
// those of another one. All images of a record would have to agree in them to be
// hidden by mistake.
const sampledBytes = 64

// repeatedImages returns how many images at the beginning of the last record are
// those of the record before it: a converter writes its last batch again before
// what remained. It looks at the labels first, then at the lengths of all parts
// of the images, at last at bytes of each: most often two records differ
// by the first, and nothing is read for it.
func (f *pcrFolder) repeatedImages(ctx context.Context, loads []*recordLoad) (int, error) {
	n := len(f.records)
	if n < 2 {
		return 0, nil
	}
	before, last := f.records[n-2], f.records[n-1]
	if last.Images < before.Images {
		return 0, nil
	}
	for i, label := range loads[n-2].labels {
		if loads[n-1].labels[i] != label {
			return 0, nil
		}
	}
	same, err := f.sameImages(ctx, before, last)
	if err == nil && same {
		return before.Images, nil
	}
	if err != nil && (ctx.Err() != nil || isScarcity(err)) {
		return 0, err
	}
	// Damaged records are not known to be the same.
	return 0, nil
}

// sameImages reports whether all images of a are the first ones of b.
func (f *pcrFolder) sameImages(ctx context.Context, a, b *record) (same bool, err error) {
	same = true
	err = f.table.safely(func() error {
		for g := 1; g <= max(a.levels(), b.levels()) && same; g++ {
			// Group by group: the first tells most records apart.
			if same, err = sameLengths(ctx, a, b, g); err != nil {
				return err
			}
		}
		if same {
			same, err = sameSamples(ctx, a, b)
		}
		return err
	})
	return same && err == nil, err
}

// sameLengths compares the lengths of the images in group g; a record that has
// no such group has empty ones.
func sameLengths(ctx context.Context, a, b *record, g int) (bool, error) {
	lengths := func(r *record) (func(int) int64, error) {
		if g > r.levels() {
			return func(int) int64 { return 0 }, nil
		}
		c, err := r.columns(ctx, g, nil)
		if err != nil {
			return nil, err
		}
		return c[g-1].length, nil
	}
	x, err := lengths(a)
	if err != nil {
		return false, err
	}
	y, err := lengths(b)
	if err != nil {
		return false, err
	}
	for i := range a.Images {
		if x(i) != y(i) {
			return false, nil
		}
	}
	return true, nil
}

// sameSamples compares the end of the largest part of each image, which is where
// even similar images differ. Where both records have checksums of all bytes,
// these are compared.
func sameSamples(ctx context.Context, a, b *record) (bool, error) {
	levels := min(a.levels(), b.levels())
	x, err := a.columns(ctx, levels, nil)
	if err != nil {
		return false, err
	}
	y, err := b.columns(ctx, levels, nil)
	if err != nil {
		return false, err
	}
	fa, err := a.open(ctx)
	if err != nil {
		return false, err
	}
	defer fa.Close()
	fb, err := b.open(ctx)
	if err != nil {
		return false, err
	}
	defer fb.Close()
	count := &a.folder.d.bytesIndex
	var bufA, bufB [sampledBytes]byte
	for i := range a.Images {
		largest := 0
		for g := range levels {
			if len(x[g].sums) > 0 && len(y[g].sums) > 0 && x[g].sums.at(i) != y[g].sums.at(i) {
				return false, nil
			}
			if x[g].length(i) > x[largest].length(i) {
				largest = g
			}
		}
		length := x[largest].length(i)
		n := min(length, sampledBytes)
		pa, pb := bufA[:n], bufB[:n]
		if err := readExactly(countingReader{fa, count}, pa, x[largest].at(i)+length-n); err != nil {
			return false, err
		}
		if err := readExactly(countingReader{fb, count}, pb, y[largest].at(i)+length-n); err != nil {
			return false, err
		}
		if !bytes.Equal(pa, pb) {
			return false, nil
		}
	}
	return true, nil
}

// readExactly fills p from an offset of a record.
func readExactly(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errors.Join(pcr.ErrDamaged, io.ErrUnexpectedEOF)
	}
	return err
}
