package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"unique"

	"prismfs/l3"
	"prismfs/raster"
)

// SampleSuffix ends the names of L3 files, RecordSuffix those of the images of
// records in the tree that a dataset shows.
const (
	SampleSuffix = ".l3"
	RecordSuffix = ".pcr"
)

// readBytes is how much of a sample is asked for at a time. Most samples are
// smaller; of a larger one, the rest is not read once the caller has gone.
const readBytes = 4 << 20

// The encoded bytes of an image are at most its head, four times its samples and
// encodedSlackBytes. Both formats stay far below: rows of the published one cost
// 2 bytes and their samples at most, which is three times the samples for
// patches of a single pixel. Anything larger is not the image that it claims.
const (
	encodedGrowth     = 4
	encodedSlackBytes = 4096
)

// ErrNotSample says that a path names no sample: another suffix, a folder, or a
// record that is in no PCR folder.
var ErrNotSample = errors.New("not a sample")

// Format says how a sample is encoded.
type Format uint8

// The formats. The zero value is none.
const (
	L3  Format = iota + 1
	PCR        // an image of a record, which is a JPEG at every fidelity
)

// Sample is an image of a dataset. It is shared: nothing in it may be changed.
type Sample struct {
	Path   string // in the tree that the dataset shows
	Stem   string // the name, without folders and suffix
	Info   Info   // of the file; of an image of a record see Dataset.Stat
	Format Format
	Shape  raster.Shape // of the decoded image
	Levels int          // fidelities that differ: 1 for L3, the scan groups of its record for PCR

	Label        *int   // nil where none is known
	Class        string // name of the label, else ""
	OriginalName string // before it was packed, without folders, else ""
	// OriginalUnique says that no other image in the folder of a record's image has
	// its OriginalName: it can be shown under that, whatever Stem is.
	OriginalUnique bool
	Coding         l3.Coding // of an L3 file
	Source         string    // path of the file of the source that holds it

	record *record // of an image of a record, else nil
	index  int     // in the record

	// Of an L3 file, what its header says of its bytes; fileBytes is 0 where it says
	// nothing. There can be a million samples in memory: the rest of the header is
	// not kept.
	headBytes, fileBytes int64
}

// IsSample tells by its name whether a file is a sample: the name, or the last
// part of the path, is something that ends in .l3 or .pcr.
func IsSample(name string) bool { return len(sampleSuffix(name)) > 0 }

// TrimSampleSuffix takes the suffix off the name of a sample, and returns every
// other name as it is.
func TrimSampleSuffix(name string) string {
	return strings.TrimSuffix(name, sampleSuffix(name))
}

// sampleSuffix returns the suffix that makes a name that of a sample, else "".
func sampleSuffix(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	for _, suffix := range [...]string{SampleSuffix, RecordSuffix} {
		if len(base) > len(suffix) && strings.HasSuffix(base, suffix) {
			return suffix
		}
	}
	return ""
}

// Sample describes the sample at path. Its header is remembered while the file
// stays the same, and read once, however many ask; of a store that is near, those
// who are the first at the very same time may each read it. Errors wrap those of
// the store, ErrNotSample, ErrSpecial, ErrChanged or those of l3.
func (d *Dataset) Sample(ctx context.Context, path string) (*Sample, error) {
	switch sampleSuffix(path) {
	case "":
		return nil, d.failed("read the header of", path, ErrNotSample)
	case RecordSuffix:
		return d.imageOf(ctx, path)
	}
	f, inside, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if f != nil {
		if _, _, err := d.statInside(ctx, path, f, inside); err != nil {
			return nil, err
		}
		return nil, d.failed("read the header of", path, ErrNotSample)
	}
	// Who can go away must not wait for a store himself: see sampleOnce.
	if near, ok := d.store.(nearStore); ok && ctx.Done() == nil && !d.headers.has(path) {
		return d.sampleAtOnce(ctx, near, path)
	}
	info, err := d.store.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := d.refuseHeader(path, info.Kind); err != nil {
		return nil, err
	}
	if s := d.headers.get(path, info.ID); s != nil {
		return s, nil
	}
	return d.sampleOnce(ctx, path, info.ID)
}

// refuseHeader says why something of a kind is no sample, whatever its name.
func (d *Dataset) refuseHeader(path string, k Kind) error {
	switch k {
	case Regular:
		return nil
	case Dir:
		return d.failed("read the header of", path, ErrNotSample)
	}
	return d.failed("read the header of", path, ErrSpecial)
}

// sampleOnce reads a header, or waits for somebody who is reading it already. A
// reader who goes away leaves the others their answer.
func (d *Dataset) sampleOnce(ctx context.Context, path string, id Identity) (*Sample, error) {
	detached := context.WithoutCancel(ctx)
	read := func() (any, error) {
		// Between the look above and here another flight may have landed.
		if s := d.headers.get(path, id); s != nil {
			return s, nil
		}
		s, err := d.readHeader(detached, path)
		if err != nil {
			return nil, err
		}
		d.headers.add(s)
		return s, nil
	}
	if ctx.Done() == nil { // no other goroutine needs to do it, then
		s, err, _ := d.flights.Do(flightKey(path, id), read)
		if err != nil {
			return nil, err
		}
		return s.(*Sample), nil
	}
	answer := d.flights.DoChan(flightKey(path, id), read)
	select {
	case <-ctx.Done():
		return nil, d.failed("read the header of", path, ctx.Err())
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Val.(*Sample), nil
	}
}

// flightKey is different for different files of one name, so that who has seen
// the new file is not answered with the old one. Paths have no NUL.
func flightKey(path string, id Identity) string {
	key := make([]byte, 0, len(path)+1+5*8)
	key = append(append(key, path...), 0)
	for _, v := range []uint64{id.Dev, id.Ino, uint64(id.Size), uint64(id.MTimeNS), uint64(id.CTimeNS)} {
		key = binary.LittleEndian.AppendUint64(key, v)
	}
	return string(key)
}

func (d *Dataset) readHeader(ctx context.Context, path string) (*Sample, error) {
	f, err := d.store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info := f.Info()
	head, err := l3.ReadInfo(countingReader{f, &d.bytesIndex}, info.Size, d.limits)
	if changed := checkSame(f, info.ID); changed != nil {
		err = changed // and what was found in it before is of no account
	}
	if err != nil {
		return nil, d.failed("read the header of", path, err)
	}
	return newSample(path, info, head), nil
}

// newSample makes the sample of an L3 file of its header.
func newSample(path string, info Info, head l3.Info) *Sample {
	path = strings.Clone(path) // it may be part of something larger
	stem := strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], SampleSuffix)
	fileBytes := head.FileBytes
	if head.Version < 2 {
		fileBytes = 0
	}
	return &Sample{
		Path: path, Stem: stem, Info: info, Format: L3, Shape: head.Shape, Levels: 1, Coding: head.Coding,
		Label: intLabel(head.Meta.Label), OriginalName: head.Meta.OriginalName, Source: path,
		Class:     unique.Make(head.Meta.Class).Value(), // one string for all of a class
		headBytes: head.HeadBytes, fileBytes: fileBytes,
	}
}

// intLabel returns a label as an int, nil where it does not fit one.
func intLabel(l *int64) *int {
	if l == nil || int64(int(*l)) != *l {
		return nil
	}
	label := int(*l)
	return &label
}

// checkSame gives ErrChanged unless an open file still is what it was.
func checkSame(f File, id Identity) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if now.ID != id {
		return fmt.Errorf("%w while it was being read", ErrChanged)
	}
	return nil
}

// countingReader counts the bytes that are read.
type countingReader struct {
	r     io.ReaderAt
	count *atomic.Uint64
}

func (c countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	if n > 0 {
		c.count.Add(uint64(n))
	}
	return n, err
}

// ReadEncoded reads what a sample is encoded as at a fidelity, into the memory of
// buf or, where that is too small, of a new buffer, and returns it: the whole
// file of an L3 sample, which has one fidelity, or the JPEG of the scan groups 1
// to fidelity of an image of a record, ended by EOI. Fidelity 0 is the full one,
// and so is any above Levels. With an error it returns no bytes, but the buffer
// to be used again, of length 0.
//
// ErrChanged says that the file is no longer the one that s describes, or did
// not stay so while it was read; Sample then describes the new one.
func (d *Dataset) ReadEncoded(ctx context.Context, s *Sample, fidelity int, buf []byte) ([]byte, error) {
	if s.record != nil {
		return d.readJPEG(ctx, s, fidelity, buf)
	}
	return d.readFile(ctx, s, buf)
}

// EncodedBytes returns the length of what ReadEncoded gives.
func (d *Dataset) EncodedBytes(ctx context.Context, s *Sample, fidelity int) (int64, error) {
	if s.record != nil {
		return d.jpegBytes(ctx, s, fidelity)
	}
	return s.Info.Size, nil
}

// readFile reads the file of an L3 sample.
func (d *Dataset) readFile(ctx context.Context, s *Sample, buf []byte) ([]byte, error) {
	buf = buf[:0]
	if err := checkEncodedSize(s); err != nil {
		return buf, d.failed("read", s.Path, err)
	}
	f, err := d.store.Open(ctx, s.Path)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	if f.Info().ID != s.Info.ID {
		return buf, d.failed("read", s.Path, fmt.Errorf("%w since its header was read", ErrChanged))
	}
	buf = slices.Grow(buf, int(s.Info.Size))
	err = readFull(ctx, countingReader{f, &d.bytesRead}, buf[:s.Info.Size])
	if ctx.Err() == nil {
		// A file that was cut gives a short read; that it changed says more.
		if changed := checkSame(f, s.Info.ID); changed != nil {
			err = changed
		}
	}
	if err != nil {
		return buf, d.failed("read", s.Path, err)
	}
	d.bytesNeeded.Add(uint64(s.Info.Size))
	return buf[:s.Info.Size], nil
}

// readFull fills p from the beginning of r, in parts, as long as ctx lasts.
func readFull(ctx context.Context, r io.ReaderAt, p []byte) error {
	for off := 0; off < len(p); {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := p[off:min(len(p), off+readBytes)]
		n, err := r.ReadAt(part, int64(off))
		off += n
		switch {
		case n == len(part): // an error, io.EOF at most, comes again or is none
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		default:
			return io.ErrNoProgress
		}
	}
	return nil
}

// checkEncodedSize holds the size of a file against what its header says.
func checkEncodedSize(s *Sample) error {
	size, said := s.Info.Size, s.fileBytes
	switch {
	case said > 0 && size < said:
		return fmt.Errorf("%w: %d of %d bytes", l3.ErrTruncated, size, said)
	case said > 0 && size > said:
		return fmt.Errorf("%w: %d bytes follow the end", l3.ErrCorrupt, size-said)
	case (size-s.headBytes-encodedSlackBytes)/encodedGrowth > s.Shape.Bytes():
		return fmt.Errorf("%w: %d bytes for an image of %d", l3.ErrTooLarge, size, s.Shape.Bytes())
	case size > math.MaxInt:
		return fmt.Errorf("%w: %d bytes do not fit the address space", l3.ErrTooLarge, size)
	}
	return nil
}
