package fs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// shardNode is a shard of an epoch. Reads come to us, since its bytes are in no
// file, and the kernel keeps the pages while it is open.
type shardNode struct {
	gofs.Inode
	streamFile

	mu       sync.Mutex
	opens    int
	laidOut  *streamShard // while it is open
	verdicts verdicts     // for as long as the kernel may have pages
	open     atomic.Bool
}

// shardHandle is an open shard.
type shardHandle struct {
	node  *shardNode
	shard *streamShard
	ahead *follower

	mu     sync.Mutex
	held   *buffer // of the image in which the last read ended
	heldOf int
}

// Getattr answers from memory while the shard is open.
func (n *shardNode) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.getattr(n.open.Load(), out)
}

// Open lays the shard out. Handles that are open share the layout: what they read
// is the shard of one moment, and an image that is replaced meanwhile is an error.
func (n *shardNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	n.m.layer.flight.note(ctx, n.written)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.unchanged(); err != nil {
		return nil, 0, n.m.fail("open", n.subjectOf(err), err)
	}
	if n.opens == 0 {
		s, err := n.layout()
		if err != nil {
			return nil, 0, n.m.fail("open", n.subjectOf(err), err)
		}
		n.laidOut = s
		n.m.streams.warnOfBuffer(s)
	}
	n.opens++
	n.open.Store(true)
	n.m.streams.opened.Add(1)
	h := &shardHandle{node: n, shard: n.laidOut}
	h.ahead = n.m.streams.follow(n.laidOut, readerOf(ctx))
	// The pages are not kept from one open to the next: a job reads a shard once,
	// and they would be a second copy of what the cache has.
	return h, fuse.FOPEN_NOFLUSH, 0
}

// Release ends an open.
func (h *shardHandle) Release(ctx context.Context) syscall.Errno {
	h.hold(nil, 0)
	n := h.node
	n.m.streams.leave(h.ahead)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens--; n.opens == 0 {
		n.laidOut = nil
		n.open.Store(false)
	}
	return 0
}

// Read writes headers and images.
func (h *shardHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	h.node.m.layer.flight.note(ctx, h.node.written)
	by := asked{by: readerOf(ctx), request: ctx.Done()}
	h.ahead.saw(off, int64(len(dest)))
	about := h.node.subject()
	n, err := h.shard.plan.ReadAt(dest, off, func(i int, dst []byte, at int64) error {
		err := h.image(i, dst, at, by)
		if err != nil {
			about.of = h.culpritOf(i, err)
		}
		return err
	})
	if err != nil {
		return nil, h.node.m.fail("read", about, err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// image writes a part of an image into dst. What is wrong with the image itself is
// no error of the shard, but stands in the image's place.
func (h *shardHandle) image(i int, dst []byte, at int64, by asked) error {
	h.ahead.reached(i)
	s, v := h.shard, &h.node.verdicts
	item := s.part.At(i)
	if v.isDamaged(i) {
		damageText(dst, at, s.c.path(item.Sample))
		return nil
	}
	buf, err := h.load(i, item.Sample, by)
	if err != nil {
		return h.damaged(i, dst, at, err)
	}
	defer func() {
		if at+int64(len(dst)) < s.c.samples[item.Sample].size {
			h.hold(buf, i) // its rest is read next
			return
		}
		if item.Last {
			buf.Spend()
		}
		buf.Unpin()
	}()
	if !v.pass(i, s.part.Len()) {
		damageText(dst, at, s.c.path(item.Sample))
		return nil
	}
	data, err := buf.Slice(dst, at, len(dst))
	if err == nil && len(data) == len(dst) && len(dst) > 0 && &data[0] != &dst[0] {
		copy(dst, data)
	}
	return err
}

// load returns the pinned buffer of an image.
func (h *shardHandle) load(i, sample int, by asked) (*buffer, error) {
	if buf := h.take(i); buf != nil {
		return buf, nil
	}
	h.node.m.streams.served.Add(1)
	return h.node.m.streams.load(h.shard, sample, by)
}

// damaged answers for an image that cannot be decoded. Where some of it has been
// read already, from what was right then, the rest must not be zeros.
func (h *shardHandle) damaged(i int, dst []byte, at int64, err error) error {
	m, s := h.node.m, h.shard
	path := s.c.path(s.part.At(i).Sample)
	if !isDamage(err) {
		return err
	}
	// The samples alone would be taken for pixels, whatever they are.
	if s.c.form.Container == rawContainer || !h.node.verdicts.condemn(i) {
		return err
	}
	m.streams.damaged.Add(1)
	m.fail("read", subject{path: h.node.written, known: true, of: h.culpritOf(i, err)}, err)
	damageText(dst, at, path)
	return nil
}

// culpritOf returns what an error about an item of the shard is about.
func (h *shardHandle) culpritOf(i int, err error) dataset.Culprit {
	ds, path := h.node.m.ds, h.shard.c.path(h.shard.part.At(i).Sample)
	if of, known := ds.CulpritOf(err); known {
		return of
	}
	if s, err := ds.Sample(background, path); err == nil { // of a record, which its path does not name
		return s.Culprit()
	}
	return dataset.Culprit{Path: path, Image: dataset.NoImage}
}

// hold keeps a buffer pinned until the next read, in place of the one before.
func (h *shardHandle) hold(buf *buffer, i int) {
	h.mu.Lock()
	before := h.held
	h.held, h.heldOf = buf, i
	h.mu.Unlock()
	if before != nil {
		before.Unpin()
	}
}

// take returns the buffer that is held, if it is of an image.
func (h *shardHandle) take(i int) *buffer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil || h.heldOf != i {
		return nil
	}
	buf := h.held
	h.held = nil
	return buf
}
