package fs

import "github.com/hanwen/go-fuse/v2/fuse"

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
