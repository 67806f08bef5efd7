package dataset

import (
	"context"
	"sync"
)

// fetch fills buf with the parts of an image, one after another: out of what was
// read ahead where the images of a record are read in order, else with exact
// reads.
func (d *Dataset) fetch(ctx context.Context, columns []column, image int, parts []part, buf []byte) error {
	w, load := d.runs.next(columns, image)
	if load {
		w.load(ctx, d, columns)
	}
	if w != nil {
		if err := w.copyTo(ctx, buf, parts); err == nil || ctx.Err() != nil {
			return err
		}
		// What could not be read for others too might be readable by itself.
	}
	r := columns[0].r
	f, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	err = d.readParts(ctx, f, parts, buf)
	if ctx.Err() == nil {
		if changed := checkSame(f, r.info.ID); changed != nil {
			r.folder.stale.Store(true)
			err = changed
		}
	}
	return err
}

// joinedPool has room for ranges that are read together with what lies between.
var joinedPool = sync.Pool{New: func() any { return new([]byte) }}

// readParts fills buf with parts of a file, which ascend. Those that are no
// further than the gap from each other are read together.
func (d *Dataset) readParts(ctx context.Context, f File, parts []part, buf []byte) error {
	for len(parts) > 0 {
		joined, end := 1, parts[0].at+parts[0].n
		for joined < len(parts) && parts[joined].at-end <= d.maxGap && parts[joined].at >= end {
			end = parts[joined].at + parts[joined].n
			joined++
		}
		var wanted int64
		for _, p := range parts[:joined] {
			wanted += p.n
		}
		if err := d.readJoined(ctx, f, parts[:joined], end, buf[:wanted]); err != nil {
			return err
		}
		buf, parts = buf[wanted:], parts[joined:]
	}
	return nil
}

// readJoined fills buf with parts that are read at once, up to end.
func (d *Dataset) readJoined(ctx context.Context, f File, parts []part, end int64, buf []byte) error {
	from := parts[0].at
	if end == from {
		return nil
	}
	r := offsetReader{countingReader{f, &d.bytesRead}, from}
	if int64(len(buf)) == end-from {
		return readFull(ctx, r, buf)
	}
	pooled := joinedPool.Get().(*[]byte)
	defer joinedPool.Put(pooled)
	if int64(cap(*pooled)) < end-from {
		*pooled = make([]byte, end-from)
	}
	all := (*pooled)[:end-from]
	if err := readFull(ctx, r, all); err != nil {
		return err
	}
	for _, p := range parts {
		copy(buf, all[p.at-from:][:p.n])
		buf = buf[p.n:]
	}
	return nil
}

// offsetReader is a file from an offset on.
type offsetReader struct {
	countingReader
	from int64
}

func (r offsetReader) ReadAt(p []byte, off int64) (int, error) {
	return r.countingReader.ReadAt(p, r.from+off)
}
