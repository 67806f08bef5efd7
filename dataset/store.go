package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// The errors that a store adds to those of the operating system. Whatever a
// store returns names the path and what was being done, and wraps one of
// these, an error of io/fs (fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid,
// fs.ErrClosed) or the system's error number.
var (
	// ErrOutside says that a path leads out of the source, by way of a
	// symbolic link, or that this could not be ruled out.
	ErrOutside = errors.New("leads out of the source")

	// ErrSpecial says that a path names a device, a socket or a fifo, which
	// are never opened.
	ErrSpecial = errors.New("is a device, a socket or a fifo")

	// ErrChanged says that a file is no longer the one that was looked at
	// before: it was replaced, or written to, or cut. Looking again helps.
	ErrChanged = errors.New("changed in the source")
)

// Store is a source of files, such as a folder of this machine. It is kept to
// what something that is reached by a network can answer as well.
//
// Paths are relative and slash-separated, without ".", ".." or empty parts; ""
// is the root. Names are bytes, any but '/' and NUL, in no particular encoding.
//
// All methods may be called at the same time, except Close, which comes last.
// A context that has ended ends the call with its error, at the latest before
// the next request to what lies beneath; it does not outlive the call, so a
// File can be read after the context of its Open has ended.
//
// The interface is small so that a store can be wrapped by another one that
// counts, delays or fails.
type Store interface {
	// Stat describes what path leads to, following links.
	Stat(ctx context.Context, path string) (Info, error)

	// ReadDir calls yield for every entry of a folder, in the order of the
	// store, until yield returns false (and ReadDir nil). It holds a small part
	// of the entries at a time. The kinds are those that links lead to.
	// Entries made or removed meanwhile may or may not be seen.
	ReadDir(ctx context.Context, path string, yield func(DirEntry) bool) error

	// Open opens a regular file for reading. Devices, sockets and fifos are
	// refused with ErrSpecial without being touched, so it never blocks on one.
	Open(ctx context.Context, path string) (File, error)

	// String names the store for people: the folder, the address.
	String() string

	// Close frees what the store holds. Open files stay usable.
	Close() error
}

// File is an open file of a store. ReadAt is as io.ReaderAt has it.
type File interface {
	ReadAt(p []byte, off int64) (int, error)

	// Info describes the file as it was found when it was opened.
	Info() Info

	// Stat describes the open file as it is now, asking the store anew. It is
	// this file still when another one has taken its name.
	Stat() (Info, error)

	Close() error
}

// Kind is what a path leads to.
type Kind uint8

// The kinds. The zero value is none.
const (
	Dir     Kind = iota + 1
	Regular      // a file with content
	Special      // a device, a socket or a fifo: shown to nobody, never opened
	Broken       // a link that cannot be followed; of directory entries only
)

// String returns a word for people.
func (k Kind) String() string {
	switch k {
	case Dir:
		return "folder"
	case Regular:
		return "file"
	case Special:
		return "special file"
	case Broken:
		return "broken link"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Info describes a file or folder.
type Info struct {
	Kind     Kind
	Mode     fs.FileMode // the nine permission bits
	UID, GID uint32
	Size     int64 // bytes
	ID       Identity
}

// Identity tells one content from another: the same identity means the same
// content. Identities are compared with ==.
//
// With local files this holds as far as the kernel's time stamps do: a file
// that is written to in place twice within one tick of a coarse clock (up to
// 10 ms, before Linux 6.13) and keeps its size keeps its identity. Checksums
// within the files are the second line of defence.
type Identity struct {
	Dev, Ino         uint64
	Size             int64 // bytes
	MTimeNS, CTimeNS int64 // nanoseconds since 1970
}

// DirEntry is an entry of a folder.
type DirEntry struct {
	Name string
	Kind Kind
}
