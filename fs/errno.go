package fs

import (
	"errors"
	iofs "io/fs"
	"syscall"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/tensor"
)

// passedOn are the errors of the source's own file system that a reader is
// told as they are.
var passedOn = map[syscall.Errno]bool{
	syscall.ENOENT: true, syscall.EACCES: true, syscall.EPERM: true, syscall.ELOOP: true,
	syscall.ENOTDIR: true, syscall.ENAMETOOLONG: true, syscall.ENFILE: true, syscall.EMFILE: true,
	syscall.ENOMEM: true, syscall.EIO: true, syscall.ESTALE: true, syscall.EROFS: true,
	syscall.EISDIR: true, syscall.ENODATA: true, syscall.ERANGE: true, syscall.EINVAL: true,
}

// toErrno is the one place where errors become what a reader sees.
func toErrno(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.Is(err, tensor.ErrCannotHold):
		return syscall.ENOENT // the sample is not in this view
	case errors.Is(err, errNoEchoes):
		return syscall.EOPNOTSUPP
	case errors.Is(err, dataset.ErrChanged):
		// The kernel looks the name up anew on ESTALE and finds the new file.
		return syscall.ESTALE
	case errors.Is(err, dataset.ErrOutside):
		return syscall.EACCES
	case errors.Is(err, cache.ErrNoSpace):
		return syscall.ENOMEM
	case errors.As(err, &errno) && passedOn[errno]:
		return errno
	case errors.Is(err, iofs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, iofs.ErrPermission):
		return syscall.EACCES
	}
	return syscall.EIO
}
