package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The mount is read-only in the VFS, which answers these itself. They are here
// for a mount that somebody remounts read-write, and for the operations that
// the VFS lets through.

func (l *kernelLayer) refuse() fuse.Status {
	l.count(opRefused)
	return fuse.EROFS
}

func (l *kernelLayer) SetAttr(<-chan struct{}, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Mknod(<-chan struct{}, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Mkdir(<-chan struct{}, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Rmdir(<-chan struct{}, *fuse.InHeader, string) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Rename(<-chan struct{}, *fuse.RenameIn, string, string) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Symlink(<-chan struct{}, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) SetXAttr(<-chan struct{}, *fuse.SetXAttrIn, string, []byte) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) RemoveXAttr(<-chan struct{}, *fuse.InHeader, string) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) {
	return 0, l.refuse()
}

func (l *kernelLayer) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, l.refuse()
}

func (l *kernelLayer) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status {
	return l.refuse()
}

func (l *kernelLayer) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, l.refuse()
}

// The ioctls that change a file's flags (chattr): FS_IOC_SETFLAGS, the same from a
// 32-bit program, and FS_IOC_FSSETXATTR. The kernel passes them to the file system.
const (
	ioctlSetFlags   = unix.FS_IOC_SETFLAGS
	ioctlSetFlags32 = 0x40046602
	ioctlSetXattr   = 0x401c5820
)

// Ioctl knows none, but says of those that would change something why they are
// refused.
func (l *kernelLayer) Ioctl(cancel <-chan struct{}, in *fuse.IoctlIn, inbuf []byte, out *fuse.IoctlOut, outbuf []byte) fuse.Status {
	switch in.Cmd {
	case ioctlSetFlags, ioctlSetFlags32, ioctlSetXattr:
		return l.refuse()
	}
	l.count(opIoctl)
	return l.RawFileSystem.Ioctl(cancel, in, inbuf, out, outbuf)
}
