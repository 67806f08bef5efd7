package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"prismfs/gpudecode"
	"prismfs/l3"
	"prismfs/raster"
)

// A row is what was measured of one coding, in bytes of samples a second.
type row struct {
	name    string
	batch   int // images of a batch
	kernel  float64
	copies  float64
	decoder float64
	cpu     float64
	mount   mountRow
}

// mostBatchBytes is the size of a batch in which a kernel is measured, of samples:
// tens of thousands of patches.
const (
	mostBatchBytes = 96 << 20
	mostQuickBytes = 256 << 10
)

// longBatch is the time from which on a batch is large enough.
const longBatch = 20 * time.Millisecond

// measured are the images of each coding that throughput is measured with.
func measured(quick bool) (map[string][]*sample, []string, error) {
	height, width := 512, 768
	if quick {
		height, width = 64, 128
	}
	rgb, deep := shapeOf(height, width, 3, raster.Uint8), shapeOf(height, width, 1, raster.Uint16)
	order := []string{"published", "fast, 8 bits RGB", "dense, 8 bits RGB", "fast, 16 bits", "dense, 16 bits", "labels"}
	modes := []l3.Mode{l3.ModePublished, l3.ModeFast, l3.ModeDense, l3.ModeFast, l3.ModeDense, l3.ModeLabels}
	images := make(map[string][]*sample)
	for seed := range uint64(4) {
		for i, name := range order {
			img := photograph(rgb, seed)
			switch {
			case modes[i] == l3.ModeLabels:
				img = labels(height, width, seed)
			case i > 2:
				img = photograph(deep, seed)
			}
			s, err := newSample(name, img, modes[i])
			if err != nil {
				return nil, nil, err
			}
			images[name] = append(images[name], s)
		}
	}
	return images, order, nil
}

// measure measures and prints the table.
func measure(ctx context.Context, opt options, c *card, onDevice *gpudecode.Decoder, out io.Writer) error {
	images, order, err := measured(opt.quick)
	if err != nil {
		return err
	}
	onCPU := gpudecode.New(gpudecode.Options{})
	defer onCPU.Close()
	var rows []row
	for _, name := range order {
		r := row{name: name}
		if err := errors.Join(
			measureCard(&r, opt, c, images[name]),
			measureDecoder(ctx, &r.decoder, opt, onDevice, images[name]),
			measureDecoder(ctx, &r.cpu, opt, onCPU, images[name]),
		); err != nil {
			return fmt.Errorf("measuring %s: %w", name, err)
		}
		rows = append(rows, r)
	}
	noMount, err := measureMounts(ctx, opt, rows, images)
	if err != nil {
		return fmt.Errorf("through a mount: %w", err)
	}
	if s := onDevice.Stats().Device; s.Failed+s.Disagreed+s.Refused+s.Losses > 0 {
		return fmt.Errorf("the device failed while it was measured: %+v", s)
	}
	return printTable(out, rows, noMount)
}

// measureCard measures kernels alone, and with copies in both directions.
func measureCard(r *row, opt options, c *card, images []*sample) error {
	most := mostBatchBytes
	if opt.quick {
		most = mostQuickBytes
	}
	for r.batch = len(images); ; r.batch *= 2 {
		w, err := c.newWorkOf(images, r.batch)
		if err != nil {
			return err
		}
		took, err := kernelTime(w, opt.each)
		bytes := r.batch * len(images[0].image.Pix)
		r.kernel = float64(bytes) / took.Seconds()
		if err = errors.Join(err, w.free()); err != nil {
			return err
		}
		if took > longBatch || 2*bytes > most {
			break
		}
	}
	return measureCopies(r, opt, c, images)
}

// newWorkOf makes a batch of so many images.
func (c *card) newWorkOf(images []*sample, count int) (*work, error) {
	var samples []*sample
	var files [][]byte
	for i := range count {
		samples, files = append(samples, images[i%len(images)]), append(files, images[i%len(images)].file)
	}
	return c.newWork(samples, files, false)
}

// kernelTime returns what the kernels of a batch take.
func kernelTime(w *work, budget time.Duration) (time.Duration, error) {
	if err := w.once(); err != nil { // which may load kernels
		return 0, err
	}
	const atATime = 4
	begun, n := time.Now(), 0
	for n == 0 || time.Since(begun) < budget/4 {
		for range atATime {
			if err := w.launch(); err != nil {
				return 0, err
			}
		}
		if err := w.stream.Synchronize(); err != nil {
			return 0, err
		}
		n += atATime
	}
	return time.Since(begun) / time.Duration(n), nil
}

// streams is how many batches are on their way at a time, as in the decoder.
const streams = 3

// measureCopies measures batches that go up from pinned memory and come back there,
// on streams whose copies and kernels may overlap.
func measureCopies(r *row, opt options, c *card, images []*sample) error {
	var works []*work
	var failed error
	for range streams {
		w, err := c.newWorkOf(images, r.batch)
		if err != nil {
			failed = err
			break
		}
		works = append(works, w)
	}
	if failed == nil {
		var took time.Duration
		took, failed = overlapped(works, opt.each)
		r.copies = float64(r.batch*len(images[0].image.Pix)) / took.Seconds()
	}
	for _, w := range works {
		failed = errors.Join(failed, w.free())
	}
	return failed
}

// overlapped returns the time for each batch.
func overlapped(works []*work, budget time.Duration) (time.Duration, error) {
	for _, w := range works {
		if err := w.once(); err != nil {
			return 0, err
		}
	}
	begun, n := time.Now(), 0
	for ; n < len(works) || time.Since(begun) < budget; n++ {
		w := works[n%len(works)]
		if err := errors.Join(w.stream.Synchronize(), w.upload(), w.launch(), w.download()); err != nil {
			return 0, err
		}
	}
	for _, w := range works {
		if err := w.stream.Synchronize(); err != nil {
			return 0, err
		}
	}
	return time.Since(begun) / time.Duration(n), nil
}

// measureDecoder measures a decoder that many readers ask.
func measureDecoder(ctx context.Context, rate *float64, opt options, d *gpudecode.Decoder, images []*sample) error {
	begun := time.Now()
	total := make([]int, readers)
	err := eachAtOnce(readers, func(reader int) error {
		s := images[reader%len(images)]
		pix := make([]byte, len(s.image.Pix))
		for ok := true; ok; ok = time.Since(begun) < opt.each {
			if err := decodeInto(ctx, d, s, pix); err != nil {
				return err
			}
			total[reader] += len(pix)
		}
		return nil
	})
	seconds, sum := time.Since(begun).Seconds(), 0
	for _, n := range total {
		sum += n
	}
	*rate = float64(sum) / seconds
	return err
}

// printTable prints the rates in GB/s.
func printTable(out io.Writer, rows []row, noMount string) error {
	fmt.Fprintln(out, "\nGB/s of samples (10^9 bytes):")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "coding\tbatch\tkernels\twith copies\tdecoder\tCPU alone\tmount, GPU\tmount, CPU\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.name, r.batch,
			giga(r.kernel), giga(r.copies), giga(r.decoder), giga(r.cpu), giga(r.mount.cuda), giga(r.mount.cpu))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if noMount != "" {
		fmt.Fprintln(out, "no mount was measured:", noMount)
	}
	return nil
}

func giga(rate float64) string {
	if rate == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g", rate/1e9)
}
