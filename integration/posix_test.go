package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"
)

// go-fuse's table of cases for POSIX file systems, on a mount.
//
// Nearly all of them write first. Of those, the case itself must fail with EROFS,
// and what it looks at by reading is looked at here on files that the source has.
// posixCases says for every case of the table which it is; a case that a newer
// go-fuse adds is missed here and fails the test.
var posixCases = map[string]struct {
	whole bool                             // reads only: run as it is
	reads func(t *testing.T, p posixMount) // what it reads, on files of ours; nil where it only writes
	why   string                           // nothing is read
}{
	"ReadDirConsistency": {whole: true},
	"DirSeek":            {reads: posixDirSeek},

	"DirectIO":            {reads: posixDirectIO},
	"FcntlFlockLocksFile": {reads: posixLocks},
	"FcntlFlockSetLk":     {reads: posixLocks},
	"FdLeak":              {reads: posixFdLeak},
	"FileBasic":           {reads: posixFileBasic},
	"FileLarge":           {reads: posixFileLarge},
	"FstatDeleted":        {reads: posixRemovedWhileOpen},
	"LseekEnxioCheck":     {reads: posixSeek},
	"LseekHoleSeeksToEOF": {reads: posixSeek},
	"NlinkZero":           {reads: posixRemovedWhileOpen},
	"OpenAt":              {reads: posixOpenAt},
	"OpenSymlinkRace":     {reads: posixLinkRace},
	"ParallelFileOpen":    {reads: posixParallelOpen},
	"ReadDirBasic":        {reads: posixReadDir},
	"SymlinkReadlink":     {reads: posixReadlink},
	"XAttr":               {reads: posixXAttr},

	"AppendWrite":                {why: "writes at the end of a file"},
	"Fallocate":                  {why: "allocates"},
	"FallocateKeepSize":          {why: "allocates"},
	"Link":                       {why: "makes a hard link; files of a mount have one link each"},
	"LinkUnlinkRename":           {why: "renames"},
	"MkdirRmdir":                 {why: "makes and removes a folder"},
	"RenameOpenDir":              {why: "renames"},
	"RenameOverwriteDestExist":   {why: "renames"},
	"RenameOverwriteDestNoExist": {why: "renames"},
	"SetattrSymlink":             {why: "sets times"},
	"Tmpfile":                    {why: "makes a file"},
	"TruncateFile":               {why: "truncates"},
	"TruncateNoFile":             {why: "truncates"},
	"XAttrLarge":                 {why: "sets an attribute; none of a mount is large"},
}

// posixMount is a mount and its source. view is a decoded file and passed one that
// passes through; the bytes of each are in want.
type posixMount struct {
	dir, source  string
	view, passed string
	want         map[string][]byte
}

// envPosix has this test binary run as the process that reads the mount: a test
// that hangs must not hang the others. It names mount, source and expected bytes.
const envPosix = "PRISMFS_TEST_POSIX"

func TestPosix(t *testing.T) {
	for name := range posixtest.All {
		if _, ok := posixCases[name]; !ok {
			t.Errorf("go-fuse has a case %s of which nothing is known here", name)
		}
	}
	f := testFixtures(t)
	for _, m := range []mode{best, noPassthrough} {
		t.Run(m.String(), func(t *testing.T) {
			source := scratch(t)
			copyFile(t, f.path("small-packed/005.l3"), filepath.Join(source, "file.l3"))
			copyFile(t, f.path("small/005.npy"), filepath.Join(source, "passed"))
			mt := mount(t, source, m, "--timeout", "0s")
			out := posixChild(t, "TestPosixReads", mt.dir, source, f.path("small/005.npy"))
			if !strings.HasSuffix(strings.TrimSpace(out), "PASS") {
				t.Errorf("reading:\n%s", out)
			}
			for name, c := range posixCases {
				if c.reads != nil && !strings.Contains(out, "--- PASS: TestPosixReads/"+name+" ") {
					t.Errorf("%s did not run or failed", name)
				}
			}
			if m != best {
				return
			}
			out = posixChild(t, "TestPosixWhole", mt.dir, source, f.path("small/005.npy"))
			for name, c := range posixCases {
				said := posixSaid(out, name)
				if passed := strings.Contains(said, "--- PASS: TestPosixWhole/"+name+" "); passed != c.whole {
					t.Errorf("%s: passed is %v, want %v:\n%s", name, passed, c.whole, said)
				}
				if !c.whole && !strings.Contains(said, "read-only file system") {
					t.Errorf("%s was not stopped by EROFS:\n%s", name, said)
				}
			}
		})
	}
}

// posixChild runs a test of this file in a process of its own, for a while.
func posixChild(t *testing.T, test string, about ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), envPosix+"="+strings.Join(about, "\n"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v, %v\n%s", test, err, ctx.Err(), out)
	}
	return string(out)
}

// posixSaid cuts what a case said out of the output of all of them.
func posixSaid(out, name string) string {
	_, after, _ := strings.Cut(out, "=== RUN   TestPosixWhole/"+name+"\n")
	said, _, _ := strings.Cut(after, "=== RUN")
	result := regexp.MustCompile(`--- [A-Z]+: TestPosixWhole/` + name + ` `).FindString(out)
	return said + result
}

// posixMountOf tells the child what it is to read; nobody else reads anything.
func posixMountOf(t *testing.T) (p posixMount, isChild bool) {
	about := strings.Split(os.Getenv(envPosix), "\n")
	if len(about) != 3 {
		return posixMount{}, false
	}
	want, err := os.ReadFile(about[2])
	if err != nil {
		t.Fatal(err)
	}
	return posixMount{
		dir: about[0], source: about[1], view: about[0] + "/file.npy", passed: about[0] + "/passed",
		want: map[string][]byte{about[0] + "/file.npy": want, about[0] + "/passed": want},
	}, true
}

// TestPosixWhole runs the cases as they are.
func TestPosixWhole(t *testing.T) {
	p, isChild := posixMountOf(t)
	if !isChild {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		t.Run(name, func(t *testing.T) { posixtest.All[name](t, p.dir) })
	}
}

// TestPosixReads runs what the cases read.
func TestPosixReads(t *testing.T) {
	p, isChild := posixMountOf(t)
	if !isChild {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(posixCases)) {
		if c := posixCases[name]; c.reads != nil {
			t.Run(name, func(t *testing.T) { c.reads(t, p) })
		}
	}
}

// eachFile opens the decoded file and the passed one.
func (p posixMount) eachFile(t *testing.T, flags int, test func(f *os.File, want []byte)) {
	t.Helper()
	for name, want := range p.want {
		f, err := os.OpenFile(name, os.O_RDONLY|flags, 0)
		if err != nil {
			t.Errorf("opening %s: %v", name, err)
			continue
		}
		test(f, want)
		if err := f.Close(); err != nil {
			t.Errorf("closing %s: %v", name, err)
		}
	}
}

func posixDirectIO(t *testing.T, p posixMount) {
	buf, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(buf)
	p.eachFile(t, unix.O_DIRECT, func(f *os.File, want []byte) {
		if n, err := f.Read(buf); err != nil || !bytes.Equal(buf[:n], want[:n]) || n != len(buf) {
			t.Errorf("%s: %d bytes, %v", f.Name(), n, err)
		}
	})
}

func posixFileBasic(t *testing.T, p posixMount) {
	p.eachFile(t, 0, func(f *os.File, want []byte) {
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", f.Name(), len(got), err)
		}
		info, err := f.Stat()
		if err != nil || info.Size() != int64(len(want)) || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", f.Name(), info, err)
		}
	})
}

func posixFileLarge(t *testing.T, p posixMount) {
	p.eachFile(t, 0, func(f *os.File, want []byte) {
		buf := make([]byte, len(want)+1000)
		if n, err := io.ReadFull(f, buf); err != io.ErrUnexpectedEOF || !bytes.Equal(buf[:n], want) {
			t.Errorf("%s: %d bytes, %v", f.Name(), n, err)
		}
		part := buf[:64<<10+5]
		if n, err := f.ReadAt(part, 4096+7); err != nil || !bytes.Equal(part[:n], want[4096+7:4096+7+len(part)]) {
			t.Errorf("%s: at an odd place %d bytes, %v", f.Name(), n, err)
		}
	})
}

func posixFdLeak(t *testing.T, p posixMount) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := count()
	for range 100 {
		for name := range p.want {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := count(); after > before+2 {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// posixRemovedWhileOpen: on a disk st_nlink would be 0 then. A mount cannot know
// how many names a file of the source has, so it says 1 always.
func posixRemovedWhileOpen(t *testing.T, p posixMount) {
	for _, name := range []string{"removed.l3", "removed.txt"} {
		from, shown := p.source+"/file.l3", p.dir+"/removed.npy"
		if name == "removed.txt" {
			from, shown = p.source+"/passed", p.dir+"/removed.txt"
		}
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.source+"/"+name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(shown)
		if err != nil {
			t.Fatal(err)
		}
		var before, after unix.Stat_t
		errBefore := unix.Fstat(int(f.Fd()), &before)
		errRemove := os.Remove(p.source + "/" + name)
		errAfter := unix.Fstat(int(f.Fd()), &after)
		if err := errors.Join(errBefore, errRemove, errAfter); err != nil || before != after || after.Nlink != 1 {
			t.Errorf("%s: %+v, then %+v, %v", name, before, after, err)
		}
		got, err := io.ReadAll(f)
		if want := p.want[p.view]; err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, removed while it was open: %d bytes, %v", name, len(got), err)
		}
		f.Close()
		if _, err := os.Stat(shown); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there after it was removed: %v", name, err)
		}
	}
}

func posixSeek(t *testing.T, p posixMount) {
	p.eachFile(t, 0, func(f *os.File, want []byte) {
		size := int64(len(want))
		for _, c := range []struct {
			off    int64
			whence int
			want   int64
			err    error
		}{
			{0, unix.SEEK_DATA, 0, nil}, {size / 2, unix.SEEK_DATA, size / 2, nil}, {size, unix.SEEK_DATA, 0, unix.ENXIO}, {size + 1, unix.SEEK_DATA, 0, unix.ENXIO},
			{0, unix.SEEK_HOLE, size, nil}, {size / 2, unix.SEEK_HOLE, size, nil}, {size, unix.SEEK_HOLE, 0, unix.ENXIO}, {size + 1, unix.SEEK_HOLE, 0, unix.ENXIO},
			{-7, unix.SEEK_END, size - 7, nil}, {7, unix.SEEK_END, size + 7, nil}, {-1, unix.SEEK_SET, 0, unix.EINVAL},
		} {
			if got, err := unix.Seek(int(f.Fd()), c.off, c.whence); err != c.err || err == nil && got != c.want {
				t.Errorf("%s: seek to %d by %d: %d, %v; want %d, %v", f.Name(), c.off, c.whence, got, err, c.want, c.err)
			}
		}
	})
}

func posixOpenAt(t *testing.T, p posixMount) {
	folder, err := unix.Open(p.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	for name, want := range p.want {
		fd, err := unix.Openat(folder, filepath.Base(name), unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s by openat: %d bytes, %v", name, len(got), err)
		}
		f.Close()
	}
	if _, err := unix.Openat(folder, "new", unix.O_CREAT|unix.O_RDWR, 0o700); err != unix.EROFS {
		t.Errorf("openat with O_CREAT: %v", err)
	}
}

// posixLinkRace has a name of the source be a file and a link that leaves the
// source in turn: what is read is never what the link leads to.
func posixLinkRace(t *testing.T, p posixMount) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	const turns = 300
	path := p.source + "/race"
	stop := make(chan bool)
	var shuffler sync.WaitGroup
	shuffler.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			if i%2 == 0 {
				err = os.WriteFile(path+".tmp", nil, 0o644)
			} else {
				err = os.Symlink(outside, path+".tmp")
			}
			if err := errors.Join(err, os.Rename(path+".tmp", path)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	read := 0
	for range turns {
		got, err := os.ReadFile(p.dir + "/race")
		switch {
		case err == nil && len(got) > 0:
			t.Errorf("read %q, which lies outside the source", got)
		case err == nil:
			read++
		case !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE):
			t.Errorf("reading: %v", err)
		}
	}
	close(stop)
	shuffler.Wait()
	if read == 0 {
		t.Error("the file was never read: nothing was checked")
	}
	os.Remove(path)
}

func posixParallelOpen(t *testing.T, p posixMount) {
	var all sync.WaitGroup
	for range 10 {
		for name, want := range p.want {
			all.Go(func() {
				if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			})
		}
	}
	all.Wait()
}

// posixReadDir makes files in the source, one by one: the next listing has them.
func posixReadDir(t *testing.T, p posixMount) { p.fill(t, "listed") }

func (p posixMount) fill(t *testing.T, name string) {
	t.Helper()
	folder := p.source + "/" + name
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 110 {
		file := fmt.Sprintf("file%036x", i) // 110 are more than a page of entries
		want = append(want, file)
		if err := os.WriteFile(folder+"/"+file, []byte("hello"), 0o644); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(p.dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("with %d files: %q", len(want), got)
		}
	}
}

// posixDirSeek goes to every entry of a folder by the offset that it had.
func posixDirSeek(t *testing.T, p posixMount) {
	p.fill(t, "sought")
	fd, err := unix.Open(p.dir+"/sought", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	names := func() (all []string) {
		buf := make([]byte, 700) // a few entries at a time
		for {
			n, err := unix.ReadDirent(fd, buf)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return all
			}
			_, _, all = unix.ParseDirent(buf[:n], -1, all)
		}
	}
	all := names()
	if len(all) != 110 {
		t.Fatalf("%d entries", len(all))
	}
	for skip := 109; skip >= 0; skip -= 7 {
		if _, err := unix.Seek(fd, int64(skip+2), unix.SEEK_SET); err != nil { // . and .. come first
			t.Fatal(err)
		}
		if got := names(); !slices.Equal(got, all[skip:]) {
			t.Errorf("behind %d entries come %d, want %d", skip, len(got), len(all)-skip)
		}
	}
}

// posixReadlink: links are followed, so there is none to read.
func posixReadlink(t *testing.T, p posixMount) {
	for link, target := range map[string]string{"followed": "passed", "linked.l3": "file.l3"} {
		if err := os.Symlink(target, p.source+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{p.dir + "/followed", p.dir + "/linked.npy"} {
		if _, err := os.Readlink(link); !errors.Is(err, unix.EINVAL) {
			t.Errorf("readlink of %s: %v", link, err)
		}
		if got, err := os.ReadFile(link); err != nil || !bytes.Equal(got, p.want[p.view]) {
			t.Errorf("%s: %d bytes, %v", link, len(got), err)
		}
	}
}

func posixXAttr(t *testing.T, p posixMount) {
	buf := make([]byte, 1024)
	if _, err := unix.Getxattr(p.view, "user.xattrtest", buf); err != unix.ENODATA {
		t.Errorf("an attribute that is not there: %v", err)
	}
	n, err := unix.Listxattr(p.view, buf)
	if err != nil || !bytes.Contains(buf[:n], []byte("user.prismfs.shape\x00")) {
		t.Errorf("listed: %q, %v", buf[:max(n, 0)], err)
	}
	size, err := unix.Getxattr(p.view, "user.prismfs.shape", nil)
	if n, err2 := unix.Getxattr(p.view, "user.prismfs.shape", buf); err != nil || err2 != nil || n != size || n == 0 {
		t.Errorf("%d bytes, said to be %d, %v, %v", n, size, err, err2)
	}
	if _, err := unix.Getxattr(p.view, "user.prismfs.shape", buf[:1]); err != unix.ERANGE {
		t.Errorf("in a buffer of one byte: %v", err)
	}
	if err := unix.Setxattr(p.view, "user.xattrtest", []byte("value"), 0); err != unix.EROFS {
		t.Errorf("set: %v", err)
	}
}

// posixLocks: locks are the kernel's own, and those for reading need no right to
// write.
func posixLocks(t *testing.T, p posixMount) {
	p.eachFile(t, 0, func(f *os.File, want []byte) {
		other, err := os.Open(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		read, write := unix.Flock_t{Type: unix.F_RDLCK}, unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &read); err != nil {
			t.Errorf("%s: a lock for reading: %v", f.Name(), err)
		}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &write); err != unix.EBADF {
			t.Errorf("%s: a lock for writing: %v", f.Name(), err)
		}
		probe := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(other.Fd(), unix.F_OFD_GETLK, &probe); err != nil || probe.Type != unix.F_RDLCK {
			t.Errorf("%s: the lock is seen as %d, %v", f.Name(), probe.Type, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Errorf("%s: flock: %v", f.Name(), err)
		}
		if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			t.Errorf("%s: flock by another: %v", f.Name(), err)
		}
	})
}
