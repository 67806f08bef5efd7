package fs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"prismfs/order"
)

// plusEntry is an entry of an answer with attributes.
type plusEntry struct {
	name string
	told fuse.EntryOut
}

// listPlus reads a folder to its end with attributes, by answers of size bytes.
func listPlus(t *testing.T, m *mount, node uint64, size int) (entries []plusEntry) {
	t.Helper()
	header := fuse.InHeader{NodeId: node}
	var out fuse.OpenOut
	if status := m.layer.OpenDir(make(chan struct{}), &fuse.OpenIn{InHeader: header}, &out); !status.Ok() {
		t.Fatal(status)
	}
	defer m.layer.ReleaseDir(&fuse.ReleaseIn{InHeader: header, Fh: out.Fh})
	for off := uint64(0); ; {
		answer := fuse.NewDirEntryList(make([]byte, size), off)
		in := &fuse.ReadIn{InHeader: header, Fh: out.Fh, Offset: off, Size: uint32(size)}
		if status := m.layer.ReadDirPlus(make(chan struct{}), in, answer); !status.Ok() {
			t.Fatalf("at %d: %v", off, status)
		}
		if len(answer.Bytes()) == 0 {
			return entries
		}
		parsed, told, err := fuse.ParseDirLookupEntries(answer.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range parsed {
			entries = append(entries, plusEntry{e.Name, told[i]})
			off = e.Off
		}
	}
}

// plusSource has 60 samples, a folder, a file and a damaged sample.
func plusSource(t *testing.T) string {
	t.Helper()
	source := t.TempDir()
	for i := range 60 {
		writeSample(t, filepath.Join(source, fmt.Sprintf("a%02d.l3", i)), rgb8, "")
	}
	for _, name := range []string{"plain.txt", "damaged.l3"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(source, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	return source
}

// wantAttributes lists a folder and looks all names of it up, as du does.
func wantAttributes(t *testing.T, m *mount, node uint64) (lookups int64) {
	t.Helper()
	for _, e := range listPlus(t, m, node, 2000) {
		if e.told.NodeId != 0 {
			t.Errorf("attributes of %s are told to nobody", e.name)
		}
		if e.name == "." || e.name == ".." {
			continue // the kernel knows them
		}
		if m.layer.Lookup(nil, &fuse.InHeader{NodeId: node}, e.name, new(fuse.EntryOut)).Ok() {
			lookups++
		}
	}
	return lookups
}

// A listing tells attributes to who has looked up what was listed before, and the very
// ones that a lookup gives; a name that cannot be looked up is there without.
func TestListingTellsAttributes(t *testing.T) {
	source := plusSource(t)
	for _, folderIs := range []string{"as it was", "just changed"} {
		if folderIs == "as it was" {
			long := time.Now().Add(-time.Hour)
			if err := os.Chtimes(source, long, long); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * tickOfSource)
		} else if err := os.Remove(filepath.Join(source, "a00.l3")); err != nil {
			t.Fatal(err)
		}
		testListingTellsAttributes(t, spokenMount(t, source))
	}
}

func testListingTellsAttributes(t *testing.T, m *mount) {
	lookups := wantAttributes(t, m, fuse.FUSE_ROOT_ID)
	read := m.ds.Stats().StoreBytesIndex
	entries := listPlus(t, m, fuse.FUSE_ROOT_ID, 2000)
	if again := m.ds.Stats().StoreBytesIndex; again-read > 8 {
		t.Errorf("%d bytes of headers are read again", again-read) // of the damaged file, twice
	}
	told, names := 0, map[string]bool{}
	for _, e := range entries {
		names[e.name] = true
		if e.told.NodeId == 0 {
			if e.name != "damaged.npy" && e.name != "." && e.name != ".." {
				t.Errorf("nothing is told of %s", e.name)
			}
			continue
		}
		told++
		if looked := lookUp(t, m, e.name); looked != e.told {
			t.Errorf("of %s is told %+v, looked up it is %+v", e.name, e.told, looked)
		}
	}
	if len(entries) != len(names) || len(entries)-told != 3 || told < 61 || !names["a59.npy"] || !names["folder"] {
		t.Errorf("%d entries, of %d of which attributes are told: %q", len(entries), told, slices.Sorted(maps.Keys(names)))
	}
	if got, want := m.layer.names.lookups.Load(), lookups+int64(2*told); got != want {
		t.Errorf("%d lookups are to be forgotten, want %d", got, want)
	}
	if got, _, _ := m.layer.names.held(); got != told {
		t.Errorf("%d nodes are held, want %d", got, told)
	}
}

// Who reads a folder by one answer has wanted no attributes, and no header is read.
func TestListingTellsNothingAtFirst(t *testing.T) {
	m := spokenMount(t, plusSource(t))
	entries := listPlus(t, m, fuse.FUSE_ROOT_ID, 64<<10)
	for _, e := range entries {
		if e.told.NodeId != 0 {
			t.Errorf("attributes of %s are told", e.name)
		}
	}
	if read := m.ds.Stats().StoreBytesIndex; read != 0 || len(entries) != 65 {
		t.Errorf("%d bytes of headers were read for %d entries", read, len(entries))
	}
}

// What the kernel must not keep is not told: names of auto and echo views.
func TestListingTellsNothingThatChanges(t *testing.T) {
	m := spokenMount(t, plusSource(t))
	for _, view := range []string{"+auto", "+echo2"} {
		wantAttributes(t, m, lookUp(t, m, view).NodeId)
		for _, e := range listPlus(t, m, lookUp(t, m, view).NodeId, 2000) {
			if e.told.NodeId != 0 {
				t.Errorf("%s: attributes of %s are told", view, e.name)
			}
		}
	}
}

// Folders whose entries go-fuse lists come whole, too.
func TestBareListings(t *testing.T) {
	source := t.TempDir()
	for i := range 90 {
		writeSample(t, filepath.Join(source, "train", fmt.Sprintf("%02d.l3", i)), rgb8, "")
	}
	m := spokenMount(t, source)
	node := lookUp(t, m, "train+stream+shard3").NodeId
	var epoch fuse.EntryOut
	if status := m.layer.Lookup(nil, &fuse.InHeader{NodeId: node}, order.EpochName(0), &epoch); !status.Ok() {
		t.Fatal(status)
	}
	names := map[string]bool{}
	for _, e := range listPlus(t, m, epoch.NodeId, 4096) {
		names[e.name] = true
		if e.told.NodeId != 0 {
			t.Errorf("attributes of %s are told", e.name)
		}
	}
	if len(names) != 62 || !names[order.ShardName(29, order.TableSuffix)] {
		t.Errorf("%d names: %q", len(names), slices.Sorted(maps.Keys(names)))
	}
}

// A fault while attributes are worked out costs these, not the daemon.
func TestPanicWhileTelling(t *testing.T) {
	m := spokenMount(t, plusSource(t))
	wantAttributes(t, m, fuse.FUSE_ROOT_ID)
	m.layer.RawFileSystem = panickingLookups{m.layer.RawFileSystem}
	for _, e := range listPlus(t, m, fuse.FUSE_ROOT_ID, 2000) {
		if e.told != (fuse.EntryOut{}) {
			t.Errorf("of %s is told %+v", e.name, e.told)
		}
	}
	if m.panics.Load() == 0 {
		t.Error("no fault is counted")
	}
}

type panickingLookups struct{ fuse.RawFileSystem }

func (panickingLookups) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	out.NodeId = 7
	panic("looking up " + name)
}

// ls asks every file for these until it is told that there are none.
func TestUnsupportedAttributes(t *testing.T) {
	m := spokenMount(t, plusSource(t))
	header := fuse.InHeader{NodeId: lookUp(t, m, "a00.npy").NodeId}
	for name, want := range map[string]unix.Errno{
		"system.posix_acl_access": unix.EOPNOTSUPP, "security.selinux": unix.EOPNOTSUPP, "security.capability": unix.EOPNOTSUPP,
		"user.other": unix.ENODATA, "user.prismfs.shape": 0,
	} {
		if _, status := m.layer.GetXAttr(nil, &header, name, make([]byte, 100)); status != fuse.Status(want) {
			t.Errorf("%s: %v, want %v", name, status, want)
		}
	}
}
