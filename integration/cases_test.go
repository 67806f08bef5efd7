package integration

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"prismfs/internal/testfiles"
)

// This file has a test for every row of the table of hard cases that is about
// a mount; the name of the test is the row's. Rows about images and packing are
// in package pack, those about records in package dataset.

// nobody is the user as whom nothing of the tests' own can be read.
const nobody = 65534

// TestCasesOfArrays: .npy files, their heads, sizes and maps.
func TestCasesOfArrays(t *testing.T) {
	f := testFixtures(t)
	mt := mount(t, f.packed, best)
	// First, while nothing has been decoded.
	t.Run("n07", func(t *testing.T) {
		check(t, "sizes_before_decoding", args{"mount": mt.dir, "expected": f.expected})
		refusesToPack(t, []byte{})
	})
	t.Run("n33", func(t *testing.T) {
		check(t, "find_by_size", args{"mount": mt.dir, "expected": f.expected})
	})
	for id, names := range map[string][]string{
		"n01": {"photos/Brassica/rgb.npy", "photos/avis/alpha.npy", "photos/canis/one.npy"},
		"n02": {"photos/Brassica/grey.npy", "photos/canis/bits.npy"},
	} {
		t.Run(id, func(t *testing.T) {
			check(t, "saved_by_numpy", args{"mount": mt.dir, "names": names, "expected": f.expected})
		})
	}
	t.Run("n06", func(t *testing.T) {
		source := scratch(t)
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, "whole.l3"))
		for _, share := range []float64{0.2, 0.9, 0.999} {
			cut := filepath.Join(source, fmt.Sprintf("cut%g.l3", share))
			copyFile(t, f.path("small-packed/000.l3"), cut)
			cutFile(t, cut, share)
		}
		mt := mount(t, source, best)
		check(t, "whole_or_refused", args{"mount": mt.dir, "whole": []string{"whole.npy"}, "refused": []string{"cut0.2.npy", "cut0.9.npy", "cut0.999.npy"}})
		array, err := os.ReadFile(f.path("small/000.npy"))
		if err != nil {
			t.Fatal(err)
		}
		refusesToPack(t, array[:len(array)-1000])
	})
	for _, m := range []mode{best, noPassthrough} {
		mt := mount(t, f.packed, m)
		for i, id := range []string{"n09", "n10"} {
			t.Run(id+"/"+m.String(), func(t *testing.T) {
				how := []string{"shared", "numpy"}[i]
				names := [][]string{{"photos/Brassica/rgb.npy", "photos/canis/large.npy"}, {"photos/Brassica/baseline.npy", "deep/grey.npy"}}[i]
				check(t, "mapped", args{"mount": mt.dir, "expected": f.expected, "names": names, "how": how})
			})
		}
	}
}

// refusesToPack packs a broken .npy file and nothing else: it is named and refused.
func refusesToPack(t *testing.T, array []byte) {
	t.Helper()
	source, packed := scratch(t), filepath.Join(scratch(t), "packed")
	if err := os.WriteFile(filepath.Join(source, "broken.npy"), array, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := prismfs("pack", "--to", "l3", source, packed)
	if err == nil || !strings.Contains(out, "broken.npy") {
		t.Errorf("packing a broken .npy file: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(packed, "broken.l3")); err == nil {
		t.Error("it was packed")
	}
}

// classTree makes class folders whose order by bytes is none that a dictionary
// has, with stems that collide and with names that are hidden.
func classTree(t *testing.T, f fixtures) string {
	t.Helper()
	source := scratch(t)
	for _, class := range []string{"1", "10", "2", "B", "a", "Ä", ".hidden"} {
		if err := os.Mkdir(filepath.Join(source, class), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, from := range map[string]string{
			"img.jpg": "Brassica/baseline.jpg", "img.jpeg": "avis/grey.jpg", "img.png": "Brassica/rgb.png",
			"img2.JPG": "avis/no-subsampling.jpg", ".dot.jpg": "Brassica/progressive.JPEG",
		} {
			copyFile(t, filepath.Join(f.photos, from), filepath.Join(source, class, name))
		}
	}
	copyFile(t, filepath.Join(f.photos, "Brassica/rgb.png"), filepath.Join(source, "B", "only-here.png"))
	return source
}

// TestCasesOfNames: classes, labels, stems that collide, names of any bytes.
func TestCasesOfNames(t *testing.T) {
	f := testFixtures(t)
	source := classTree(t, f)
	packed, records := filepath.Join(scratch(t), "l3"), filepath.Join(scratch(t), "pcr")
	if out, err := prismfs("pack", "--to", "l3", "--mode", "dense", source, packed); err == nil || !strings.Contains(out, "--keep-suffix") {
		t.Errorf("packing stems that collide: %v\n%s", err, out)
	}
	packed = filepath.Join(scratch(t), "kept")
	for _, a := range [][]string{{"--to", "l3", "--mode", "dense", "--keep-suffix", source, packed}, {"--to", "pcr", source, records}} {
		if out, err := prismfs(append([]string{"pack"}, a...)...); err != nil {
			t.Fatalf("pack %v: %v\n%s", a, err, out)
		}
	}
	l3, pcr := mount(t, packed, best), mount(t, records, best, noTables...)
	t.Run("n13", func(t *testing.T) {
		check(t, "classes", args{"mount": l3.dir, "source": source, "view": "+png", "labels": true})
	})
	t.Run("n14", func(t *testing.T) {
		check(t, "classes", args{"mount": pcr.dir, "source": source, "view": "+png", "labels": true})
	})
	t.Run("n15", func(t *testing.T) {
		var told struct{ Classes []string }
		checkInto(t, &told, "classes", args{"mount": pcr.dir, "source": source, "view": "+png+1", "labels": true})
		if len(told.Classes) == 0 || told.Classes[0] != ".hidden" {
			t.Errorf("the classes are %q; hidden ones count like others", told.Classes)
		}
		want := args{}
		for _, name := range []string{".dot.jpg", "img.jpg", "img.jpeg", "img.png", "img2.JPG"} {
			want[hex.EncodeToString([]byte(name+".l3"))] = filepath.Join(packed, ".hidden", name+".l3")
		}
		check(t, "listed_bytes", args{"mount": l3.dir, "folder": "+l3/.hidden", "want": want})
	})
	t.Run("n18", func(t *testing.T) {
		want := args{}
		for name, from := range map[string]string{
			"img.jpg": "Brassica/baseline", "img.jpeg": "avis/grey", "img.png": "Brassica/rgb", "img2.JPG": "avis/no-subsampling", ".dot.jpg": "Brassica/progressive",
		} {
			want[hex.EncodeToString([]byte(name+".npy"))] = f.path("expected/photos/" + from + ".npy")
		}
		check(t, "listed_bytes", args{"mount": l3.dir, "folder": "10", "want": want})
		// A packed file beside another file that has its name in the view.
		beside := scratch(t)
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(beside, "a.l3"))
		copyFile(t, f.path("small/001.npy"), filepath.Join(beside, "a.npy"))
		check(t, "listed_bytes", args{"mount": mount(t, beside, best).dir, "folder": "", "want": args{
			hex.EncodeToString([]byte("a.npy")): f.path("small/001.npy"), hex.EncodeToString([]byte("a.l3.npy")): f.path("small/000.npy"),
		}})
	})
	t.Run("f22", func(t *testing.T) { caseOfNames(t, f) })
}

// caseOfNames has names of all bytes but slash and NUL, with packed files and
// with files that pass through, each with content of its own; and the longest
// names that there are.
func caseOfNames(t *testing.T, f fixtures) {
	source, passed := scratch(t), scratch(t)
	names := []string{
		"with space", "new\nline", "tab\tx", `back\slash`, `quote"'`, "-dash", "star*?[x]", "#hash%20", "caf\u00e9", "cafe\u0301",
		"UPPER", "upper", "no_ext", ".hidden", "._apple", "a.b.c", "\u5199\u771f_", "latin\xe9", "trailing ", "dot.", "link", "hard",
		strings.Repeat("x", 250), strings.Repeat("y", 252),
	}
	for b := 1; b < 256; b++ {
		if b != '/' {
			names = append(names, "byte"+string([]byte{byte(b)}))
		}
	}
	want := args{}
	for i, name := range names {
		number := i % 28
		packed := f.path(fmt.Sprintf("small-packed/%03d.l3", number))
		if err := os.Link(packed, filepath.Join(source, name+".l3")); err != nil {
			copyFile(t, packed, filepath.Join(source, name+".l3"))
		}
		want[hex.EncodeToString([]byte(name+".npy"))] = f.path(fmt.Sprintf("small/%03d.npy", number))
	}
	for i, name := range append(names, strings.Repeat("z", 254)) {
		name = "p" + name // what passes through; 255 bytes at most
		own := filepath.Join(passed, fmt.Sprint(i))
		for _, path := range []string{own, filepath.Join(source, name)} {
			if err := os.WriteFile(path, []byte("I am "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want[hex.EncodeToString([]byte(name))] = own
	}
	mt := mount(t, source, best)
	check(t, "listed_bytes", args{"mount": mt.dir, "folder": "", "want": want})
}

// TestCasesOfEntries: what a listing and stat say, and the daemon's descriptors.
func TestCasesOfEntries(t *testing.T) {
	f := testFixtures(t)
	packed := scratch(t)
	if out, err := exec.Command("cp", "-a", f.packed+"/.", packed).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
	// Old, at times that a mistake would not hit upon.
	long := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.UTC)
	err := filepath.WalkDir(packed, func(path string, _ os.DirEntry, err error) error {
		long = long.Add(time.Hour + time.Nanosecond)
		return errors.Join(err, os.Chtimes(path, long, long))
	})
	if err != nil {
		t.Fatal(err)
	}
	mt := mount(t, packed, best)
	for id, what := range map[string]string{"n23": "d_type", "n24": "d_ino"} {
		t.Run(id, func(t *testing.T) { check(t, "entries", args{"mount": mt.dir, "what": what}) })
	}
	for id, what := range map[string]string{"n29": "blocks", "n31": "mtime"} {
		t.Run(id, func(t *testing.T) {
			check(t, "stat_fields", args{"mount": mt.dir, "packed": packed, "what": what})
			again := mount(t, packed, memory)
			check(t, "stat_fields", args{"mount": again.dir, "packed": packed, "what": what})
		})
	}
	t.Run("n26", func(t *testing.T) {
		inodes := func(dir string) string { return string(check(t, "inodes", args{"mount": dir})) }
		first := inodes(mt.dir)
		check(t, "drop_caches", args{})
		if second := inodes(mt.dir); second != first || len(first) < 100 {
			t.Errorf("inode numbers changed when the kernel forgot the inodes: %s, then %s", first, second)
		}
		if second := inodes(mount(t, packed, noPassthrough).dir); second != first {
			t.Errorf("inode numbers changed with the remount: %s, then %s", first, second)
		}
	})
	t.Run("f09", func(t *testing.T) {
		mt := mount(t, f.packed, best)
		check(t, "find_by_size", args{"mount": mt.dir, "expected": f.expected})
	})
	t.Run("n20", func(t *testing.T) {
		for _, m := range []mode{best, memory} {
			const limit = 256
			mt := mount(t, f.path("small-packed"), m)
			if err := unix.Prlimit(mt.pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
				t.Fatal(err)
			}
			check(t, "many_opens", args{"mount": mt.dir, "names": smallOthers(), "expected": f.path("small"), "pid": mt.pid, "opens": 10_000, "limit": limit})
		}
	})
	t.Run("f11", func(t *testing.T) {
		source := scratch(t)
		mt := mount(t, source, best, "--timeout", "1s")
		check(t, "new_name", args{"mount": mt.dir, "source": source, "name": "late", "packed": f.path("small-packed/000.l3"), "expected": f.path("small/000.npy")})
		check(t, "removed_name", args{"mount": mt.dir, "source": source, "name": "late", "timeout": 1.1})
	})
}

// TestCasesOfReading: interrupts, sources that change, damage, offsets.
func TestCasesOfReading(t *testing.T) {
	f := testFixtures(t)
	t.Run("f12", func(t *testing.T) {
		mt := mount(t, f.path("small-packed"), best)
		check(t, "signals", args{"mount": mt.dir, "expected": f.path("small")})
	})
	t.Run("f20", func(t *testing.T) {
		for _, m := range []mode{best, noPassthrough, memfd} {
			source := scratch(t)
			copyFile(t, f.path("replace-packed/000.l3"), filepath.Join(source, "picture.l3"))
			mt := mount(t, source, m)
			check(t, "replaced_source", args{"mount": mt.dir, "source": source, "versions": f.path("replace-packed"), "expected": f.path("replace")})
			check(t, "replaced_under_readers", args{"mount": mt.dir, "source": source, "versions": f.path("replace-packed"), "expected": f.path("replace"), "seconds": 1})
			check(t, "rewritten_in_place", args{"mount": mt.dir, "source": source})
		}
	})
	t.Run("f28", func(t *testing.T) {
		source := scratch(t)
		for _, name := range []string{"good", "bad", "next"} {
			copyFile(t, f.path("small-packed/000.l3"), filepath.Join(source, name+".l3"))
		}
		flipBytes(t, filepath.Join(source, "bad.l3"), 0.5, 0.9)
		mt := mount(t, source, best)
		check(t, "bad_files", args{"mount": mt.dir, "expected": f.path("small"), "bad": []string{"bad.npy"}, "good": args{"good.npy": "000.npy", "next.npy": "000.npy"}})
		log, err := os.ReadFile(mt.log)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(log, []byte("cannot serve a file")); n != 1 || !bytes.Contains(log, []byte("source="+filepath.Join(source, "bad.l3")+" ")) {
			t.Errorf("%d files are in the log, want bad.l3, once:\n%s", n, log)
		}
	})
	t.Run("f30", func(t *testing.T) {
		mt := mount(t, f.packed, best)
		check(t, "offsets", args{"mount": mt.dir, "expected": f.expected, "seed": 30, "count": 400})
	})
}

// TestCasesOfLife: mounts that died, signals, refusals. What the messages say
// is tested beside the command.
func TestCasesOfLife(t *testing.T) {
	f := testFixtures(t)
	source := f.path("small-packed")
	want := args{"000.npy": f.path("small/000.npy")}
	dead := func(t *testing.T) *mounted {
		mt := mount(t, source, best)
		check(t, "arrays_named", args{"mount": mt.dir, "want": want})
		if err := mt.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-mt.done
		mt.killed = true
		return mt
	}
	again := func(t *testing.T, mt *mounted) {
		if out, err := prismfs("mount", source, mt.dir); err != nil {
			t.Fatalf("mounting over a dead mount: %v\n%s", err, out)
		}
		check(t, "arrays_named", args{"mount": mt.dir, "want": want})
		if out, err := prismfs("umount", mt.dir); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	}
	t.Run("f01", func(t *testing.T) { again(t, dead(t)) })
	t.Run("f02", func(t *testing.T) {
		mt := dead(t)
		check(t, "dead_mount", args{"mount": mt.dir})
		again(t, mt)
	})
	t.Run("f03", func(t *testing.T) { caseOfSignals(t, f) })
	t.Run("f15", func(t *testing.T) {
		inside := scratch(t)
		if err := os.Mkdir(filepath.Join(inside, "source"), 0o755); err != nil {
			t.Fatal(err)
		}
		refusesToMount(t, nil, filepath.Join(inside, "source"), inside)
		refusesToMount(t, nil, "--nonempty", inside, filepath.Join(inside, "source"))
	})
	t.Run("f25", func(t *testing.T) {
		full := scratch(t)
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(full, "hidden"))
		if out := refusesToMount(t, nil, source, full); !strings.Contains(out, "--nonempty") {
			t.Errorf("the message does not name the flag: %s", out)
		}
	})
	t.Run("f26", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can hide /dev/fuse from a command")
		}
		hidden := []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"`, "sh"}
		if out, err := exec.Command(hidden[0], append(hidden[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("no private /dev here: %v %s", err, out)
		}
		if out := refusesToMount(t, hidden, source, scratch(t)); !strings.Contains(out, "/dev/fuse") {
			t.Errorf("the message does not name /dev/fuse: %s", out)
		}
	})
	t.Run("f05", func(t *testing.T) { caseOfOthers(t, f) })
}

// refusesToMount runs mount, by a wrapper if there is one, and wants one line
// and an exit status other than 0.
func refusesToMount(t *testing.T, wrapper []string, args ...string) string {
	t.Helper()
	command := append(append([]string{}, wrapper...), append([]string{binary, "mount"}, args...)...)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
		t.Errorf("mount %v ended with %v\n%s", args, err, out)
	}
	if bytes.Count(out, []byte("\n")) != 1 {
		t.Errorf("mount %v says more or less than one line:\n%s", args, out)
	}
	if dir := args[len(args)-1]; strings.Contains(strings.Join(mountsBelow(work), "\n")+"\n", dir+"\n") {
		t.Errorf("%s is mounted", dir)
		detach(dir)
	}
	return string(out)
}

// caseOfSignals sends signals to the daemon of a busy mount until it is gone:
// two at most. Who has a file open reads it to its end.
func caseOfSignals(t *testing.T, f fixtures) {
	mt := mount(t, f.path("small-packed"), best)
	reader := exec.Command("sh", "-c", `exec 3<"$1"; echo open; read go; cat <&3 | cmp - "$2"`, "sh", filepath.Join(mt.dir, "005.npy"), f.path("small/005.npy"))
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	reader.Stdout, reader.Stderr = said, said
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Process.Kill()
	waitUntil(t, "the reader has opened the file", func() bool { return mt.serves(t) > 0 })
	for range 2 {
		if err := mt.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // for the first to be answered before the second
	}
	waitUntil(t, "the mount has gone", func() bool { return !mt.listed() })
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := reader.Wait(); err != nil {
		t.Errorf("the reader of the detached mount: %v: %s", err, said)
	}
	<-mt.done
	if mt.err != nil {
		t.Errorf("the daemon ended with %v", mt.err)
	}
	if log, err := os.ReadFile(mt.log); err != nil || !bytes.Contains(log, []byte("signal")) {
		t.Errorf("the log does not tell of signals: %v", err)
	}
}

// serves returns how many opens have been served.
func (mt *mounted) serves(t *testing.T) int {
	var stats struct{ Served int }
	checkInto(t, &stats, "stats", args{"mount": mt.dir})
	return stats.Served
}

// waitUntil waits for what another process brings about.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// caseOfOthers mounts for other users: they may read what the source lets them
// read. Without the flag they see nothing.
func caseOfOthers(t *testing.T, f fixtures) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	source := openFolder(t)
	open, closed := filepath.Join(source, "open"), filepath.Join(source, "closed")
	for folder, mode := range map[string]os.FileMode{open: 0o755, closed: 0o700} {
		if err := os.Mkdir(folder, mode); err != nil {
			t.Fatal(err)
		}
		copyFile(t, f.path("small-packed/000.l3"), filepath.Join(folder, "all.l3"))
		copyFile(t, f.path("small-packed/001.l3"), filepath.Join(folder, "owner.l3"))
		copyFile(t, f.path("source/README.txt"), filepath.Join(folder, "owner.txt"))
		for _, name := range []string{"owner.l3", "owner.txt"} {
			if err := os.Chmod(filepath.Join(folder, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for link, target := range map[string]string{"to-closed.l3": "../closed/all.l3", "to-folder": "../closed", "to-open.l3": "../open/all.l3"} {
			if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	mt := mount(t, source, best, "--allow-other")
	all := f.path("small/000.npy")
	check(t, "as_nobody", args{
		"mount": mt.dir, "readable": args{"open/all.npy": all, "open/to-open.npy": all},
		"refused": []string{
			"open/owner.npy", "open/owner.txt", "closed/all.npy", "closed/owner.npy", "open+png/owner.png",
			"open/to-closed.npy", "open/to-folder/all.npy", "+chw/open/to-closed.npy",
		},
		"unlisted": []string{"closed", "open/to-folder"},
	})
	check(t, "arrays_named", args{"mount": mt.dir, "want": args{"closed/all.npy": all, "open/to-closed.npy": all, "open/to-folder/all.npy": all}})
	check(t, "shut_out", args{"mount": mount(t, source, best).dir})
	if conf, _ := os.ReadFile("/etc/fuse.conf"); strings.Contains("\n"+string(conf), "\nuser_allow_other") {
		t.Log("users may mount for others here: the refusal is not looked at")
		return
	}
	mine := openFolder(t)
	if err := os.Chown(mine, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "mount", "--allow-other", source, mine)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err == nil || bytes.Count(out, []byte("\n")) != 1 || !bytes.Contains(out, []byte("user_allow_other")) {
		t.Errorf("--allow-other as nobody: %v\n%s", err, out)
	}
}

// openFolder is a scratch folder that every user can look into.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := scratch(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// envWhole has the tests of very many files, and of large ones in little memory,
// run as large as the table of hard cases says.
const envWhole = "PRISMFS_TEST_WHOLE"

// TestCasesOfSize lists a folder of very many files.
func TestCasesOfSize(t *testing.T) {
	f := testFixtures(t)
	t.Run("f07", func(t *testing.T) {
		count := 60_000
		if os.Getenv(envWhole) != "" {
			count = 1_000_000
		}
		if testing.Short() {
			count = 20_000
		}
		source := scratch(t)
		fillFolder(t, source, f.path("small-packed/000.l3"), count)
		mt := mount(t, source, best)
		var told struct {
			First   float64 `json:"first_s"`
			Listing float64 `json:"listing_s"`
			Source  float64 `json:"source_s"`
			Memory  int64   `json:"listing_bytes"`
			Entry   float64 `json:"entry_bytes"`
		}
		checkInto(t, &told, "many_entries", args{"mount": mt.dir, "source": source, "pid": mt.pid, "count": count})
		if told.Memory > 48<<20 {
			t.Errorf("listing %d entries took %d bytes of the daemon's memory: it does not stream", count, told.Memory)
		}
		if told.Entry > maxEntryBytes {
			t.Errorf("an entry that was looked at takes %.0f bytes, want %d at most", told.Entry, maxEntryBytes)
		}
		if told.First > told.Listing*0.8 {
			t.Errorf("the first entry came after %.2f s of %.2f s", told.First, told.Listing)
		}
		// On a machine that lists the source in a second: 0.7 s and 3.5 s.
		if busy := max(told.Source, 1); count == 1_000_000 && (told.First > busy || told.Listing > 30*busy) {
			t.Errorf("the first entry came after %.2f s, the last after %.2f s; want 1 s and 30 s, or as many times that as the source takes seconds, %.2f",
				told.First, told.Listing, told.Source)
		}
	})
}

// maxEntryBytes is what docs/semantics.md says that a name costs the daemon
// which the kernel remembers: 0.9 KB, and as much again of garbage.
const maxEntryBytes = 1900

// fillFolder makes many names of a file. A file system allows a file a limited
// number of names, so there are several files behind them.
func fillFolder(t *testing.T, folder, from string, count int) {
	t.Helper()
	const namesEach = 30_000
	of := ""
	for i := range count {
		name := filepath.Join(folder, fmt.Sprintf("%07d.l3", i))
		if i%namesEach == 0 {
			copyFile(t, from, name)
			of = name
			continue
		}
		if err := os.Link(of, name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
}

// TestCasesOfMemory has readers of large images in a memory cgroup that holds
// a part of them.
func TestCasesOfMemory(t *testing.T) {
	f := testFixtures(t)
	t.Run("f18", func(t *testing.T) { caseOfMemory(t, f) })
}

// caseOfMemory: eight readers of images of 24 million pixels, and one who holds
// some of them mapped, in a memory cgroup of 512 MiB. Nothing is killed, no byte
// is wrong, and what does not fit gives ENOMEM to who asks for it.
func caseOfMemory(t *testing.T, f fixtures) {
	const limit = 512 << 20
	group := memoryCgroup(t, limit)
	images := 6
	if os.Getenv(envWhole) != "" {
		images = 30 // 2 GiB
	}
	source := scratch(t)
	packed, array := largeImage(t)
	var names []string
	for i := range images {
		if err := os.Link(packed, filepath.Join(source, fmt.Sprintf("%02d.l3", i))); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%02d.npy", i))
	}
	for _, m := range []mode{best, memory} {
		t.Run(m.String(), func(t *testing.T) {
			before := oomKills(t, group)
			mt := mountBy(t, source, m, inCgroup(group), nil, "--cache", "256MiB")
			check(t, "readers_in_a_cgroup", args{"mount": mt.dir, "names": names, "expected": array, "hold": names[:4]})
			if killed := oomKills(t, group) - before; killed != 0 {
				t.Errorf("the kernel has killed %d processes for want of memory", killed)
			}
		})
	}
}

// largeImage returns a packed image of 24 million pixels, and the array.
func largeImage(t *testing.T) (packed, array string) {
	t.Helper()
	dir := scratch(t)
	array, packed = filepath.Join(dir, "large", "0.npy"), filepath.Join(dir, "packed")
	script := "import sys, numpy as np; a = np.load(sys.argv[1]); np.save(sys.argv[2], np.tile(a, (6, 6, 1))[:4000, :6000])"
	if err := os.Mkdir(filepath.Dir(array), 0o755); err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(dir, "seed.npy")
	make := "import sys, numpy as np; r = np.mgrid[0:1000, 0:1000]; np.save(sys.argv[1], np.stack([(r[0] * k + r[1] * (5 - k)) // 7 % 251 for k in (1, 2, 3)], -1).astype(np.uint8))"
	for _, c := range [][]string{{python(), "-c", make, seed}, {python(), "-c", script, seed, array}, {binary, "pack", "--to", "l3", "--mode", "fast", filepath.Dir(array), packed}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	return filepath.Join(packed, "0.l3"), array
}

// memoryCgroup makes a memory cgroup (version 1), for the time of a test.
func memoryCgroup(t *testing.T, limit int) string {
	t.Helper()
	group := fmt.Sprintf("/sys/fs/cgroup/memory/prismfs-test-%d", os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), fmt.Append(nil, limit), 0); err != nil {
		t.Skipf("no limit can be set in a memory cgroup here: %v", err)
	}
	return group
}

// inCgroup is the command that runs another one in a cgroup.
func inCgroup(group string) []string {
	return []string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group}
}

// oomKills returns how many processes of a cgroup were killed for want of memory.
func oomKills(t *testing.T, group string) (killed int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, "memory.oom_control"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "oom_kill ")
	if _, err := fmt.Sscan(after, &killed); !found || err != nil {
		t.Fatalf("memory.oom_control says %q", text)
	}
	return killed
}

// TestEveryCaseHasATest looks for the name of every row among the tests. Rows
// about an image file are read from the table by the tests of package pack.
func TestEveryCaseHasATest(t *testing.T) {
	table, named := testfiles.Shared(t, "cases/cases.tsv"), idsInTests(t)
	rows := 0
	for _, row := range tableRows(t, table) {
		rows++
		if id, group, file := row[0], row[1], row[2]; (group != "1" || file == "-") && !named[id] {
			t.Errorf("no test is named %s: %s", id, row[3])
		}
	}
	if rows < 80 {
		t.Errorf("%s has %d rows only", table, rows)
	}
}

// idsInTests collects the words in quotes that look like the name of a row from
// the tests of this repository.
func idsInTests(t *testing.T) map[string]bool {
	t.Helper()
	found, word := map[string]bool{}, regexp.MustCompile(`"([cnfp][0-9]{2}b?)["/]`)
	err := filepath.WalkDir(testfiles.Root(), func(path string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range word.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
