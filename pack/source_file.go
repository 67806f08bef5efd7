package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// prefixBytes is what is read of a file to tell what it is.
const prefixBytes = 512

// errChanged is the refusal of a file that was written to during the run.
var errChanged = errors.New("it was changed while it was being read")

// readPrefix returns the first bytes of a file.
func readPrefix(r io.ReaderAt) ([]byte, error) {
	buf := make([]byte, prefixBytes)
	n, err := r.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return buf[:n], nil
}

// readWhole reads a file of the size that info tells into buf, which grows
// where it must.
func readWhole(f *os.File, info fs.FileInfo, buf []byte) ([]byte, error) {
	size := info.Size()
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	if n, err := f.ReadAt(buf, 0); int64(n) < size {
		if err == io.EOF {
			err = errChanged
		}
		return buf[:0], err
	}
	return buf, unchanged(f, info)
}

// unchanged returns errChanged unless an open file is still as info tells.
func unchanged(f *os.File, info fs.FileInfo) error {
	now, err := f.Stat()
	if err == nil && (now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
		err = errChanged
	}
	return err
}

// openRegular opens a file of the source that was listed as a regular one.
func openRegular(source, path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(filepath.Join(source, path))
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be opened: %s", reasonOf(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errChanged
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
