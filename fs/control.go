package fs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// controlName is the folder at the root that tells about the mount. It is not
// listed, so that nobody who walks the dataset comes upon it.
const controlName = ".prismfs"

// control makes the nodes of the control folder.
type control struct {
	m     *mount
	files []controlEntry
}

// controlEntry is a file that is written anew at each open.
type controlEntry struct {
	name string
	text func() string
	mode uint32
}

// The log names files of the source to whoever reads it, those that he may not even
// list among them; so it is for the user who mounted, and root. The rest is for all.
const (
	forAll   = 0o444
	forOwner = 0o400
)

func newControl(m *mount) *control {
	return &control{m: m, files: []controlEntry{
		{"stats", m.statsText, forAll},
		{"version", m.versionText, forAll},
		{"config", m.configText, forAll},
		{"log", m.tail.String, forOwner},
		{"views", viewsText, forAll},
	}}
}

// lookup makes the node of the control folder below the root.
func (c *control) lookup(ctx context.Context, root *gofs.Inode, out *fuse.EntryOut) *gofs.Inode {
	controlDirAttr(&out.Attr)
	c.m.setTimeouts(out)
	return root.NewInode(ctx, &controlDir{c: c}, gofs.StableAttr{Mode: fuse.S_IFDIR, Ino: inodeNumber(controlName)})
}

type controlDir struct {
	gofs.Inode
	c *control
}

func controlDirAttr(a *fuse.Attr) {
	a.Mode = fuse.S_IFDIR | 0o555
	a.Size, a.Blksize, a.Blocks = blockBytes, blockBytes, blockBytes/512
	a.Nlink = 2
}

func (d *controlDir) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	controlDirAttr(&out.Attr)
	return 0
}

func (d *controlDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	for _, e := range d.c.files {
		if e.name == name {
			n := &controlFile{entry: e}
			n.fillAttr(&out.Attr)
			d.c.m.setTimeouts(out)
			return d.NewInode(ctx, n, gofs.StableAttr{Mode: fuse.S_IFREG, Ino: inodeNumber(controlName + "/" + name)}), 0
		}
	}
	return nil, syscall.ENOENT
}

func (d *controlDir) Readdir(ctx context.Context) (gofs.DirStream, syscall.Errno) {
	list := []fuse.DirEntry{
		{Name: ".", Mode: fuse.S_IFDIR, Ino: d.StableAttr().Ino},
		{Name: "..", Mode: fuse.S_IFDIR, Ino: fuse.FUSE_ROOT_ID},
	}
	for _, e := range d.c.files {
		list = append(list, fuse.DirEntry{Name: e.name, Mode: fuse.S_IFREG, Ino: inodeNumber(controlName + "/" + e.name)})
	}
	return gofs.NewListDirStream(list), 0
}

// controlFile has a text that changes, so its size says little and reads pass
// by the page cache (FOPEN_DIRECT_IO): they end where the text ends.
type controlFile struct {
	gofs.Inode
	entry controlEntry
}

// controlHandle is the text as it was at open: reading it in pieces gives one
// state, not several.
type controlHandle struct{ text []byte }

func (f *controlFile) fillAttr(a *fuse.Attr) {
	a.Mode = fuse.S_IFREG | f.entry.mode
	a.Uid, a.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	a.Blksize = blockBytes
	a.Nlink = 1
}

func (f *controlFile) Getattr(ctx context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.fillAttr(&out.Attr)
	return 0
}

func (f *controlFile) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return &controlHandle{text: []byte(f.entry.text())}, fuse.FOPEN_DIRECT_IO, 0
}

func (h *controlHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if off >= int64(len(h.text)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(h.text[off:min(int64(len(h.text)), off+int64(len(dest)))]), 0
}

// jsonText writes v for people and programs.
func jsonText(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Sprintf("{%q: %q}\n", "error", err.Error())
	}
	return string(b) + "\n"
}

// viewsText is the view grammar in short.
func viewsText() string {
	return strings.TrimLeft(`
A folder name may end in one or more +TERM, in any order: train+png, train+3+raw+chw.
A file carries its terms before the suffix: train/0007/a+chw.npy. The root is /+png/.

number  fidelity k: scan groups 1..k of progressive records; L3 has one fidelity, any k gives it
auto    the fidelity that prismfs fidelity sets while the mount runs, full until then
auto-NAME  the same; each name has a fidelity of its own
npy     NumPy format 1.0, (H,W) for one channel, else (H,W,C)
png     PNG, not compressed: every image reader takes it
ppm     Netpbm P6 or P5, always named .ppm; 16-bit samples need the term 16 too
16      with ppm: 16-bit samples, big-endian
raw     the samples alone; shape and type stand in extended attributes user.prismfs.*
chw     with npy or raw: channels first
rgb     three 8-bit channels, whatever is stored
l3      the stored L3 file
jpg     of progressive records: the JPEG of the fidelity, not decoded
orig    under the original file names, suffix included; the content is a PNG of L3 files,
        of progressive records the JPEG

Of folders, the order of reading:
echoE   each decoded image is served E times in all, E from 1 to 100: echo2, echo1.5
stream  the images in an order of each epoch, as tar shards
seedN   with echo or stream: the seed of what is drawn
bufferN with echo or stream: how many images echoes are drawn from or spread over
shardN  with stream: images a shard
rankRofW  with stream: the share of reader R of W, from 0

A sample that a form cannot hold is left out of that view. Views are not listed.
`, "\n")
}
