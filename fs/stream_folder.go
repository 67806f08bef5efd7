package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
	"prismfs/internal/plural"
	"prismfs/order"
)

// streamFolder is a folder of the mount that carries the term stream: it has a
// folder for each epoch, of any number, and lists the first one only, so that who
// walks the tree comes to an end.
type streamFolder struct {
	gofs.Inode
	m       *mount
	parent  *dirNode
	written string
	at      place
}

// epochFolder is a folder of shards and their tables.
type epochFolder struct {
	gofs.Inode
	stream  *streamFolder
	written string
	number  uint64
}

// Getattr describes the folder of the source.
func (d *streamFolder) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return d.attributes(&out.Attr, out)
}

func (d *streamFolder) attributes(a *fuse.Attr, out *fuse.AttrOut) syscall.Errno {
	info, err := d.m.ds.Stat(background, d.at.source)
	if err == nil && info.Kind != dataset.Dir {
		err = dataset.ErrChanged
	}
	if err != nil {
		return d.m.fail("getattr", subject{path: d.written}, err)
	}
	fillDirAttr(a, info)
	if out != nil {
		out.SetTimeout(d.m.opt.AttrTimeout)
	}
	return 0
}

// Lookup finds an epoch.
func (d *streamFolder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	number, ok := order.ParseEpochName(name)
	if !ok {
		return nil, d.m.fail("lookup", subject{path: path.Join(d.written, name)}, noEpoch(name))
	}
	if errno := d.attributes(&out.Attr, nil); errno != 0 {
		return nil, errno
	}
	d.m.setTimeouts(out)
	n := &epochFolder{stream: d, written: path.Join(d.written, name), number: number}
	id := gofs.StableAttr{Mode: fuse.S_IFDIR, Ino: inodeNumber(n.written), Gen: folderGeneration(n.written, d.at)}
	return d.NewInode(ctx, n, id), 0
}

// noEpoch says why a name is none of an epoch, if it looks like one.
func noEpoch(name string) error {
	if _, _, ok := order.ParseShardName(name); ok {
		return &errWhy{"shards lie in the folder of an epoch: epoch-0000/" + name}
	}
	if !strings.HasPrefix(name, "epoch") {
		return iofs.ErrNotExist
	}
	digits, _ := strings.CutPrefix(name, "epoch-")
	if n, err := strconv.ParseUint(digits, 10, 64); errors.Is(err, strconv.ErrRange) || err == nil && n > math.MaxInt64 {
		return &errWhy{fmt.Sprintf("epochs have numbers from 0 to %d", math.MaxInt64)}
	}
	return &errWhy{"epochs are written with four digits: epoch-0003; with more only from epoch-10000 on"}
}

// OpendirHandle lists the first epoch.
func (d *streamFolder) OpendirHandle(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return &numberedListing{own: d.StableAttr().Ino, above: d.parent.StableAttr().Ino, count: 1, entry: func(int) fuse.DirEntry {
		name := order.EpochName(0)
		return fuse.DirEntry{Name: name, Mode: fuse.S_IFDIR, Ino: inodeNumber(path.Join(d.written, name))}
	}}, 0, 0
}

// Getattr describes the folder of the source.
func (d *epochFolder) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return d.stream.attributes(&out.Attr, out)
}

// view is the view of the stream, with the fidelity of this moment.
func (d *epochFolder) view() View { return d.stream.m.auto.now(d.stream.at.view) }

// Lookup finds a shard or its table.
func (d *epochFolder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	m, written := d.stream.m, path.Join(d.written, name)
	m.layer.flight.note(ctx, written)
	number, table, ok := order.ParseShardName(name)
	if !ok {
		return nil, m.fail("lookup", subject{path: written}, noShard(name))
	}
	v := d.view()
	about := &streamFile{m: m, view: v, written: written}
	info, err := m.ds.Stat(background, v.Stream.Folder)
	if err != nil {
		return nil, m.fail("lookup", about.subjectOf(err), err)
	}
	s, err := m.streams.shard(v, d.number, number)
	if err == nil && s == nil {
		err = m.streams.beyond(v)
	}
	if err != nil {
		return nil, m.fail("lookup", about.subjectOf(err), err)
	}
	of := streamFile{m: m, view: v, epoch: d.number, number: number, written: written, fingerprint: s.c.fingerprint, info: s.c.infoFor(info)}
	var n gofs.InodeEmbedder
	if table {
		of.size = int64(len(s.table()))
		n = &tableNode{streamFile: of}
	} else {
		of.size = s.plan.Size()
		n = &shardNode{streamFile: of}
	}
	fillFileAttr(&out.Attr, of.info, of.size)
	m.setTimeouts(out)
	if v.Auto.Word != "" {
		out.SetEntryTimeout(0) // the name can come to mean another content at any time
	}
	return d.NewInode(ctx, n, gofs.StableAttr{Mode: fuse.S_IFREG, Ino: inodeNumber(written), Gen: of.generation()}), 0
}

// noShard says why a name is none of a shard or its table, if it looks like one.
func noShard(name string) error {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, order.ShardSuffix), order.TableSuffix)
	if stem == name {
		return iofs.ErrNotExist
	}
	return &errWhy{fmt.Sprintf("shards are written with six digits, from %s on, and their tables as %s; with more only from %s on",
		order.ShardName(0, order.ShardSuffix), order.ShardName(0, order.TableSuffix), order.ShardName(1_000_000, order.ShardSuffix))}
}

// beyond says that an epoch of a view has not so many shards.
func (s *streams) beyond(v View) error {
	n, err := s.shards(v)
	if err != nil {
		return err
	}
	if n == 0 {
		return &errWhy{"the epoch has no shards: there are no images for them"}
	}
	return &errWhy{fmt.Sprintf("the epoch has %s, the last one is %s", plural.Of(n, "shard"), order.ShardName(n-1, order.ShardSuffix))}
}

// OpendirHandle lists the shards, each with its table.
func (d *epochFolder) OpendirHandle(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	d.stream.m.layer.flight.note(ctx, d.written)
	m, v := d.stream.m, d.view()
	shards, err := m.streams.shards(v)
	if err != nil {
		about := &streamFile{m: m, view: v, written: d.written}
		return nil, 0, m.fail("opendir", about.subjectOf(err), err)
	}
	return &numberedListing{own: d.StableAttr().Ino, above: d.stream.StableAttr().Ino, count: 2 * shards, entry: func(i int) fuse.DirEntry {
		suffix := order.ShardSuffix
		if i%2 == 1 {
			suffix = order.TableSuffix
		}
		name := order.ShardName(i/2, suffix)
		return fuse.DirEntry{Name: name, Mode: fuse.S_IFREG, Ino: inodeNumber(path.Join(d.written, name))}
	}}, 0, 0
}

// numberedListing is an open folder whose entries follow from their numbers.
type numberedListing struct {
	own, above uint64 // inodes
	count      int
	entry      func(i int) fuse.DirEntry

	mu   sync.Mutex
	next int
}

const dotEntries = 2 // . and ..

// Readdirent returns the next entry, nil at the end.
func (l *numberedListing) Readdirent(ctx context.Context) (*fuse.DirEntry, syscall.Errno) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e fuse.DirEntry
	switch i := l.next - dotEntries; {
	case l.next == 0:
		e = fuse.DirEntry{Name: ".", Mode: fuse.S_IFDIR, Ino: l.own}
	case l.next == 1:
		e = fuse.DirEntry{Name: "..", Mode: fuse.S_IFDIR, Ino: l.above}
	case i < l.count:
		e = l.entry(i)
	default:
		return nil, 0
	}
	l.next++
	e.Off = uint64(l.next)
	return &e, 0
}

// Seekdir goes to the entry behind the one with the given offset.
func (l *numberedListing) Seekdir(ctx context.Context, off uint64) syscall.Errno {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = int(min(off, uint64(l.count+dotEntries)))
	return 0
}
