package fs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// kernelLayer stands between the kernel and go-fuse's node file system. It does
// five things which that does not:
//
//   - It owns backing ids. go-fuse's own way (FilePassthroughFder) drops the id
//     after our release has run, so that under load an open can be given the
//     file of an evicted buffer; and one refused registration turns passthrough
//     off for the mount. Here an id belongs to a cache buffer for the buffer's
//     life, and a node hands it over with each open.
//   - It answers every operation that would change something with EROFS;
//     go-fuse lets unlink and rmdir succeed.
//   - It reads listings itself (listing.go), with attributes where somebody wants
//     them (listing_plus.go).
//   - It counts requests, and remembers those in progress (slow_requests.go).
//   - It bounds how many names the kernel remembers (remembered.go).
type kernelLayer struct {
	fuse.RawFileSystem

	// flight are the requests that are not answered yet. By it, too, an answer from
	// the node's Open, which go-fuse calls somewhere below our Open, gets back up.
	flight   requestsInFlight
	listings sync.Map // handles of open directories → *listing
	requests [numOperations]atomic.Uint64
	names    *remembered
	wishes   *wishes
	told     atomic.Uint64 // names, with attributes

	panicked func(what any) fuse.Status // for goroutines of ours, as go-fuse has it for its own
}

// grantListing has the layer read an open directory by itself.
func (l *kernelLayer) grantListing(ctx context.Context, of *listing) {
	if q := l.flight.of(ctx.Done()); q != nil {
		q.listing = of
	}
}

// fillsPages reports whether the read that ctx belongs to is for the kernel's page
// cache, not for the memory of a reader.
func (l *kernelLayer) fillsPages(ctx context.Context) bool {
	q := l.flight.of(ctx.Done())
	return q != nil && q.fillsPages
}

// grantPassthrough tells the kernel, with the answer to the open that ctx
// belongs to, to serve the handle from the backing file id.
func (l *kernelLayer) grantPassthrough(ctx context.Context, id int32) bool {
	q := l.flight.of(ctx.Done())
	if q == nil {
		return false
	}
	q.backingID = id
	return true
}

// Open lets the node choose and adds the backing id that it granted. Whatever the
// node is, it is open for reading alone.
func (l *kernelLayer) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY || in.Flags&unix.O_TRUNC != 0 {
		return l.refuse()
	}
	l.count(opOpen)
	q := l.flight.begin(cancel, opOpen)
	defer l.flight.end(cancel)
	status := l.RawFileSystem.Open(cancel, in, out)
	if status.Ok() && q.backingID != 0 {
		out.BackingID = q.backingID
		// The kernel refuses other flags beside passthrough, KEEP_CACHE among
		// them: such a handle does not use the inode's page cache.
		out.OpenFlags = fuse.FOPEN_PASSTHROUGH | fuse.FOPEN_NOFLUSH
	}
	return status
}

// operation numbers the requests that are counted.
type operation int

const (
	opLookup operation = iota
	opForget
	opGetattr
	opOpen
	opRead
	opRelease
	opOpendir
	opReaddir
	opReleasedir
	opGetxattr
	opListxattr
	opStatfs
	opLseek
	opAccess
	opIoctl // Python's open() asks every file whether it is a terminal
	opFsync
	opRefused // anything that would change the file system
	numOperations
)

var operationNames = [numOperations]string{
	"lookup", "forget", "getattr", "open", "read", "release", "opendir", "readdir", "releasedir",
	"getxattr", "listxattr", "statfs", "lseek", "access", "ioctl", "fsync", "refused",
}

func (l *kernelLayer) count(op operation) { l.requests[op].Add(1) }

// requestCounts returns the number of requests by operation.
func (l *kernelLayer) requestCounts() map[string]uint64 {
	counts := make(map[string]uint64, numOperations)
	for op, name := range operationNames {
		counts[name] = l.requests[op].Load()
	}
	return counts
}

func (l *kernelLayer) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	l.count(opLookup)
	l.names.looksInto(h.NodeId)
	l.flight.begin(cancel, opLookup)
	defer l.flight.end(cancel)
	status := l.RawFileSystem.Lookup(cancel, h, name, out)
	if status.Ok() && out.NodeId != 0 {
		l.names.lookedUp(h.NodeId, name, out)
		l.wishes.lookedUp(h.Pid, h.NodeId)
	}
	return status
}

func (l *kernelLayer) Forget(nodeid, nlookup uint64) {
	l.count(opForget)
	l.names.forgot(nodeid, nlookup)
	l.RawFileSystem.Forget(nodeid, nlookup)
}

func (l *kernelLayer) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	l.count(opGetattr)
	l.flight.begin(cancel, opGetattr)
	defer l.flight.end(cancel)
	return l.RawFileSystem.GetAttr(cancel, in, out)
}

func (l *kernelLayer) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	l.count(opRead)
	q := l.flight.begin(cancel, opRead)
	// Only reads on behalf of a call name the owner of locks; what fills pages has none.
	q.fillsPages = in.ReadFlags&fuse.READ_LOCKOWNER == 0
	defer l.flight.end(cancel)
	return l.RawFileSystem.Read(cancel, in, buf)
}

func (l *kernelLayer) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	l.count(opRelease)
	l.RawFileSystem.Release(cancel, in)
}

func (l *kernelLayer) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	l.count(opOpendir)
	q := l.flight.begin(cancel, opOpendir)
	defer l.flight.end(cancel)
	status := l.RawFileSystem.OpenDir(cancel, in, out)
	if status.Ok() && q.listing != nil {
		l.listings.Store(out.Fh, q.listing)
	}
	return status
}

func (l *kernelLayer) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	l.count(opReaddir)
	l.names.looksInto(in.NodeId)
	l.flight.begin(cancel, opReaddir)
	defer l.flight.end(cancel)
	if of, ok := l.listings.Load(in.Fh); ok {
		return of.(*listing).read(in.Offset, func(e listedEntry) bool { return out.AddDirEntry(e.DirEntry) })
	}
	return l.RawFileSystem.ReadDir(cancel, in, out)
}

func (l *kernelLayer) ReleaseDir(in *fuse.ReleaseIn) {
	l.count(opReleasedir)
	l.listings.Delete(in.Fh) // before the handle can be another's
	l.RawFileSystem.ReleaseDir(in)
}

func (l *kernelLayer) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	l.count(opGetxattr)
	if attributeUnsupported(attr) {
		return 0, fuse.Status(unix.EOPNOTSUPP)
	}
	l.flight.begin(cancel, opGetxattr)
	defer l.flight.end(cancel)
	return l.RawFileSystem.GetXAttr(cancel, h, attr, dest)
}

func (l *kernelLayer) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	l.count(opListxattr)
	return l.RawFileSystem.ListXAttr(cancel, h, dest)
}

// StatFs asks the root, which answers for the whole mount: the kernel names
// the node that statfs(2) was called on, whatever it is.
func (l *kernelLayer) StatFs(cancel <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	l.count(opStatfs)
	root := *in
	root.NodeId = fuse.FUSE_ROOT_ID
	return l.RawFileSystem.StatFs(cancel, &root, out)
}

func (l *kernelLayer) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	l.count(opLseek)
	status := l.RawFileSystem.Lseek(cancel, in, out)
	// Files are all data, so a hole that begins right here is the end of the file,
	// where there is nothing to be found. go-fuse gives the end itself.
	if status.Ok() && in.Whence == unix.SEEK_HOLE && out.Offset == in.Offset {
		return fuse.Status(unix.ENXIO)
	}
	return status
}

func (l *kernelLayer) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	l.count(opAccess)
	return l.RawFileSystem.Access(cancel, in)
}

// Fsync has nothing to bring to a disk, and so succeeds, as on a disk that is mounted
// read-only; go-fuse would say that it is not supported.
func (l *kernelLayer) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status {
	l.count(opFsync)
	return fuse.OK
}

// FsyncDir is Fsync of a folder.
func (l *kernelLayer) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status {
	l.count(opFsync)
	return fuse.OK
}
