package fs

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unique"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/tensor"
)

// bufferKey is what a decoded file is kept under: what it holds, not the path
// by which it is read.
type bufferKey struct {
	path     string
	id       dataset.Identity
	form     tensor.Form
	fidelity int
	readable bool // by us, where the kernel serves others by itself
}

type buffer = cache.Buffer[bufferKey]

// sampleNode is a file that is served from the cache. It stands for one content:
// when the source file is replaced, or the fidelity of an auto view set, the
// next lookup makes another node. What the kernel keeps of it, attributes and
// pages, is therefore right for ever.
type sampleNode struct {
	gofs.Inode
	m       *mount
	content content
	view    unique.Handle[View] // Fidelity is that of the lookup; there are many nodes and few views
	// named is, in an echo view, the content that the name stands for elsewhere,
	// else nil.
	named *bufferKey

	// mu guards the inode's mode. From the first open to the last release the
	// inode is served from one buffer, and from it in one way: by the kernel if
	// the buffer has a backing id, else by reads and the page cache. The kernel
	// answers EIO to an inode in both modes or with two backing files. opens is
	// changed under the lock; a stat reads it without waiting for a decode.
	mu    sync.Mutex
	opens atomic.Int64
	buf   *buffer // pinned while opens > 0
	known bool    // it was open before
	spend bool    // a plan has had it opened

	mapped atomic.Bool // while it was open for direct reads
	paged  atomic.Bool // an open has filled its pages
}

// sampleHandle is an open of a sampleNode.
type sampleHandle struct {
	node *sampleNode
	buf  *buffer // the node's, for as long as the handle is open

	request     *lastRequest // of an echo view, else nil
	direct      bool         // reads come past the page cache
	reads, read atomic.Int64 // requests and bytes of a direct handle
	refill      bool         // an open before this has filled the file's pages
	filled      atomic.Int64 // bytes of pages that this one has filled
}

// fillAttr writes the attributes; they never change.
func (n *sampleNode) fillAttr(a *fuse.Attr) { fillFileAttr(a, n.content.sample.Info, n.content.size) }

// source is the path of the sample.
func (n *sampleNode) source() string { return n.content.sample.Path }

// subject is what a request for the node is for. A node whose name stands for another
// content by now has no path of its own any more.
func (n *sampleNode) subject() subject {
	return subjectOf(n.content.sample, cmp.Or(n.Path(nil), n.source()))
}

// subjectOf is the subject of a request for a sample under a path.
func subjectOf(s *dataset.Sample, path string) subject {
	return subject{path: path, known: true, of: s.Culprit(), id: s.Info.ID}
}

// unchanged looks whether the name still stands for this content.
func (n *sampleNode) unchanged() error { return n.m.unchanged(n.source(), n.content.sample.Info.ID) }

// Getattr answers from memory while the file is open. Else it looks whether the
// name still stands for this content.
func (n *sampleNode) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if n.opens.Load() == 0 {
		if err := n.unchanged(); err != nil {
			n.m.echo.forget(n.named, n.view.Value())
			return n.m.fail("getattr", n.subject(), err)
		}
	}
	n.fillAttr(&out.Attr)
	out.SetTimeout(n.m.opt.AttrTimeout)
	return 0
}

// Open pins the decoded file and tells the kernel how it is served.
func (n *sampleNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	open := anOpen{reader: readerOf(ctx), view: n.view.Value(), file: n.content, begun: time.Now()}
	request := n.m.echo.take(n.named, n.view.Value(), n.content, open.reader)
	n.m.layer.flight.note(ctx, n.source())
	if err := n.unchanged(); err != nil {
		return nil, 0, n.m.fail("open", n.subject(), request.failed(err))
	}
	planned := n.m.plans.opened(n.StableAttr().Ino)
	n.m.layer.flight.of(ctx.Done()).waitsFor(forTurn, n.content.size)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spend = n.spend || planned
	if n.opens.Load() == 0 {
		buf, missed, err := n.m.filled(n.content, asked{by: open.reader, took: &open.took, request: ctx.Done()})
		if err != nil {
			return nil, 0, n.m.fail("open", n.subject(), request.failed(err))
		}
		n.buf, open.missed = buf, missed
		if n.m.ahead != nil && n.named == nil && !planned {
			in, name := aheadOf(n.content, n.view.Value())
			n.m.ahead.Opened(in, name, missed)
		}
	}
	n.opens.Add(1)
	n.m.served.Add(1)
	h := &sampleHandle{node: n, buf: n.buf, request: request.served(n.buf)}
	var answer uint32 = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH
	if id := n.buf.BackingID(); id != 0 {
		n.m.layer.grantPassthrough(ctx, id)
		answer = fuse.FOPEN_NOFLUSH
	} else if h.refill = n.paged.Load(); n.m.direct.grant(n.known, n.mapped.Load()) {
		h.direct = true
		answer = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	}
	n.known = true
	n.m.readers.opened(open)
	return h, answer, 0
}

// Read serves a handle that the kernel does not serve itself.
func (h *sampleHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	data, err := h.buf.Slice(dest, off, len(dest))
	if err != nil {
		return nil, h.node.m.fail("read", h.node.subject(), err)
	}
	switch {
	case h.node.m.layer.fillsPages(ctx):
		if h.direct { // such reads come from maps alone
			h.node.mapped.Store(true)
		}
		h.filled.Add(int64(len(data)))
	case h.direct:
		h.reads.Add(1)
		h.read.Add(int64(len(data)))
	}
	return fuse.ReadResultData(data), 0
}

// Release ends an open; the last one lets the buffer go.
func (h *sampleHandle) Release(ctx context.Context) syscall.Errno {
	n := h.node
	if h.direct {
		n.m.direct.closed(h.reads.Load(), h.read.Load())
	} else {
		filled := h.filled.Load() > n.content.size/2
		if h.refill {
			n.m.direct.found(!filled)
		} else if filled {
			n.paged.Store(true)
		}
	}
	n.m.echo.released(h.request)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens.Add(-1) == 0 {
		if n.spend && !n.m.plans.wanted(n.StableAttr().Ino) {
			n.buf.Spend()
		}
		n.buf.Unpin()
		n.buf, n.spend = nil, false
	}
	return 0
}

// Getxattr answers what a reader may want to know of the array.
func (n *sampleNode) Getxattr(ctx context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if attr == cachedAttribute {
		return getxattr([]attribute{{attr, n.cached()}}, attr, dest)
	}
	return getxattr(n.attributes(), attr, dest)
}

// Listxattr names the attributes.
func (n *sampleNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) {
	return listxattr(n.attributes(), dest)
}

// cached says whether the cache has the file, as cachedAttribute does.
func (n *sampleNode) cached() string {
	if n.m.cache.Holds(n.content.key()) {
		return "1"
	}
	return "0"
}

func (n *sampleNode) attributes() []attribute {
	s, form := n.content.sample.Shape, n.content.form
	shape, dtype := []int{s.Height, s.Width, s.Channels}, s.DType.String()
	if form.Decoded() {
		layout, err := form.Layout(s)
		if err != nil {
			return nil
		}
		shape, dtype = layout.Shape(), layout.DType()
	}
	encoded, err := n.m.ds.EncodedBytes(background, n.content.sample, n.content.fidelity)
	if err != nil {
		n.m.fail("getxattr", n.subject(), err)
		return nil
	}
	return sampleAttributes(n.content, shapeText(shape), dtype, encoded)
}

// filled returns the pinned buffer of a content, and whether it had to be filled
// for that, for whom a says.
func (m *mount) filled(c content, a asked) (buf *buffer, missed bool, err error) {
	buf, err = m.cache.Get(c.key(), c.size, func(dst []byte) error {
		missed = true
		if err := m.fill(c, dst, a); err != nil {
			return fmt.Errorf("decoding: %w", err)
		}
		return nil
	})
	return buf, missed, err
}
