package fs

import (
	"context"
	"iter"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unique"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
	"prismfs/tensor"
)

// dirNode is a folder of the mount.
type dirNode struct {
	gofs.Inode
	m       *mount
	parent  *dirNode // nil at the root
	written string   // path below the mount point, as it was written
	at      place
	id      dataset.Identity // of the folder in the source

	// Listings warn of each once.
	warnedOfHidden, warnedOfDoubled atomic.Bool
}

// Lookup finds a name and makes the node for it.
func (d *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if d.parent == nil && name == controlName {
		return d.m.control.lookup(ctx, &d.Inode, out), 0
	}
	written := path.Join(d.written, name)
	d.m.layer.flight.note(ctx, written)
	t, err := d.find(ctx, name)
	if err == nil && t.kind == folder {
		err = d.loop(t)
	}
	if err != nil {
		return nil, d.m.fail("lookup", subject{path: written}, err)
	}
	switch t.kind {
	case folder:
		return d.lookedUpFolder(ctx, written, t, out), 0
	case sample:
		return d.lookedUpSample(ctx, written, t, out)
	}
	n := &plainNode{m: d.m, source: t.source, info: t.info}
	n.fillAttr(&out.Attr)
	d.m.setTimeouts(out)
	return d.newChild(ctx, n, written, fuse.S_IFREG, generation(written, t.info.ID)), 0
}

// find resolves a name, unless the listing that asks for it has done so.
func (d *dirNode) find(ctx context.Context, name string) (target, error) {
	if q := d.m.layer.flight.of(ctx.Done()); q != nil && q.found != nil {
		if t, ok := q.found.LoadAndDelete(name); ok {
			return t.(target), nil
		}
	}
	return d.m.names.resolve(background, d.at, name)
}

func (d *dirNode) lookedUpFolder(ctx context.Context, written string, t target, out *fuse.EntryOut) *gofs.Inode {
	if t.at.view.Stream.Shard != 0 {
		n := &streamFolder{m: d.m, parent: d, written: written, at: t.at}
		fillDirAttr(&out.Attr, t.info)
		d.m.setTimeouts(out)
		return d.newChild(ctx, n, written, fuse.S_IFDIR, folderGeneration(written, t.at))
	}
	n := &dirNode{m: d.m, parent: d, written: written, at: t.at, id: t.info.ID}
	fillDirAttr(&out.Attr, t.info)
	d.m.setTimeouts(out)
	return d.newChild(ctx, n, written, fuse.S_IFDIR, folderGeneration(written, t.at))
}

func (d *dirNode) lookedUpSample(ctx context.Context, written string, t target, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if t.sample.form.Container == tensor.L3 { // the file as it is
		n := &plainNode{m: d.m, source: t.source, info: t.info, stored: t.sample}
		n.fillAttr(&out.Attr)
		d.m.setTimeouts(out)
		return d.newChild(ctx, n, written, fuse.S_IFREG, generation(written, t.info.ID)), 0
	}
	if t.view.Echo.Factor != 0 {
		return d.lookedUpEcho(ctx, written, t, out)
	}
	n := &sampleNode{m: d.m, content: t.sample, view: unique.Make(t.view)}
	n.fillAttr(&out.Attr)
	d.m.setTimeouts(out)
	gen := generation(written, t.info.ID)
	if t.view.Auto.Word != "" {
		// The name can come to mean another content at any time.
		out.SetEntryTimeout(0)
		gen = autoGeneration(written, t.info.ID, t.sample.fidelity)
	}
	return d.newChild(ctx, n, written, fuse.S_IFREG, gen), 0
}

// lookedUpEcho makes the node for the content that the name's next open gets.
func (d *dirNode) lookedUpEcho(ctx context.Context, written string, t target, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if err := d.m.echo.labels.allow(t.view.Echo.Folder, t.sample.sample); err != nil {
		return nil, d.m.fail("lookup", subject{path: written}, err)
	}
	own := t.sample.key()
	c := d.m.echo.lookup(t.view, t.sample, readerOf(ctx))
	n := &sampleNode{m: d.m, content: c, view: unique.Make(t.view), named: &own}
	n.fillAttr(&out.Attr)
	d.m.setTimeouts(out)
	out.SetEntryTimeout(0) // the next open may get another content
	return d.newChild(ctx, n, written, fuse.S_IFREG, echoGeneration(written, c)), 0
}

// newChild gives a node the identity of its written path. go-fuse keeps an
// older node with the same identity instead, with its open files.
func (d *dirNode) newChild(ctx context.Context, n gofs.InodeEmbedder, written string, mode uint32, gen uint64) *gofs.Inode {
	return d.NewInode(ctx, n, gofs.StableAttr{Mode: mode, Ino: inodeNumber(written), Gen: gen})
}

// loop refuses a folder that is also above itself, by way of a link: whoever
// walks the tree would never end.
func (d *dirNode) loop(t target) error {
	for p := d; p != nil; p = p.parent {
		if p.at.source == t.at.source || p.id.Dev != t.info.ID.Dev || p.id.Ino != t.info.ID.Ino {
			continue
		}
		// What p was may have been removed, and its number be another folder's by now.
		if now, err := p.stat(); err == nil && now.ID.Dev == p.id.Dev && now.ID.Ino == p.id.Ino {
			return syscall.ELOOP
		}
	}
	return nil
}

// Getattr asks the source anew: folders have no content of ours to keep.
func (d *dirNode) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	info, err := d.stat()
	if err != nil {
		return d.m.fail("getattr", subject{path: d.written}, err)
	}
	fillDirAttr(&out.Attr, info)
	out.SetTimeout(d.m.opt.AttrTimeout)
	return 0
}

// stat describes the folder in the source, which may be a file by now.
func (d *dirNode) stat() (dataset.Info, error) {
	info, err := d.m.ds.Stat(background, d.at.source)
	if err == nil && info.Kind != dataset.Dir {
		err = dataset.ErrChanged
	}
	return info, err
}

// Statfs answers for the whole mount.
func (d *dirNode) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	return d.m.statfs(out)
}

// OpendirHandle starts a listing.
func (d *dirNode) OpendirHandle(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	d.m.layer.flight.note(ctx, d.written)
	// Errors (no permission, gone) show at opendir, not as an empty listing.
	if _, err := d.stat(); err != nil {
		return nil, 0, d.m.fail("opendir", subject{path: d.written}, err)
	}
	if d.at.view.Echo.Factor != 0 {
		if err := d.m.echo.labels.allowListing(d.at); err != nil {
			return nil, 0, d.m.fail("opendir", subject{path: d.written}, err)
		}
	}
	l := &listing{in: d, fail: func(err error) syscall.Errno { return d.m.fail("readdir", subject{path: d.written}, err) }}
	l.entries = d.entries(&l.from)
	// What is told of names that the kernel must not keep would be asked again.
	l.told = d.m.opt.AttrTimeout > 0 && d.at.view.Auto.Word == "" && d.at.view.Echo.Factor == 0
	d.m.layer.grantListing(ctx, l)
	return l, 0, 0
}

// entries yields the directory as the view shows it; from is set to what its folder
// is before anything of it is read.
func (d *dirNode) entries(from *dataset.Identity) iter.Seq2[listedEntry, error] {
	return func(yield func(listedEntry, error) bool) {
		above := d.parent
		if above == nil {
			above = d
		}
		dots := []fuse.DirEntry{
			{Name: ".", Ino: d.StableAttr().Ino, Mode: fuse.S_IFDIR},
			{Name: "..", Ino: above.StableAttr().Ino, Mode: fuse.S_IFDIR},
		}
		for _, e := range dots {
			if !yield(listedEntry{DirEntry: e}, nil) {
				return
			}
		}
		*from = dataset.Identity{}
		if info, err := d.stat(); err == nil {
			*from = settled(info.ID, time.Now())
		}
		err := d.m.names.list(background, d.at, func(e dataset.DirEntry, name string) bool {
			if d.parent == nil && name == controlName {
				return true // cannot be reached: the control folder has the name
			}
			d.warnAbout(e)
			mode := uint32(fuse.S_IFREG)
			if e.Kind == dataset.Dir {
				mode = fuse.S_IFDIR
			}
			return yield(listedEntry{
				DirEntry: fuse.DirEntry{Name: name, Ino: inodeNumber(path.Join(d.written, name)), Mode: mode},
				sample:   sampleOf(e, name, d.at.view),
			}, nil)
		})
		if err != nil {
			yield(listedEntry{}, err)
		}
	}
}

// sourceImages are the suffixes under which loaders look for images.
var sourceImages = map[string]bool{
	".png": true, ".jpg": true, ".jpeg": true, ".ppm": true, ".bmp": true, ".pgm": true,
	".tif": true, ".tiff": true, ".webp": true,
}

// warnAbout logs, once for a folder, what its owner may not have meant: a name
// that hides a view, or an image beside its own packed form.
func (d *dirNode) warnAbout(e dataset.DirEntry) {
	if e.Kind == dataset.Dir && strings.Contains(e.Name, "+") && !d.warnedOfHidden.Load() {
		d.warnOfHidden(e.Name)
	}
	if e.Kind == dataset.Regular && sourceImages[strings.ToLower(path.Ext(e.Name))] && !d.warnedOfDoubled.Load() {
		d.warnOfDoubled(e.Name)
	}
}

func (d *dirNode) warnOfHidden(name string) {
	readings, _ := splits(name)
	for _, s := range readings {
		// Terms alone are a view of the root.
		if s.base == "" && d.at.source != "" {
			continue
		}
		if _, err := d.m.ds.Stat(background, path.Join(d.at.source, s.base)); err != nil {
			continue
		}
		if !d.warnedOfHidden.Swap(true) {
			d.m.log.Warn("a folder of the source hides a view", "folder", path.Join(d.at.source, name), "of", s.base)
		}
	}
}

func (d *dirNode) warnOfDoubled(name string) {
	packed := path.Join(d.at.source, strings.TrimSuffix(name, path.Ext(name))+dataset.SampleSuffix)
	if _, err := d.m.ds.Stat(background, packed); err == nil && !d.warnedOfDoubled.Swap(true) {
		d.m.log.Warn("an image stands beside its own packed form, a loader would see it twice",
			"image", path.Join(d.at.source, name), "packed", packed)
	}
}

// fillDirAttr writes the attributes of a folder. One link: the number of
// folders in it is not known without reading it, and 1 says so.
func fillDirAttr(a *fuse.Attr, info dataset.Info) {
	fillOwner(a, info)
	a.Mode = fuse.S_IFDIR | uint32(info.Mode.Perm())
	a.Size = blockBytes
	a.Blksize = blockBytes
	a.Blocks = blockBytes / 512
	a.Nlink = 1
}
