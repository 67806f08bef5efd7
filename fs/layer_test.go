package fs

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
)

// spokenMount is the file system of a source, to be spoken to as the kernel
// would, without a kernel.
func spokenMount(t testing.TB, source string) *mount {
	t.Helper()
	store, err := dataset.OpenLocal(source)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Source: source, View: DefaultView, Logger: slog.New(slog.DiscardHandler), TableDir: dataset.NoTables, ReadAhead: -1}
	setDefaults(&opt)
	m, err := newMount(opt, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.decoder.Close()
		store.Close()
	})
	info, err := m.ds.Stat(background, "")
	if err != nil {
		t.Fatal(err)
	}
	m.layer.RawFileSystem = gofs.NewNodeFS(&dirNode{m: m, at: place{view: opt.View}, id: info.ID}, nodeOptions(opt))
	return m
}

// lookUp asks for a name below the root.
func lookUp(t testing.TB, m *mount, name string) fuse.EntryOut {
	t.Helper()
	var out fuse.EntryOut
	if status := m.layer.Lookup(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, name, &out); !status.Ok() {
		t.Fatalf("looking %s up: %v", name, status)
	}
	return out
}

// Everything that would change something is refused by the layer itself, whatever
// the VFS lets through.
func TestLayerRefusesChanges(t *testing.T) {
	source := t.TempDir()
	writeSample(t, filepath.Join(source, "a.l3"), rgb8, "")
	if err := os.Mkdir(filepath.Join(source, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := spokenMount(t, source)
	file, folder := lookUp(t, m, "a.npy"), lookUp(t, m, "folder")
	l, root := m.layer, fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	of := func(e fuse.EntryOut) fuse.InHeader { return fuse.InHeader{NodeId: e.NodeId} }
	var stats fuse.EntryOut
	if status := l.Lookup(nil, &fuse.InHeader{NodeId: lookUp(t, m, controlName).NodeId}, "stats", &stats); !status.Ok() {
		t.Fatal(status)
	}
	var entry fuse.EntryOut
	calls := map[string]func() fuse.Status{
		"chmod": func() fuse.Status {
			in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: of(file), Valid: fuse.FATTR_MODE, Mode: 0o600}}
			return l.SetAttr(nil, in, &fuse.AttrOut{})
		},
		"truncate": func() fuse.Status {
			in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: of(file), Valid: fuse.FATTR_SIZE}}
			return l.SetAttr(nil, in, &fuse.AttrOut{})
		},
		"mknod":  func() fuse.Status { return l.Mknod(nil, &fuse.MknodIn{InHeader: root}, "new", &entry) },
		"mkdir":  func() fuse.Status { return l.Mkdir(nil, &fuse.MkdirIn{InHeader: root}, "new", &entry) },
		"unlink": func() fuse.Status { return l.Unlink(nil, &root, "a.npy") },
		"rmdir":  func() fuse.Status { return l.Rmdir(nil, &root, "folder") },
		"link": func() fuse.Status {
			return l.Link(nil, &fuse.LinkIn{InHeader: root, Oldnodeid: file.NodeId}, "new", &entry)
		},
		"symlink": func() fuse.Status { return l.Symlink(nil, &root, "anywhere", "new", &entry) },
		"create":  func() fuse.Status { return l.Create(nil, &fuse.CreateIn{InHeader: root}, "new", &fuse.CreateOut{}) },
		"tmpfile": func() fuse.Status { return l.Tmpfile(nil, &fuse.CreateIn{InHeader: root}, &fuse.CreateOut{}) },
		"setxattr": func() fuse.Status {
			return l.SetXAttr(nil, &fuse.SetXAttrIn{InHeader: of(file)}, "user.new", []byte("x"))
		},
		"removexattr": func() fuse.Status { h := of(file); return l.RemoveXAttr(nil, &h, "user.prismfs.shape") },
		"write": func() fuse.Status {
			_, status := l.Write(nil, &fuse.WriteIn{InHeader: of(file)}, []byte("x"))
			return status
		},
		"writev": func() fuse.Status {
			_, status := l.Writev(nil, &fuse.WriteIn{InHeader: of(file)}, [][]byte{[]byte("x")})
			return status
		},
		"fallocate": func() fuse.Status { return l.Fallocate(nil, &fuse.FallocateIn{InHeader: of(file), Length: 10}) },
		"copy_file_range": func() fuse.Status {
			_, status := l.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: of(file), NodeIdOut: file.NodeId, Len: 10})
			return status
		},
		"set file flags": func() fuse.Status {
			return l.Ioctl(nil, &fuse.IoctlIn{InHeader: of(file), Cmd: ioctlSetFlags}, make([]byte, 8), &fuse.IoctlOut{}, nil)
		},
		"set file attributes": func() fuse.Status {
			return l.Ioctl(nil, &fuse.IoctlIn{InHeader: of(folder), Cmd: ioctlSetXattr}, make([]byte, 28), &fuse.IoctlOut{}, nil)
		},
	}
	for flags := range uint32(8) { // RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT
		calls[fmt.Sprintf("rename, flags %d", flags)] = func() fuse.Status {
			return l.Rename(nil, &fuse.RenameIn{InHeader: root, Newdir: folder.NodeId, Flags: flags}, "a.npy", "b.npy")
		}
	}
	for name, access := range map[string]uint32{"writing": uint32(os.O_WRONLY), "reading and writing": uint32(os.O_RDWR), "cutting": uint32(os.O_WRONLY | os.O_TRUNC), "cutting what is read": uint32(os.O_TRUNC)} {
		calls["open for "+name] = func() fuse.Status {
			return l.Open(nil, &fuse.OpenIn{InHeader: of(file), Flags: access}, &fuse.OpenOut{})
		}
		calls["open of stats for "+name] = func() fuse.Status {
			return l.Open(nil, &fuse.OpenIn{InHeader: of(stats), Flags: access}, &fuse.OpenOut{})
		}
	}
	for name, call := range calls {
		if status := call(); status != fuse.EROFS {
			t.Errorf("%s: %v, want %v", name, status, fuse.EROFS)
		}
	}
	if again := lookUp(t, m, "a.npy"); again.NodeId != file.NodeId || again.Attr != file.Attr {
		t.Errorf("something changed: %+v, before %+v", again, file)
	}
	if refused := l.requestCounts()["refused"]; refused != uint64(len(calls)) {
		t.Errorf("%d refusals were counted", refused)
	}
}

// What has nothing to be written is on the disk already.
func TestLayerSyncs(t *testing.T) {
	source := t.TempDir()
	writeSample(t, filepath.Join(source, "a.l3"), rgb8, "")
	m := spokenMount(t, source)
	file, control := lookUp(t, m, "a.npy"), lookUp(t, m, controlName)
	for node, sync := range map[uint64]func(<-chan struct{}, *fuse.FsyncIn) fuse.Status{
		file.NodeId: m.layer.Fsync, fuse.FUSE_ROOT_ID: m.layer.FsyncDir, control.NodeId: m.layer.FsyncDir,
	} {
		if status := sync(nil, &fuse.FsyncIn{InHeader: fuse.InHeader{NodeId: node}}); !status.Ok() {
			t.Errorf("node %d: %v", node, status)
		}
	}
	if count := m.layer.requestCounts()["fsync"]; count != 3 {
		t.Errorf("%d were counted", count)
	}
}

// entriesIn takes the names out of an answer to READDIR (fuse_dirent in
// include/uapi/linux/fuse.h), and the offsets.
func entriesIn(t *testing.T, answer []byte) (names []string, offsets []uint64) {
	t.Helper()
	const head = 24 // inode, offset, length of the name, type
	for len(answer) >= head {
		n := int(binary.NativeEndian.Uint32(answer[16:]))
		if n == 0 {
			break // the rest of the buffer
		}
		names = append(names, string(answer[head:head+n]))
		offsets = append(offsets, binary.NativeEndian.Uint64(answer[8:]))
		answer = answer[min(len(answer), (head+n+7)&^7):]
	}
	return names, offsets
}

// A listing that is read in pieces of any size, with steps back into the last
// answer and jumps to anywhere, gives every name behind an offset.
func TestListingSeeks(t *testing.T) {
	source := t.TempDir()
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprintf("%0*d", 1+i%60, i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := spokenMount(t, source)
	header := fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	open := func() uint64 {
		var out fuse.OpenOut
		if status := m.layer.OpenDir(make(chan struct{}), &fuse.OpenIn{InHeader: header}, &out); !status.Ok() {
			t.Fatal(status)
		}
		return out.Fh
	}
	read := func(fh, off uint64, size int) ([]string, []uint64) {
		answer := make([]byte, size)
		if status := m.layer.ReadDir(nil, &fuse.ReadIn{InHeader: header, Fh: fh, Offset: off}, fuse.NewDirEntryList(answer, off)); !status.Ok() {
			t.Fatalf("at %d: %v", off, status)
		}
		return entriesIn(t, answer)
	}
	fh := open()
	var want []string
	for off := uint64(0); ; {
		names, offsets := read(fh, off, 4096)
		if len(names) == 0 {
			break
		}
		want = append(want, names...)
		off = offsets[len(offsets)-1]
	}
	if len(want) != 302 || want[0] != "." || want[1] != ".." {
		t.Fatalf("%d names, the first are %q", len(want), want[:2])
	}
	for seed := range uint64(200) {
		choose := rand.New(rand.NewPCG(seed, 1))
		fh := open()
		off, before := uint64(0), uint64(0) // where the last answer began
		for range 60 {
			names, offsets := read(fh, off, 128+choose.IntN(2000))
			if !slices.Equal(names, want[off:min(int(off)+len(names), len(want))]) || len(names) == 0 && int(off) < len(want) {
				t.Fatalf("seed %d: behind %d come %q, want %q", seed, off, names, want[off:])
			}
			before = off
			if len(offsets) > 0 {
				off = offsets[len(offsets)-1]
			}
			switch choose.IntN(6) {
			case 0, 1: // only a part was taken
				off = before + uint64(choose.IntN(int(off-before)+1))
			case 2:
				off = uint64(choose.IntN(len(want) + 1))
			case 3:
				off = 0
			}
		}
		m.layer.ReleaseDir(&fuse.ReleaseIn{InHeader: header, Fh: fh})
	}
	m.layer.ReleaseDir(&fuse.ReleaseIn{InHeader: header, Fh: fh})
	left := 0
	m.layer.listings.Range(func(any, any) bool { left++; return true })
	if left != 0 {
		t.Errorf("%d listings are left when all were closed", left)
	}
}

// TestRewoundListingIsFresh: after rewinddir names appear that were made since.
func TestRewoundListingIsFresh(t *testing.T) {
	source := t.TempDir()
	m := spokenMount(t, source)
	header := fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	var out fuse.OpenOut
	if status := m.layer.OpenDir(make(chan struct{}), &fuse.OpenIn{InHeader: header}, &out); !status.Ok() {
		t.Fatal(status)
	}
	for i, want := range []int{2, 3} {
		answer := make([]byte, 4096)
		if status := m.layer.ReadDir(nil, &fuse.ReadIn{InHeader: header, Fh: out.Fh}, fuse.NewDirEntryList(answer, 0)); !status.Ok() {
			t.Fatal(status)
		}
		if names, _ := entriesIn(t, answer); len(names) != want {
			t.Errorf("reading %d from the start: %q", i, names)
		}
		if err := os.WriteFile(filepath.Join(source, "new"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
