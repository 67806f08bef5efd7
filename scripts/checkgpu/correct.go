package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"prismfs/gpudecode"
	"prismfs/gpudecode/kernels"
	"prismfs/l3"
)

// checkKernels decodes all samples in one batch, with channels interleaved and one
// after another, then damaged ones, which must be refused, among good ones. It
// returns what was decoded.
func checkKernels(c *card, all []*sample) (string, error) {
	var samples []*sample
	var files [][]byte
	for _, s := range all {
		if kernels.Takes(s.plan.Info.Coding) {
			samples, files = append(samples, s), append(files, s.file)
		}
	}
	var counts []string
	for _, planar := range []bool{false, true} {
		w, err := c.newWork(samples, files, planar)
		if err != nil {
			return "", err
		}
		err = decodeAndCompare(w, samples, planar, nil)
		if !planar {
			counts = patchCounts(&w.batch)
		}
		if err = errors.Join(err, w.free()); err != nil {
			return "", err
		}
	}
	if len(counts) < int(kernels.Count) {
		return "", fmt.Errorf("not every kernel had patches: %s", strings.Join(counts, ", "))
	}
	refused, err := checkDamaged(c, samples)
	return fmt.Sprintf("%d images, interleaved and planar; %s patches; %d damaged images refused",
		len(samples), strings.Join(counts, ", "), refused), err
}

func patchCounts(b *kernels.Batch) []string {
	var counts []string
	for k := range kernels.Count {
		if n := len(b.Patches[k]); n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", k.Name(), n))
		}
	}
	return counts
}

func decodeAndCompare(w *work, samples []*sample, planar bool, damaged map[int]bool) error {
	if err := w.once(); err != nil {
		return err
	}
	return compare(w, samples, planar, damaged)
}

// compare compares what came out with the samples. Those of damaged images must be
// refused instead.
func compare(w *work, samples []*sample, planar bool, damaged map[int]bool) error {
	bad := w.worst()
	for i, s := range samples {
		status, refused := bad[i]
		switch {
		case damaged[i] && !refused:
			return fmt.Errorf("%s is damaged and was not refused", s.name)
		case damaged[i]:
			continue
		case refused:
			return fmt.Errorf("%s was refused: %v", s.name, status)
		}
		want, got := s.image.Pix, w.down[w.samples[i]:w.samples[i]+int64(len(s.image.Pix))]
		if planar {
			want = inPlanes(s)
		}
		if at := firstDifference(got, want); at >= 0 {
			return fmt.Errorf("%s: byte %d is %d, want %d (planar: %v)", s.name, at, got[at], want[at], planar)
		}
	}
	return nil
}

func firstDifference(got, want []byte) int {
	if bytes.Equal(got, want) {
		return -1
	}
	for i := range want {
		if got[i] != want[i] {
			return i
		}
	}
	return -1
}

// inPlanes returns the samples of an image with one channel after another.
func inPlanes(s *sample) []byte {
	size, channels := s.image.DType.Size(), s.image.Channels
	planes := make([]byte, 0, len(s.image.Pix))
	for c := range channels {
		for at := c * size; at < len(s.image.Pix); at += channels * size {
			planes = append(planes, s.image.Pix[at:at+size]...)
		}
	}
	return planes
}

// checkDamaged changes a byte of a patch of every other image that has checksums.
func checkDamaged(c *card, samples []*sample) (int, error) {
	files := make([][]byte, len(samples))
	damaged := make(map[int]bool)
	for i, s := range samples {
		files[i] = s.file
		p := s.plan.Patches[i%len(s.plan.Patches)]
		if i%2 == 0 && s.plan.Info.Coding != l3.Published && p.End > p.Start {
			files[i] = bytes.Clone(s.file)
			files[i][p.Start+(p.End-p.Start)*(i%7)/7] ^= 1 << (i % 8)
			damaged[i] = true
		}
	}
	w, err := c.newWork(samples, files, false)
	if err != nil {
		return 0, err
	}
	return len(damaged), errors.Join(decodeAndCompare(w, samples, false, damaged), w.free())
}

// readers is how many images are decoded at a time.
const readers = 64

// checkDecoder decodes all samples at the same time by the decoder of a mount. The
// device must have done all that it can.
func checkDecoder(ctx context.Context, d *gpudecode.Decoder, samples []*sample) (string, error) {
	forDevice := uint64(0)
	for _, s := range samples {
		if kernels.Takes(s.plan.Info.Coding) {
			forDevice++
		}
	}
	before := d.Stats().Device
	if err := eachAtOnce(len(samples), func(i int) error { return decodeOne(ctx, d, samples[i]) }); err != nil {
		return "", err
	}
	v := d.Stats().Device
	done := v.BatchImages - before.BatchImages
	if done != forDevice || v.Failed+v.Refused+v.NoMemory+v.TooLarge+v.Disagreed+v.Losses != 0 {
		return "", fmt.Errorf("the device decoded %d of %d images: %+v", done, forDevice, v)
	}
	return fmt.Sprintf("%d images in %d batches, %d of them raw, on the CPU", len(samples), v.Batches-before.Batches, uint64(len(samples))-done), nil
}

func decodeOne(ctx context.Context, d *gpudecode.Decoder, s *sample) error {
	pix := make([]byte, len(s.image.Pix))
	if err := decodeInto(ctx, d, s, pix); err != nil {
		return err
	}
	if at := firstDifference(pix, s.image.Pix); at >= 0 {
		return fmt.Errorf("%s: byte %d is %d, want %d", s.name, at, pix[at], s.image.Pix[at])
	}
	return nil
}

func decodeInto(ctx context.Context, d *gpudecode.Decoder, s *sample, pix []byte) error {
	return d.Decode(ctx, &gpudecode.Request{Codec: gpudecode.L3, Encoded: s.file, Pix: pix, Shape: s.image.Shape, Name: s.name})
}

// eachAtOnce calls f for 0 to n-1, for some of them at a time, and returns the
// errors.
func eachAtOnce(n int, f func(int) error) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	for range readers {
		wg.Go(func() {
			for i := take(); i < n; i = take() {
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
