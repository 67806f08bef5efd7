package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// passThrough copies a file of the source as it is, under its own name.
func passThrough(t *target, f *os.File, info fs.FileInfo, path, dir string, force bool) (outcome, error) {
	replace := false
	switch there, err := t.root.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return outcome{}, fmt.Errorf("looking for %s in the destination: %w", Printable(path), err)
	case !there.Mode().IsRegular():
		return refusal("something that is no regular file stands in its place in the destination"), nil
	default:
		same, err := sameCopy(t, f, info, there, path)
		if err != nil {
			return refusal(reasonOf(err)), nil
		}
		if same {
			return outcome{fate: passed, already: true, in: info.Size(), out: info.Size()}, nil
		}
		lost := t.unclean && sameTime(info.ModTime(), there.ModTime())
		replace = force || lost || there.ModTime().Before(info.ModTime())
		if !replace {
			return refusal("a file with other content, which is not older, stands in its place in the destination: remove it, or choose another destination"), nil
		}
	}
	return copyFile(t, f, info, path, dir, replace)
}

// sameCopy tells whether a file in the destination is a copy of an earlier
// run. Time and size tell it, unless that run was killed.
func sameCopy(t *target, f *os.File, info, there fs.FileInfo, path string) (bool, error) {
	if there.Size() != info.Size() {
		return false, nil
	}
	if sameTime(info.ModTime(), there.ModTime()) && !t.unclean {
		return true, nil
	}
	g, err := t.root.Open(path)
	if err != nil {
		return false, err
	}
	defer g.Close()
	same, err := sameBytes(io.NewSectionReader(f, 0, info.Size()), g)
	if same && err == nil {
		err = t.root.Chtimes(path, time.Time{}, info.ModTime())
	}
	return same, err
}

// sameBytes compares two streams.
func sameBytes(a, b io.Reader) (bool, error) {
	const chunk = 64 << 10
	var x, y [chunk]byte
	for {
		n, errX := io.ReadFull(a, x[:])
		m, errY := io.ReadFull(b, y[:])
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		for _, err := range []error{errX, errY} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if errX != nil {
			return true, nil
		}
	}
}

func copyFile(t *target, f *os.File, info fs.FileInfo, path, dir string, replace bool) (outcome, error) {
	p, err := t.create(dir)
	if err != nil {
		return outcome{}, fmt.Errorf("writing to the destination: %w", err)
	}
	defer p.discard()
	source := &sourceReader{r: io.NewSectionReader(f, 0, info.Size())}
	n, err := io.Copy(p, source)
	switch {
	case source.err != nil:
		return refusal(reasonOf(source.err)), nil
	case err != nil:
		return outcome{}, fmt.Errorf("writing to the destination: %w", err)
	case n != info.Size():
		return refusal(errChanged.Error()), nil
	}
	if err := unchanged(f, info); err != nil {
		return refusal(reasonOf(err)), nil
	}
	return commit(p, path, info, replace, outcome{fate: passed, in: n, out: n})
}

// sourceReader remembers whether reading failed, to tell that from a failure
// to write.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
