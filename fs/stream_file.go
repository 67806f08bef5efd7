package fs

import (
	"context"
	"encoding/binary"
	iofs "io/fs"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// streamFile is what shards and their tables have in common: a name that stands
// for one content, which is that of one catalogue. When the source changes, the
// next lookup makes another node. Nodes are many, and the kernel may keep them
// for long, so that they hold neither catalogue nor order.
type streamFile struct {
	m           *mount
	view        View // with the fidelity of the lookup
	epoch       uint64
	number      int
	written     string
	fingerprint uint64 // of the catalogue
	info        dataset.Info
	size        int64
}

// infoFor returns what files made from a catalogue have of the folder's times,
// and who may read them.
func (c *catalogue) infoFor(folder dataset.Info) dataset.Info {
	folder.Mode = folder.Mode&^iofs.ModePerm | c.access.bits()
	if c.access.known {
		folder.UID, folder.GID = c.access.uid, c.access.gid
	}
	return folder
}

func (n *streamFile) generation() uint64 {
	distinction := binary.LittleEndian.AppendUint64(nil, n.fingerprint)
	distinction = binary.LittleEndian.AppendUint64(distinction, uint64(n.view.Fidelity))
	return generationOf(n.written, distinction)
}

// layout lays the shard out anew, if the source still is what it was at the
// lookup; else the error is ErrChanged.
func (n *streamFile) layout() (*streamShard, error) {
	s, err := n.m.streams.shard(n.view, n.epoch, n.number)
	if err == nil && (s == nil || s.c.fingerprint != n.fingerprint) {
		err = dataset.ErrChanged
	}
	return s, err
}

// unchanged looks whether the source is what it was at the lookup.
func (n *streamFile) unchanged() error {
	c, err := n.m.streams.catalogue(n.view)
	if err == nil && c.fingerprint != n.fingerprint {
		err = dataset.ErrChanged
	}
	return err
}

// subject is the folder of the source that the shards are of.
func (n *streamFile) subject() subject {
	return subject{path: n.written, known: true, of: dataset.Culprit{Path: n.view.Stream.Folder, Image: dataset.NoImage}}
}

// subjectOf returns what an error about the file as a whole is about: the folder, if the
// error does not tell of something in it.
func (n *streamFile) subjectOf(err error) subject {
	s := n.subject()
	if of, known := n.m.ds.CulpritOf(err); known {
		s.of = of
	}
	return s
}

func (n *streamFile) getattr(open bool, out *fuse.AttrOut) syscall.Errno {
	if !open {
		if err := n.unchanged(); err != nil {
			return n.m.fail("getattr", n.subjectOf(err), err)
		}
	}
	fillFileAttr(&out.Attr, n.info, n.size)
	out.SetTimeout(n.m.opt.AttrTimeout)
	return 0
}

// tableNode is the table of a shard.
type tableNode struct {
	gofs.Inode
	streamFile
}

// tableHandle is an open table.
type tableHandle struct{ text []byte }

// Getattr answers from memory if the source is what it was.
func (n *tableNode) Getattr(ctx context.Context, h gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.getattr(h != nil, out)
}

// Open writes the table.
func (n *tableNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	n.m.layer.flight.note(ctx, n.written)
	s, err := n.layout()
	if err != nil {
		return nil, 0, n.m.fail("open", n.subjectOf(err), err)
	}
	return &tableHandle{text: s.table()}, fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH, 0
}

// Read reads the table.
func (h *tableHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if off >= int64(len(h.text)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(h.text[off:min(int64(len(h.text)), off+int64(len(dest)))]), 0
}
