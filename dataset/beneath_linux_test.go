package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Links of any content, in a tree with folders, files and things outside: the
// kernel, following them freely, is the oracle of what they lead to.
func TestLinksAsTheKernelHasThem(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		top := fmt.Sprintf("%s/%d", base, round)
		defer os.RemoveAll(top)
		src := top + "/src"
		for _, f := range []string{"/src/f", "/src/a/f", "/src/a/b/f", "/out/f", "/out/a/f"} {
			writeFile(t, top+f, f)
		}
		symlink(t, "src", top+"/way")
		parts := rapid.SampledFrom([]string{
			"..", ".", "", "a", "b", "f", "src", "out", "way", "none", "0", "1", "2", "3", "4",
		})
		starts := rapid.SampledFrom([]string{"", "", "", "/", top + "/", src + "/", top + "/way/", "../"})
		folders := rapid.SampledFrom([]string{"", "a/", "a/b/"})
		links := make([]string, 5)
		for i := range links {
			target := starts.Draw(rt, "start") + strings.Join(rapid.SliceOfN(parts, 0, 4).Draw(rt, "target"), "/")
			links[i] = folders.Draw(rt, "folder") + fmt.Sprint(i)
			if target == "" {
				target = "."
			}
			must(t, os.Symlink(target, src+"/"+links[i]))
		}
		all := stores(t, src)
		for range 8 {
			path := rapid.SampledFrom(links).Draw(rt, "link") + rapid.SampledFrom([]string{"", "", "/f", "/a/f", "/0", "/a", "/1/f"}).Draw(rt, "more")
			for name, s := range all {
				if err := asTheKernel(s, src, path); err != nil {
					rt.Fatalf("%s of %v: %v", name, links, err)
				}
			}
		}
		for _, s := range all {
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// asTheKernel compares what a store makes of a path with what the kernel does.
func asTheKernel(s *LocalStore, src, path string) error {
	info, err := s.Stat(context.Background(), path)
	var want unix.Stat_t
	fd, wantErr := unix.Open(src+"/"+path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if wantErr != nil {
		// A link that leads outside and fails there may be called either.
		if err == nil || !errors.Is(err, wantErr) && !errors.Is(err, ErrOutside) {
			return fmt.Errorf("%s: the kernel gives %v, the store %v", path, wantErr, err)
		}
		return nil
	}
	defer unix.Close(fd)
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	must(unix.Fstat(fd, &want))
	where, linkErr := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	must(linkErr)
	inside := where == src || strings.HasPrefix(where, src+"/")
	switch {
	case !inside && !errors.Is(err, ErrOutside):
		return fmt.Errorf("%s leads to %s: %v", path, where, err)
	case inside && err != nil:
		return fmt.Errorf("%s leads to %s: %w", path, where, err)
	case inside && (info.ID.Dev != want.Dev || info.ID.Ino != want.Ino):
		return fmt.Errorf("%s leads to %s, inode %d: the store has %d", path, where, want.Ino, info.ID.Ino)
	}
	return nil
}

// Whatever a kernel or a file system under it says of a folder, nothing panics
// and every record is gone past.
func FuzzDirent(f *testing.F) {
	record := func(n int, typ byte, name string) []byte {
		b := make([]byte, n)
		binary.NativeEndian.PutUint16(b[direntLenAt:], uint16(n))
		b[direntTypeAt] = typ
		copy(b[direntNameAt:], name)
		return b
	}
	f.Add(record(24, unix.DT_REG, "a.l3\x00"))
	f.Add(record(24, unix.DT_DIR, "abcde"))
	f.Add(append(record(24, unix.DT_DIR, ".\x00"), record(32, unix.DT_LNK, "\xff\x00")...))
	f.Add(record(20, unix.DT_UNKNOWN, "\x00"))
	f.Add(make([]byte, 24))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			name, _, n, err := dirent(b)
			if err != nil {
				return
			}
			if n <= direntNameAt || n > len(b) || len(name) > n-direntNameAt || strings.Contains(name, "\x00") {
				t.Fatalf("a record of %d bytes of %d, name %q", n, len(b), name)
			}
			b = b[n:]
		}
	})
}

func TestDirentErrors(t *testing.T) {
	for _, b := range [][]byte{make([]byte, 19), make([]byte, 24), append(make([]byte, 16), 0xff, 0xff, 8, 'a', 0, 0, 0, 0)} {
		if _, _, _, err := dirent(b); !errors.Is(err, unix.EIO) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// Errors that say nothing of a path must not look as if they did.
func TestOutOfDescriptors(t *testing.T) {
	src := linkTree(t)
	symlink(t, src+"/real/file", src+"/abs")
	symlink(t, "../outside/secret", src+"/out")
	all := stores(t, src)
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	// So many that none is free any more.
	lowered := before
	lowered.Cur = uint64(highestDescriptor(t) + 1)
	var fill []int
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered))
	defer func() {
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	}()
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fill = append(fill, fd)
	}
	for name, s := range all {
		for _, path := range []string{"real/file", "abs", "out"} {
			if _, err := s.Stat(context.Background(), path); !errors.Is(err, unix.EMFILE) {
				t.Errorf("%s, %s: %v", name, path, err)
			}
		}
	}
	// With one left, a folder can be opened, but no link in it looked at.
	if len(fill) > 0 {
		must(t, unix.Close(fill[0]))
		fill = fill[1:]
		err := all["walk"].ReadDir(context.Background(), "", func(DirEntry) bool { return true })
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("a listing that cannot look at links: %v", err)
		}
	}
	for _, fd := range fill {
		must(t, unix.Close(fd))
	}
	if _, err := all["walk"].Stat(context.Background(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("afterwards: %v", err)
	}
}

// highestDescriptor returns the largest open descriptor of this process.
func highestDescriptor(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	highest := fd
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscan(e.Name(), &n); err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}
