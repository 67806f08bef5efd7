package dataset

import (
	"context"
	"errors"
	"sync"

	"prismfs/l3"
)

// The first stat of a name is what ls -l and du of a large folder are made of. To
// look at a file, open it, read its header and look again are four requests to a
// store, which a store that is near can answer as one.

// nearStore is a store for which reading a little costs no more than describing.
type nearStore interface {
	Store

	// ReadStart describes what path leads to and, of a regular file, reads as many
	// of its first bytes as p and the file have. The bytes are those of the file
	// that Info describes, else the error is ErrChanged.
	ReadStart(ctx context.Context, path string, p []byte) (Info, int, error)

	// OpenFolder opens a folder to look at many of its files; errors.ErrUnsupported
	// says that they have to be looked at one by one.
	OpenFolder(ctx context.Context, path string) (nearFolder, error)
}

// startPool has buffers for the beginnings of files.
var startPool = sync.Pool{New: func() any { return new([l3.PrefixBytes]byte) }}

// sampleAtOnce describes a sample of which nothing is known yet.
func (d *Dataset) sampleAtOnce(ctx context.Context, near nearStore, path string) (*Sample, error) {
	buf := startPool.Get().(*[l3.PrefixBytes]byte)
	defer startPool.Put(buf)
	info, n, err := near.ReadStart(ctx, path, buf[:])
	if err != nil {
		return nil, err
	}
	if err := d.refuseHeader(path, info.Kind); err != nil {
		return nil, err
	}
	d.bytesIndex.Add(uint64(n))
	head, err := l3.ReadInfo(start(buf[:n]), info.Size, d.limits)
	if errors.Is(err, errBehindStart) {
		return d.sampleOnce(ctx, path, info.ID)
	}
	if err != nil {
		return nil, d.failed("read the header of", path, err)
	}
	s := newSample(path, info, head)
	d.headers.add(s)
	return s, nil
}

// errBehindStart says that a header is longer than what was read of its file.
var errBehindStart = errors.New("behind what was read of the file")

// start is an io.ReaderAt of the beginning of a file.
type start []byte

func (s start) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(s)) || len(p) > len(s)-int(off) {
		return 0, errBehindStart
	}
	return copy(p, s[off:]), nil
}
