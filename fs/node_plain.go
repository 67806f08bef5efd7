package fs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// plainNode is a file whose bytes are those of a file in the source: what
// passes through as it is, and samples in a view of stored bytes. Like a
// sampleNode it stands for one content.
type plainNode struct {
	gofs.Inode
	m      *mount
	source string
	info   dataset.Info
	opens  atomic.Int64

	stored content // of a stored L3 file only
}

// plainHandle is an open file of the source.
type plainHandle struct {
	node *plainNode
	file dataset.File
}

// subject is what a request for the node is for.
func (n *plainNode) subject() subject {
	return subject{
		path: cmp.Or(n.Path(nil), n.source), known: true,
		of: dataset.Culprit{Path: n.source, Image: dataset.NoImage}, id: n.info.ID,
	}
}

func (n *plainNode) fillAttr(a *fuse.Attr) { fillFileAttr(a, n.info, n.info.Size) }

// Getattr answers from memory while the file is open. Else it looks whether the
// name still stands for this content.
func (n *plainNode) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if n.opens.Load() == 0 { // a seek for holes comes here without its handle
		if err := n.m.unchanged(n.source, n.info.ID); err != nil {
			return n.m.fail("getattr", n.subject(), err)
		}
	}
	n.fillAttr(&out.Attr)
	out.SetTimeout(n.m.opt.AttrTimeout)
	return 0
}

// Open opens the source file.
func (n *plainNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	n.m.layer.flight.note(ctx, n.source)
	f, err := n.m.ds.Open(background, n.source)
	if err != nil {
		return nil, 0, n.m.fail("open", n.subject(), err)
	}
	if f.Info().ID != n.info.ID {
		f.Close()
		return nil, 0, n.m.fail("open", n.subject(), dataset.ErrChanged)
	}
	n.opens.Add(1)
	return &plainHandle{node: n, file: f}, fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH, 0
}

// Read reads from the source. A file that has been written to since it was
// opened is refused: the kernel may have pages of what it was before, and a
// reader would get a mixture.
func (h *plainHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	h.node.m.layer.flight.note(ctx, h.node.source)
	n, err := h.file.ReadAt(dest, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil {
		err = h.unwritten()
	}
	if err != nil {
		return nil, h.node.m.fail("read", h.node.subject(), err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// unwritten looks whether the open file has the content still that it was opened
// with. Its change time does not tell: it moves when the name is given to
// another file.
func (h *plainHandle) unwritten() error {
	info, err := h.file.Stat()
	if err != nil {
		return err
	}
	if was := h.node.info.ID; info.ID.Size != was.Size || info.ID.MTimeNS != was.MTimeNS {
		return dataset.ErrChanged
	}
	return nil
}

// Release closes the source file.
func (h *plainHandle) Release(ctx context.Context) syscall.Errno {
	h.node.opens.Add(-1)
	h.file.Close()
	return 0
}

// Getxattr answers for stored samples; other files have no attributes.
func (n *plainNode) Getxattr(ctx context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	return getxattr(n.attributes(), attr, dest)
}

// Listxattr names the attributes.
func (n *plainNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) {
	return listxattr(n.attributes(), dest)
}

func (n *plainNode) attributes() []attribute {
	if n.stored.sample == nil {
		return nil
	}
	s := n.stored.sample.Shape
	return sampleAttributes(n.stored, shapeText([]int{s.Height, s.Width, s.Channels}), s.DType.String(), n.info.Size)
}
