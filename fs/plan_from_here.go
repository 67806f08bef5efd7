package fs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"prismfs/order"
)

// Paths of a plan that were written in a terminal are often relative to the folder
// that it is in: mnt/train/001.npy. The daemon knows nothing of that folder, so
// they are made absolute on the side of the sender.

// fromWorkingFolder copies a plan with those of its relative paths made absolute
// that lie below a mount point, which may have two names, when they are taken as
// relative to the folder that this process works in. It returns the copy, in a file
// without a name, its size, and whether any path was changed.
func fromWorkingFolder(plan io.Reader, mountpoints ...string) (f *os.File, size int64, changed bool, err error) {
	f, err = order.UnnamedFile("")
	if err != nil {
		return nil, 0, false, err
	}
	folders := workingFolders()
	in, out := bufio.NewReaderSize(plan, 1<<16), bufio.NewWriterSize(f, 1<<16)
	for {
		line, err := in.ReadSlice('\n') // of a line that is too long a part: the mount refuses it
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, 0, false, errors.Join(err, f.Close())
		}
		text := string(line)
		if abs, ok := below(folders, strings.TrimRight(text, "\r\n"), mountpoints); ok {
			text, changed = abs+"\n", true
		}
		out.WriteString(text) // whose error comes again, with that of Flush
		size += int64(len(text))
		if errors.Is(err, io.EOF) {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return nil, 0, false, errors.Join(err, f.Close())
	}
	return f, size, changed, nil
}

// workingFolders returns the names of the folder that this process works in: the
// one by which its caller got there, and the one without links. There is none if it
// was removed.
func workingFolders() []string {
	here, err := os.Getwd()
	if err != nil {
		return nil
	}
	real, err := filepath.EvalSymlinks(here)
	if err != nil || real == here {
		return []string{here}
	}
	return []string{here, real}
}

// below returns a relative path as an absolute one below one of the mount points, if
// from one of the folders it leads there.
func below(folders []string, path string, mountpoints []string) (string, bool) {
	if path == "" || filepath.IsAbs(path) {
		return "", false
	}
	for _, folder := range folders {
		abs := filepath.Join(folder, path)
		for _, m := range mountpoints {
			if abs != m && within(abs, m) {
				return abs, true
			}
		}
	}
	return "", false
}
