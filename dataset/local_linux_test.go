package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stores opens a folder with openat2 and without, which must be the same.
func stores(t *testing.T, dir string) map[string]*LocalStore {
	t.Helper()
	m := map[string]*LocalStore{"openat2": openLocal(t, dir), "walk": openLocal(t, dir)}
	if m["openat2"].root.Load().b.walkOnly {
		t.Log("openat2 is not to be had here: both stores walk")
	}
	m["walk"].root.Load().b.walkOnly = true
	return m
}

// eachStore runs a test with openat2 and without.
func eachStore(t *testing.T, dir string, f func(t *testing.T, s *LocalStore)) {
	t.Helper()
	for name, s := range stores(t, dir) {
		t.Run(name, func(t *testing.T) { f(t, s) })
	}
}

func openLocal(t testing.TB, dir string) *LocalStore {
	t.Helper()
	s, err := OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test may have closed it already.
		if err := s.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(target, path))
}

// readAll opens and reads a file of a store.
func readAll(s Store, path string) (string, error) {
	f, err := s.Open(context.Background(), path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, f.Info().Size)
	if _, err := f.ReadAt(buf, 0); err != nil {
		return "", err
	}
	return string(buf), nil
}

// list returns the entries of a folder of a store by name.
func list(t testing.TB, s Store, path string) map[string]Kind {
	t.Helper()
	m := map[string]Kind{}
	must(t, s.ReadDir(context.Background(), path, func(e DirEntry) bool {
		if _, twice := m[e.Name]; twice {
			t.Errorf("%q is listed twice", e.Name)
		}
		m[e.Name] = e.Kind
		return true
	}))
	return m
}

// linkTree makes a source and things around it:
//
//	outside/secret        a file that must never be seen
//	src/real/file         a file, "content"
//	src/real/deep/leaf    a file, "leaf"
//
// and returns the real path of src.
func linkTree(t *testing.T) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	writeFile(t, top+"/outside/secret", "secret")
	writeFile(t, top+"/src-not/file", "other")
	writeFile(t, top+"/src/real/file", "content")
	writeFile(t, top+"/src/real/deep/leaf", "leaf")
	return top + "/src"
}

func TestLinks(t *testing.T) {
	src := linkTree(t)
	symlink(t, src, filepath.Dir(src)+"/way") // another way to the source
	long := strings.Repeat("real/../", 20) + "real/file"
	cases := []struct {
		link, target string
		path         string // of what is opened, the link where empty
		want         string // content, "/" for a folder
		err          error
	}{
		{link: "l1", target: "real/file", want: "content"},
		{link: "l2", target: "./real//deep/../file", want: "content"},
		{link: "l3", target: long, want: "content"},
		{link: "real/deep/l4", target: "../../real/file", want: "content"},
		{link: "l5", target: "real/deep", want: "/"},
		{link: "l6", target: "real/deep/", path: "l6/leaf", want: "leaf"},
		{link: "l7", target: "l6", path: "l7/leaf", want: "leaf"},
		{link: "l8", target: ".", path: "l8/l8/real/file", want: "content"},
		{link: "l9", target: ".", want: "/"},

		{link: "abs1", target: src + "/real/file", want: "content"},
		{link: "abs2", target: src + "/real/deep", path: "abs2/leaf", want: "leaf"},
		{link: "abs3", target: src, path: "abs3/real/file", want: "content"},
		{link: "abs4", target: src + "/l5/../deep/leaf", want: "leaf"},
		{link: "abs5", target: src + "/l5/../real/file", err: fs.ErrNotExist}, // l5/.. is real
		{link: "abs6", target: filepath.Dir(src) + "/way/real/file", want: "content"},
		{link: "abs7", target: src + "/../src/real/file", want: "content"},
		{link: "abs8", target: "//" + src + "/./real/file", want: "content"},
		{link: "abs9", target: src + "/abs6", want: "content"},
		{link: "abs10", target: "/proc/self/cwd/../nothing", err: ErrOutside},
		{link: "abs11", target: src, want: "/"},
		{link: "abs12", target: src + "/", want: "/"},

		{link: "back1", target: "../src/real/file", want: "content"},
		{link: "back2", target: "../outside/../src/real/deep/leaf", want: "leaf"},
		{link: "back3", target: "../way/real/file", want: "content"},
		{link: "back4", target: "../src/../src/real", path: "back4/file", want: "content"},

		{link: "out1", target: "../outside/secret", err: ErrOutside},
		{link: "out2", target: filepath.Dir(src) + "/outside/secret", err: ErrOutside},
		{link: "out3", target: "..", err: ErrOutside},
		{link: "out4", target: "../outside", path: "out4/secret", err: ErrOutside},
		{link: "out5", target: "..", path: "out5/outside/secret", err: ErrOutside},
		{link: "out6", target: "/", err: ErrOutside},
		{link: "out7", target: "/", path: "out7/etc/passwd", err: ErrOutside},
		{link: "out8", target: "/nowhere/at/all", err: ErrOutside},
		{link: "out9", target: "../../../../../../../../../../../../etc/passwd", err: ErrOutside},
		{link: "out10", target: src + "-not/file", err: ErrOutside},
		{link: "out11", target: "out1", err: ErrOutside},
		{link: "out12", target: src + "/out2", err: ErrOutside},
		{link: "out13", target: "/dev/null", err: ErrOutside},
		{link: "out14", target: "../src/../outside", err: ErrOutside},

		{link: "none1", target: "real/none", err: fs.ErrNotExist},
		{link: "none2", target: src + "/real/none", err: fs.ErrNotExist},
		{link: "none3", target: "../src/real/none", err: fs.ErrNotExist},
		{link: "none4", target: "real/file/x", err: unix.ENOTDIR},
		{link: "none5", target: src + "/real/file/x", err: unix.ENOTDIR},
		{link: "none6", target: "real/file/", err: unix.ENOTDIR},
		{link: "none7", target: src + "/real/file/", err: unix.ENOTDIR},

		{link: "loop1", target: "loop1", err: unix.ELOOP},
		{link: "loop2", target: "loop3", err: unix.ELOOP},
		{link: "loop3", target: "loop2", err: unix.ELOOP},
		{link: "loop4", target: src + "/loop4", err: unix.ELOOP},
		{link: "loop5", target: "../src/loop5", err: unix.ELOOP},
		{link: "loop6", target: "loop6", path: "loop6/x", err: unix.ELOOP},
	}
	for _, c := range cases {
		symlink(t, c.target, src+"/"+c.link)
	}
	eachStore(t, src, func(t *testing.T, s *LocalStore) {
		for _, c := range cases {
			if c.path == "" {
				c.path = c.link
			}
			t.Run(c.link, func(t *testing.T) { checkLink(t, s, c.path, c.want, c.err) })
		}
		kinds := list(t, s, "")
		for _, c := range cases {
			if c.path != "" || strings.Contains(c.link, "/") {
				continue
			}
			want := Regular
			if c.want == "/" {
				want = Dir
			}
			if c.err != nil {
				want = Broken
			}
			if got := kinds[c.link]; got != want {
				t.Errorf("%s → %s is listed as a %v, want %v", c.link, c.target, got, want)
			}
		}
	})
}

func checkLink(t *testing.T, s *LocalStore, path, want string, wantErr error) {
	t.Helper()
	info, statErr := s.Stat(context.Background(), path)
	got, openErr := readAll(s, path)
	if wantErr != nil {
		if !errors.Is(statErr, wantErr) || !errors.Is(openErr, wantErr) {
			t.Errorf("Stat gives %v, Open %q, %v; want the error %v", statErr, got, openErr, wantErr)
		}
		if !strings.Contains(fmt.Sprint(openErr), path) {
			t.Errorf("the error does not name %s: %v", path, openErr)
		}
		return
	}
	must(t, statErr)
	if want == "/" {
		if info.Kind != Dir || !errors.Is(openErr, unix.EISDIR) {
			t.Errorf("Stat gives a %v, Open %v; want a folder and EISDIR", info.Kind, openErr)
		}
		list(t, s, path)
		return
	}
	if openErr != nil || got != want || info.Kind != Regular || info.Size != int64(len(want)) {
		t.Errorf("content %q, %v, %v of %d bytes; want %q", got, openErr, info.Kind, info.Size, want)
	}
}

func TestLinkCount(t *testing.T) {
	src := linkTree(t)
	// chain40 passes through 40 links, as many as Linux follows; chain41 one more.
	target := "real/file"
	for i := 1; i <= maxLinks+1; i++ {
		symlink(t, target, fmt.Sprintf("%s/chain%d", src, i))
		target = fmt.Sprintf("chain%d", i)
	}
	eachStore(t, src, func(t *testing.T, s *LocalStore) {
		checkLink(t, s, "chain40", "content", nil)
		checkLink(t, s, "chain41", "", unix.ELOOP)
	})
}

func TestSourceBehindLink(t *testing.T) {
	src := linkTree(t)
	way := filepath.Dir(src) + "/way"
	symlink(t, src, way)
	symlink(t, way+"/real/file", src+"/a")
	symlink(t, src+"/real/file", src+"/b")
	eachStore(t, way, func(t *testing.T, s *LocalStore) {
		checkLink(t, s, "a", "content", nil)
		checkLink(t, s, "b", "content", nil)
		if s.String() != way {
			t.Errorf("the store calls itself %s, not %s", s, way)
		}
	})
}

// A store that is the root folder itself has nothing outside.
func TestWholeMachine(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	writeFile(t, dir+"/file", "content")
	symlink(t, dir+"/file", dir+"/abs")
	symlink(t, strings.Repeat("../", 30)+dir+"/file", dir+"/up")
	eachStore(t, "/", func(t *testing.T, s *LocalStore) {
		for _, name := range []string{"file", "abs", "up"} {
			checkLink(t, s, strings.TrimPrefix(dir, "/")+"/"+name, "content", nil)
		}
	})
}

// When the source is moved, what was its path may be anything.
func TestMovedSource(t *testing.T) {
	src := linkTree(t)
	symlink(t, src+"/real/file", src+"/abs")
	symlink(t, "real/file", src+"/rel")
	all := stores(t, src)
	must(t, os.Rename(src, src+"-moved"))
	writeFile(t, src+"/real/file", "impostor")
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			checkLink(t, s, "rel", "content", nil)
			checkLink(t, s, "abs", "", ErrOutside)
		})
	}
}

func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{
		"-rf", "--", "a b", " ", "new\nline", "tab\t", "\x01\x7f", "\xff\xfe\x80", "caf\u00e9", "cafe\u0301",
		"\u202egnp.exe", "'\"$(touch x)`", "\\", "*", "?", "+png", "c++", "...", "..a", ".hidden",
		strings.Repeat("x", 255), strings.Repeat("\xe9", 255), "CON", "日本語",
	}
	// Every byte that a name can have.
	var every []byte
	for b := 1; b < 256; b++ {
		if b != '/' {
			every = append(every, byte(b))
		}
	}
	names = append(names, string(every[:127]), string(every[127:]))
	for _, name := range names {
		writeFile(t, dir+"/"+name, "of "+name)
		writeFile(t, dir+"/folders/"+name+"/in", "in "+name)
	}
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		want := map[string]Kind{"folders": Dir}
		for _, name := range names {
			want[name] = Regular
			if got, err := readAll(s, name); got != "of "+name {
				t.Errorf("%q: %q, %v", name, got, err)
			}
			if got, err := readAll(s, "folders/"+name+"/in"); got != "in "+name {
				t.Errorf("folders/%q/in: %q, %v", name, got, err)
			}
		}
		if got := list(t, s, ""); !maps.Equal(got, want) {
			t.Errorf("listed %v,\nwant %v", got, want)
		}
		_, err := s.Stat(context.Background(), strings.Repeat("x", 256))
		if !errors.Is(err, unix.ENAMETOOLONG) {
			t.Errorf("a name of 256 bytes: %v", err)
		}
	})
}

func TestNoPaths(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a/b", "x")
	ctx := context.Background()
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		for _, path := range []string{".", "..", "/", "/a", "a/", "a//b", "a/./b", "a/../a/b", "../x", "a\x00b", "\x00"} {
			if _, err := s.Stat(ctx, path); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("Stat(%q): %v", path, err)
			}
			if _, err := s.Open(ctx, path); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("Open(%q): %v", path, err)
			}
			if err := s.ReadDir(ctx, path, func(DirEntry) bool { return true }); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("ReadDir(%q): %v", path, err)
			}
		}
		if _, err := s.Stat(ctx, "a/b/c"); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("a file as a folder: %v", err)
		}
		if err := s.ReadDir(ctx, "a/b", func(DirEntry) bool { return true }); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("listing a file: %v", err)
		}
	})
}

// A path may be longer than the kernel takes in one call.
func TestLongPath(t *testing.T) {
	top := t.TempDir()
	part := strings.Repeat("d", 250)
	fd, err := unix.Open(top, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	path := ""
	for len(path) < 2*unix.PathMax {
		must(t, unix.Mkdirat(fd, part, 0o755))
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Close(fd))
		fd = next
		path += part + "/"
	}
	must(t, unix.Symlinkat(part, fd, "link"))
	must(t, unix.Mkdirat(fd, part, 0o755))
	must(t, unix.Close(fd))
	eachStore(t, top, func(t *testing.T, s *LocalStore) {
		for _, name := range []string{"link", part} {
			info, err := s.Stat(context.Background(), path+name)
			if err != nil || info.Kind != Dir {
				t.Errorf("%s: %v, %v", name, info.Kind, err)
			}
		}
		dir := strings.TrimSuffix(path, "/")
		if got := list(t, s, dir); got["link"] != Dir || got[part] != Dir || len(got) != 2 {
			t.Errorf("listed %v", got)
		}
	})
}

func TestSpecials(t *testing.T) {
	dir := t.TempDir()
	want := map[string]Kind{"fifo": Special, "socket": Special, "device": Special, "link": Special}
	must(t, unix.Mkfifo(dir+"/fifo", 0o644))
	socket, err := net.Listen("unix", dir+"/socket")
	must(t, err)
	defer socket.Close()
	if err := unix.Mknod(dir+"/device", unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))); err != nil {
		t.Logf("without a device, which this user cannot make: %v", err)
		delete(want, "device")
	}
	symlink(t, "fifo", dir+"/link")
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		if got := list(t, s, ""); !maps.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		for name := range want {
			// A blocking open of the fifo would hang here.
			if _, err := s.Open(context.Background(), name); !errors.Is(err, ErrSpecial) {
				t.Errorf("Open(%s): %v", name, err)
			}
			info, err := s.Stat(context.Background(), name)
			if err != nil || info.Kind != Special {
				t.Errorf("Stat(%s): %v, %v", name, info.Kind, err)
			}
		}
	})
}

// A fifo that takes the place of a file between the look and the open neither
// blocks nor is handed out.
func TestFifoAtTheLastMoment(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(dir+"/fifo", 0o644))
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		fd, _, err := s.openBeneath("fifo", readFlags)
		must(t, err)
		if _, err := newLocalFile(fd, "fifo"); !errors.Is(err, ErrSpecial) {
			t.Errorf("a fifo as a file: %v", err)
		}
	})
}

// Root may read everything; a file system user of its own makes one thread a
// nobody.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	writeFile(t, dir+"/file", "x")
	writeFile(t, dir+"/closed/file", "x")
	writeFile(t, dir+"/nolist/file", "x")
	must(t, os.Chmod(dir+"/file", 0))
	must(t, os.Chmod(dir+"/closed", 0))
	must(t, os.Chmod(dir+"/nolist", 0o711))
	symlink(t, "closed/file", dir+"/link")
	ctx := context.Background()
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		asNobody(t, func() {
			if info, err := s.Stat(ctx, "file"); err != nil || info.Mode != 0 {
				t.Errorf("Stat of an unreadable file: %v, %v", info.Mode, err)
			}
			for _, path := range []string{"file", "closed/file", "link"} {
				if _, err := s.Open(ctx, path); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("Open(%s): %v", path, err)
				}
			}
			for _, path := range []string{"closed", "nolist"} {
				err := s.ReadDir(ctx, path, func(DirEntry) bool { return true })
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("ReadDir(%s): %v", path, err)
				}
			}
			if got, err := readAll(s, "nolist/file"); got != "x" {
				t.Errorf("a readable file in a folder that cannot be listed: %q, %v", got, err)
			}
			want := map[string]Kind{"file": Regular, "closed": Dir, "nolist": Dir, "link": Broken}
			if got := list(t, s, ""); !maps.Equal(got, want) {
				t.Errorf("listed %v, want %v", got, want)
			}
		})
	})
}

// asNobody runs f with the rights on files of a user who owns nothing.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	runtime.LockOSThread()
	must(t, unix.Setfsuid(nobody))
	f()
	must(t, unix.Setfsuid(0))
	runtime.UnlockOSThread()
}

func TestInfo(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "12345")
	must(t, os.Chmod(dir+"/file", 0o4640))
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/file", &st))
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		info, err := s.Stat(context.Background(), "file")
		must(t, err)
		want := Info{
			Kind: Regular, Size: 5, Mode: 0o640, UID: st.Uid, GID: st.Gid,
			ID: Identity{st.Dev, st.Ino, 5, st.Mtim.Nano(), st.Ctim.Nano()},
		}
		if info != want {
			t.Errorf("%+v,\nwant %+v", info, want)
		}
		f, err := s.Open(context.Background(), "file")
		must(t, err)
		defer f.Close()
		again, err := f.Stat()
		if f.Info() != want || again != want || err != nil {
			t.Errorf("open: %+v, %+v, %v", f.Info(), again, err)
		}
		root, err := s.Stat(context.Background(), "")
		if err != nil || root.Kind != Dir {
			t.Errorf("root: %+v, %v", root, err)
		}
	})
}

// Info stays, Stat follows the open file, and the name may go another way.
func TestOpenFileOutlivesItsName(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "first")
	s := openLocal(t, dir)
	f, err := s.Open(context.Background(), "file")
	must(t, err)
	defer f.Close()
	writeFile(t, dir+"/new", "second!")
	must(t, os.Rename(dir+"/new", dir+"/file"))
	buf := make([]byte, 5)
	if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "first" {
		t.Errorf("read %q, %v", buf, err)
	}
	now, err := f.Stat()
	must(t, err)
	byName, err := s.Stat(context.Background(), "file")
	must(t, err)
	if now.ID.Ino != f.Info().ID.Ino || byName.ID.Ino == now.ID.Ino {
		t.Errorf("opened %+v, now %+v, by name %+v", f.Info().ID, now.ID, byName.ID)
	}
}

func TestDescriptor(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "content")
	eachStore(t, dir, func(t *testing.T, s *LocalStore) {
		f, err := s.Open(context.Background(), "file")
		must(t, err)
		fd := int(f.(*LocalFile).Fd())
		buf := make([]byte, 7)
		if _, err := unix.Pread(fd, buf, 0); err != nil || !bytes.Equal(buf, []byte("content")) {
			t.Errorf("read through the descriptor: %q, %v", buf, err)
		}
		for _, d := range []int{fd, s.root.Load().b.root} {
			flags, err := unix.FcntlInt(uintptr(d), unix.F_GETFD, 0)
			if err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d has the flags %#x, %v: it would be inherited", d, flags, err)
			}
		}
		must(t, f.Close())
		if _, err := f.ReadAt(buf, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if _, err := f.Stat(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Stat after Close: %v", err)
		}
	})
}

func TestClosedStore(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "content")
	s, err := OpenLocal(dir)
	must(t, err)
	f, err := s.Open(context.Background(), "file")
	must(t, err)
	defer f.Close()
	must(t, s.Close())
	if _, err := s.Stat(context.Background(), "file"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Stat: %v", err)
	}
	if err := s.ReadDir(context.Background(), "", func(DirEntry) bool { return true }); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadDir: %v", err)
	}
	buf := make([]byte, 7)
	if _, err := f.ReadAt(buf, 0); err != nil {
		t.Errorf("a file that was open: %v", err)
	}
}

func TestOpenLocalErrors(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "x")
	symlink(t, "loop", dir+"/loop")
	for path, want := range map[string]error{
		dir + "/none": fs.ErrNotExist, dir + "/file": unix.ENOTDIR, dir + "/file/x": unix.ENOTDIR,
	} {
		if _, err := OpenLocal(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("OpenLocal(%s): %v, want %v", path, err, want)
		}
	}
	if _, err := OpenLocal(dir + "/loop"); err == nil {
		t.Error("a loop was opened")
	}
}

// largeFolder makes a folder of n empty files, in memory where there is a place
// for that: a busy disk takes many seconds.
func largeFolder(t testing.TB, n int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "prismfs-test-")
	if err != nil {
		dir = t.TempDir()
	} else {
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	}
	for i := range n {
		fd, err := unix.Open(fmt.Sprintf("%s/%06d.l3", dir, i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		must(t, err)
		must(t, unix.Close(fd))
	}
	return dir
}

func TestLargeFolder(t *testing.T) {
	const n = 20_000
	s := openLocal(t, largeFolder(t, n))
	seen := list(t, s, "")
	names := slices.Sorted(maps.Keys(seen))
	if len(names) != n || names[0] != "000000.l3" || names[n-1] != "019999.l3" {
		t.Fatalf("%d names, from %s to %s", len(names), names[0], names[len(names)-1])
	}
	for name, kind := range seen {
		if kind != Regular {
			t.Fatalf("%s is a %v", name, kind)
		}
	}
	// Stopping early reads no more; an ended context ends the listing.
	count := 0
	must(t, s.ReadDir(context.Background(), "", func(DirEntry) bool { count++; return count < 10 }))
	if count != 10 {
		t.Errorf("%d entries after the tenth was the last wanted", count)
	}
	ctx, cancel := context.WithCancel(context.Background())
	count = 0
	err := s.ReadDir(ctx, "", func(DirEntry) bool { count++; cancel(); return true })
	if !errors.Is(err, context.Canceled) || count >= n {
		t.Errorf("cancelled listing gave %d entries and %v", count, err)
	}
}

// Some file systems do not say in a listing what an entry is.
func TestEntryKinds(t *testing.T) {
	src := linkTree(t)
	symlink(t, "real/file", src+"/link")
	symlink(t, "none", src+"/dangling")
	must(t, unix.Mkfifo(src+"/fifo", 0o644))
	cases := []struct {
		dir, name string
		typ       byte
		want      Kind
	}{
		{"", "link", unix.DT_LNK, Regular},
		{"", "dangling", unix.DT_LNK, Broken},
		{"", "link", unix.DT_UNKNOWN, Regular},
		{"", "dangling", unix.DT_UNKNOWN, Broken},
		{"", "fifo", unix.DT_UNKNOWN, Special},
		{"", "real", unix.DT_UNKNOWN, Dir},
		{"real", "file", unix.DT_UNKNOWN, Regular},
		{"real/deep", "leaf", unix.DT_UNKNOWN, Regular},
		// What is said is believed, and nothing is looked at.
		{"", "none", unix.DT_REG, Regular},
		{"", "none", unix.DT_DIR, Dir},
		{"", "none", unix.DT_SOCK, Special},
		{"", "none", unix.DT_CHR, Special},
		{"", "none", unix.DT_WHT, Special},
	}
	eachStore(t, src, func(t *testing.T, s *LocalStore) {
		for _, c := range cases {
			got, err := s.entryKind(context.Background(), c.dir, c.name, c.typ)
			if err != nil || got != c.want {
				t.Errorf("%s/%s of type %d is a %v, %v; want a %v", c.dir, c.name, c.typ, got, err, c.want)
			}
		}
	})
}

func TestCancelledLocal(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "x")
	s := openLocal(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Stat(ctx, "file"); !errors.Is(err, context.Canceled) {
		t.Errorf("Stat: %v", err)
	}
	if _, err := s.Open(ctx, "file"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if err := s.ReadDir(ctx, "", func(DirEntry) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadDir: %v", err)
	}
}

// descriptors counts those of this process that satisfy a store's calls.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestDescriptorsStayFlat(t *testing.T) {
	src := linkTree(t)
	symlink(t, src+"/real/deep", src+"/abs")
	symlink(t, "../src/real/deep/leaf", src+"/back")
	symlink(t, "/etc/passwd", src+"/out")
	symlink(t, "../outside/secret/x", src+"/out2")
	symlink(t, "loop/x", src+"/loop")
	must(t, unix.Mkfifo(src+"/fifo", 0o644))
	all := stores(t, src)
	ctx := context.Background()
	before := descriptors(t)
	for range 20 {
		for _, s := range all {
			for _, path := range []string{
				"", "real", "real/file", "real/file/x", "abs", "abs/leaf", "abs/leaf/x", "back", "out", "out2", "loop",
				"fifo", "none", "..", "real/deep/leaf",
			} {
				if _, err := s.Stat(ctx, path); err != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("error without its path: %v", err)
				}
				if f, err := s.Open(ctx, path); err == nil {
					must(t, f.Close())
				}
				for _, more := range []bool{true, false} {
					if err := s.ReadDir(ctx, path, func(DirEntry) bool { return more }); err != nil {
						continue
					}
				}
			}
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// While folders and links are swapped by somebody else, nothing outside is seen.
func TestSwappedUnderWay(t *testing.T) {
	src := linkTree(t)
	writeFile(t, src+"/x/file", "inside")
	symlink(t, "../outside", src+"/y")
	writeFile(t, filepath.Dir(src)+"/outside/file", "OUTSIDE")
	symlink(t, src+"/x/file", src+"/abs")
	all := stores(t, src)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := unix.Renameat2(unix.AT_FDCWD, src+"/x", unix.AT_FDCWD, src+"/y", unix.RENAME_EXCHANGE)
			if err != nil {
				done <- err
				return
			}
		}
	}()
	inside, refused := 0, 0
	for i := range 3000 {
		for name, s := range all {
			for _, path := range []string{"x/file", "abs"} {
				got, err := readAll(s, path)
				switch {
				case got == "inside":
					inside++
				case errors.Is(err, ErrOutside):
					refused++
				case err == nil || !isRace(err):
					t.Fatalf("round %d, %s, %s: %q, %v", i, name, path, got, err)
				}
			}
		}
	}
	close(stop)
	must(t, <-done)
	if inside == 0 || refused == 0 {
		t.Errorf("the file inside was seen %d times, the one outside refused %d times", inside, refused)
	}
}

// isRace says whether an error is what an exchange under way may lead to.
func isRace(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrNotExist)
}

func BenchmarkLocal(b *testing.B) {
	dir := b.TempDir()
	writeFile(b, dir+"/train/cat/file.l3", "content")
	symlink(b, dir+"/train/cat/file.l3", dir+"/abs")
	s := openLocal(b, dir)
	ctx := context.Background()
	for _, path := range []string{"train/cat/file.l3", "abs"} {
		b.Run("stat/"+path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Stat(ctx, path); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("open+close/"+path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := s.Open(ctx, path)
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

func BenchmarkReadDir(b *testing.B) {
	const n = 300_000
	s := openLocal(b, largeFolder(b, n))
	b.ReportAllocs()
	for b.Loop() {
		count := 0
		must(b, s.ReadDir(context.Background(), "", func(DirEntry) bool { count++; return true }))
		if count != n {
			b.Fatal(count)
		}
	}
}
