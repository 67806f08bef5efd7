package integration

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"prismfs/dataset"
)

// TestListing lists 20,000 files, and asks for all their sizes: nothing is
// decoded for it.
func TestListing(t *testing.T) {
	f := testFixtures(t)
	const folders, files = 20, 1000
	source := scratch(t)
	for i := range folders {
		folder := filepath.Join(source, fmt.Sprintf("class%02d", i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			if err := os.Link(f.path("small-packed/000.l3"), filepath.Join(folder, fmt.Sprintf("%04d.l3", j))); err != nil {
				t.Fatal(err)
			}
		}
	}
	mt := mount(t, source, best)
	check(t, "listing", args{"mount": mt.dir, "folders": folders, "files": files})
}

// folderOfLinks is a folder of so many packed files, all links to one.
func folderOfLinks(t *testing.T, files int) string {
	t.Helper()
	f := testFixtures(t)
	source := scratch(t)
	for i := range files {
		if err := os.Link(f.path("small-packed/000.l3"), filepath.Join(source, fmt.Sprintf("%04d.l3", i))); err != nil {
			t.Fatal(err)
		}
	}
	return source
}

// TestNamesAreForgotten has the kernel forget what is more than a mount has room for,
// in both ways, while files are in use.
func TestNamesAreForgotten(t *testing.T) {
	const files = 3000
	source := folderOfLinks(t, files)
	for _, m := range []mode{"few-names", "few-names,no-prune", "few-names,no-passthrough"} {
		t.Run(m.String(), func(t *testing.T) {
			mt := mount(t, source, m)
			check(t, "names_are_forgotten", args{"mount": mt.dir, "files": files, "few": 1000})
		})
	}
}

// TestLongListing has ls -l told the attributes of a folder's files with their names.
func TestLongListing(t *testing.T) {
	const files = 3000
	source := folderOfLinks(t, files)
	mt := mount(t, source, best)
	check(t, "long_listing", args{"mount": mt.dir, "files": files})
}

// TestReadOnly tries everything that would change a file system.
func TestReadOnly(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.packed, best)
	check(t, "read_only", args{"mount": mt.dir, "name": "photos/Brassica/rgb.npy", "folder": "photos"})
	check(t, "read_only", args{"mount": mt.dir, "name": "README.txt", "folder": "photos/avis"})
	check(t, "arrays", args{"mount": mt.dir, "expected": f.expected})
}

// TestAttributes looks at what stat, statfs, readdir and getxattr say, and that
// they say the same after a remount.
func TestAttributes(t *testing.T) {
	f := testFixtures(t)
	a := args{"source": f.source, "packed": f.packed, "expected": f.expected}
	var before, after map[string]uint64
	t.Run("first", func(t *testing.T) {
		a["mount"] = mount(t, f.packed, best).dir
		checkInto(t, &before, "attributes", a)
	})
	t.Run("remounted", func(t *testing.T) {
		a["mount"] = mount(t, f.packed, noPassthrough).dir
		checkInto(t, &after, "attributes", a)
		check(t, "drop_caches", args{})
		var forgotten map[string]uint64
		checkInto(t, &forgotten, "inodes", args{"mount": a["mount"]})
		if !maps.Equal(after, forgotten) {
			t.Error("inode numbers changed when the kernel forgot the inodes")
		}
	})
	if len(before) == 0 || !maps.Equal(before, after) {
		t.Errorf("inode numbers changed with the remount: %d, then %d", len(before), len(after))
	}
}

// TestModeBits keeps the permissions of the source, even none at all, for
// decoded files, plain ones and folders.
func TestModeBits(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can read the header of a packed file that nobody may read")
	}
	f := testFixtures(t)
	source := scratch(t)
	copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "none.l3"))
	copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "group.l3"))
	copyFile(t, f.path("source/README.txt"), filepath.Join(source, "none.txt"))
	if err := os.Mkdir(filepath.Join(source, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"none.l3": 0, "none.txt": 0, "group.l3": 0o440, "folder": 0} {
		if err := os.Chmod(filepath.Join(source, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mt := mount(t, source, best)
	for name, mode := range map[string]int{"none.npy": 0, "none.txt": 0, "group.npy": 0o440, "folder": 0} {
		check(t, "mode", args{"mount": mt.dir, "name": name, "mode": mode})
	}
}

// TestNames resolves views by path, at every level and in every order.
func TestNames(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.packed, best)
	check(t, "names", args{"mount": mt.dir, "expected": f.expected})
}

// TestLinks follows links inside the source and refuses those that leave it;
// special files are left out.
func TestLinks(t *testing.T) {
	f := testFixtures(t)
	source := scratch(t)
	copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "picture.l3"))
	if err := os.Mkdir(filepath.Join(source, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"inside.l3": "picture.l3", "folder-link": "folder", "outside.l3": f.path("small-packed/001.l3"),
		"outside-folder": f.path("small-packed"), "dangling.l3": "nowhere.l3", "loop.l3": "loop.l3",
	} {
		if err := os.Symlink(target, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(source, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(source, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	mt := mount(t, source, best)
	check(t, "links", args{"mount": mt.dir})
	var stats struct {
		LeftOut int `json:"left_out"`
	}
	checkInto(t, &stats, "stats", args{"mount": mt.dir})
	if stats.LeftOut != 6 { // though the folder was listed more than once
		t.Errorf("left_out is %d, want the pipe, the socket and four links", stats.LeftOut)
	}
}

// TestUnfinishedFolder mounts what pack has not finished: there is a warning, once, and
// what pack lays beside its outputs is not seen, in no view.
func TestUnfinishedFolder(t *testing.T) {
	f := testFixtures(t)
	source := scratch(t)
	copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "000.l3"))
	copyFile(t, f.path("source/README.txt"), filepath.Join(source, "README.txt"))
	for _, name := range []string{dataset.PackMarker, dataset.PackTempPrefix + "X"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte("not for readers"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mt := mount(t, source, best)
	for view, image := range map[string]string{"": "000.npy", "+png": "000.png", "+l3": "000.l3", "+orig": "000.npy"} {
		out, err := exec.Command("ls", "-A", filepath.Join(mt.dir, view)).CombinedOutput()
		if want := image + "\nREADME.txt\n"; err != nil || string(out) != want {
			t.Errorf("view %q lists %q (%v), want %q", view, out, err, want)
		}
		for _, name := range []string{dataset.PackMarker, dataset.PackTempPrefix + "X"} {
			out, err := exec.Command("cat", filepath.Join(mt.dir, view, name)).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "No such file or directory") {
				t.Errorf("view %q has %s: %q, %v", view, name, out, err)
			}
		}
	}
	log, err := os.ReadFile(mt.log)
	if n := strings.Count(string(log), "unfinished: pack is writing to it"); err != nil || n != 1 {
		t.Errorf("the log warns %d times (%v):\n%s", n, err, log)
	}
}

// TestOddNames has names that are no text, or look like views or patterns.
func TestOddNames(t *testing.T) {
	f := testFixtures(t)
	source := scratch(t)
	var names []string
	for _, stem := range []string{"c++", "lost+found", "a+png", "x+3", "with space", "tab\tnewline\n", "\xff\xfe latin \xe9", "ünïcode", "-rf", "%s", "a.b.c", "*", "quote'\"", "a:b=c,d@e"} {
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, stem+".l3"))
		names = append(names, hex.EncodeToString([]byte(stem+".npy")))
	}
	mt := mount(t, source, best)
	check(t, "odd_names", args{"mount": mt.dir, "names": names, "want": f.path("small/000.npy")})
}
