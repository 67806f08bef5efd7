package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/l3"
	"prismfs/tensor"
)

func TestInodeNumbers(t *testing.T) {
	if a, b := inodeNumber("train/a.npy"), inodeNumber("train/a.npy"); a != b {
		t.Error("the same path has two numbers")
	}
	// The numbers of every mount that people have: backups and tools that go by
	// them would start anew if this one changed.
	if got, want := inodeNumber("train/a.npy"), uint64(0xc1ba21fee070de06); got != want {
		t.Errorf("inodeNumber = %#x, want %#x", got, want)
	}
	seen := map[uint64]string{}
	for i := range 100_000 {
		p := fmt.Sprintf("train/%d.npy", i)
		ino := inodeNumber(p)
		if other, ok := seen[ino]; ok {
			t.Fatalf("%s and %s share inode %d", p, other, ino)
		}
		seen[ino] = p
	}
	for _, reserved := range []uint64{0, 1, ^uint64(0)} {
		got := usable(reserved)
		if got == 0 || got == 1 || got == ^uint64(0) {
			t.Errorf("usable(%#x) = %#x is reserved", reserved, got)
		}
	}
	a := generation("p", dataset.Identity{Ino: 1, Size: 2})
	for _, b := range []uint64{
		generation("q", dataset.Identity{Ino: 1, Size: 2}), generation("p", dataset.Identity{Ino: 2, Size: 2}),
		generation("p", dataset.Identity{Ino: 1, Size: 3}), generation("p", dataset.Identity{Ino: 1, Size: 2, MTimeNS: 1}),
	} {
		if a == b {
			t.Error("different contents share a generation")
		}
	}
	if id := (dataset.Identity{Ino: 1, Size: 2}); autoGeneration("p", id, 1) == autoGeneration("p", id, 2) || autoGeneration("p", id, 1) == a {
		t.Error("two fidelities share a generation")
	}
	png := View{Form: tensor.Form{Container: tensor.PNG}}
	if folderGeneration("a+png", place{source: "a", view: png}) == folderGeneration("a+png", place{source: "a+png", view: DefaultView}) {
		t.Error("a view of a folder and a folder with the name of the view share a generation")
	}
}

func TestErrno(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("doing something: %w", err) }
	for _, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{wrap(iofs.ErrNotExist), syscall.ENOENT},
		{wrap(&iofs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}), syscall.ENOENT},
		{wrap(syscall.EACCES), syscall.EACCES},
		{wrap(iofs.ErrPermission), syscall.EACCES},
		{wrap(syscall.ELOOP), syscall.ELOOP},
		{wrap(syscall.ECONNRESET), syscall.EIO},
		{wrap(dataset.ErrChanged), syscall.ESTALE},
		{wrap(dataset.ErrOutside), syscall.EACCES},
		{wrap(cache.ErrNoSpace), syscall.ENOMEM},
		{wrap(cache.ErrClosed), syscall.EIO},
		{wrap(tensor.ErrCannotHold), syscall.ENOENT},
		{wrap(l3.ErrCorrupt), syscall.EIO},
		{wrap(l3.ErrTruncated), syscall.EIO},
		{wrap(&errWhy{"because"}), syscall.ENOENT},
		{errors.New("anything"), syscall.EIO},
	} {
		if got := toErrno(c.err); got != c.want {
			t.Errorf("toErrno(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestSplitTime(t *testing.T) {
	for _, ns := range []int64{0, 1, -1, 1e9, -1e9, -1_500_000_000, time.Now().UnixNano()} {
		sec, nsec := splitTime(ns)
		if nsec >= 1e9 || int64(sec)*1e9+int64(nsec) != ns {
			t.Errorf("splitTime(%d) = %d, %d", ns, int64(sec), nsec)
		}
	}
}

func TestExtendedAttributes(t *testing.T) {
	all := []attribute{{"user.prismfs.shape", "2,3"}, {"user.prismfs.dtype", "|u1"}}
	n, errno := listxattr(all, nil)
	if errno != syscall.ERANGE || n != 38 {
		t.Fatalf("listxattr without room: %d, %v", n, errno)
	}
	buf := make([]byte, n)
	if n, errno = listxattr(all, buf); errno != 0 || string(buf[:n]) != "user.prismfs.shape\x00user.prismfs.dtype\x00" {
		t.Errorf("listxattr: %q, %v", buf[:n], errno)
	}
	if n, errno = getxattr(all, "user.prismfs.shape", nil); errno != syscall.ERANGE || n != 3 {
		t.Errorf("getxattr without room: %d, %v", n, errno)
	}
	if n, errno = getxattr(all, "user.prismfs.shape", buf); errno != 0 || string(buf[:n]) != "2,3" {
		t.Errorf("getxattr: %q, %v", buf[:n], errno)
	}
	if _, errno = getxattr(all, "user.other", buf); errno != syscall.ENODATA {
		t.Errorf("getxattr of what is not there: %v", errno)
	}
	if got := shapeText([]int{512, 768, 3}); got != "512,768,3" {
		t.Errorf("shapeText: %q", got)
	}
}

func TestLogTailKeepsWholeLines(t *testing.T) {
	var tail logTail
	for i := range 20_000 {
		fmt.Fprintf(&tail, "line %d\n", i)
	}
	text := tail.String()
	if len(text) > tailBytes || len(text) < tailBytes-100 {
		t.Errorf("the tail has %d bytes", len(text))
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[len(lines)-1] != "line 19999" || !strings.HasPrefix(lines[0], "line ") {
		t.Errorf("the tail goes from %q to %q", lines[0], lines[len(lines)-1])
	}
	if len(tail.text) > 2*tailBytes+100 {
		t.Errorf("the tail holds %d bytes", len(tail.text))
	}
}

func TestParseMountinfo(t *testing.T) {
	const text = `22 27 0:21 / /proc rw,relatime shared:12 - proc proc rw
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
99 27 0:50 / /data/with\040space\134 ro,nosuid,nodev - fuse.prismfs /src\011tab ro,user_id=1000,group_id=7
broken line
`
	got, err := parseMountinfo(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []mountEntry{
		{"/proc", "proc", "proc", "0:21", -1},
		{"/mnt2", "ext3", "/dev/root", "98:0", -1},
		{`/data/with space\`, "fuse.prismfs", "/src\ttab", "0:50", 1000},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mountEntry{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseFallbacks(t *testing.T) {
	f, err := ParseFallbacks("memfd,no-passthrough", "register:7", "read fail EIO")
	if err != nil || !f.NoPassthrough || !f.Memfd || f.RefuseEvery != 7 || f.Store.String() != "read fail EIO" || f.NoFsopen || f.Memory {
		t.Errorf("got %+v, %v", f, err)
	}
	if got := f.String(); got != "no-passthrough,memfd,register:7,store: read fail EIO" {
		t.Errorf("String: %q", got)
	}
	for _, bad := range [][3]string{{"nothing"}, {"", "register:0"}, {"", "register:x"}, {"", "open:3"}, {"", "", "read often"}} {
		if _, err := ParseFallbacks(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("ParseFallbacks(%q, %q, %q) is no error", bad[0], bad[1], bad[2])
		}
	}
}

func TestReportsAreBounded(t *testing.T) {
	var r reports
	a := report{path: "a", errno: syscall.EIO}
	other := a
	other.errno = syscall.ENOMEM
	if r.seen(a) || !r.seen(a) || r.seen(other) {
		t.Error("a failure is not logged exactly once")
	}
	for i := range 3 * maxReports {
		r.seen(report{path: fmt.Sprint(i), errno: syscall.EIO})
	}
	if len(r.last) > maxReports {
		t.Errorf("%d failures are remembered", len(r.last))
	}
}

func TestExplained(t *testing.T) {
	var e explained
	now := time.Now()
	told := func(first, count int, now time.Time) (n int) {
		for range 3 {
			for i := first; i < first+count; i++ {
				if e.allow(explanation{fmt.Sprint(i), "no"}, now) {
					n++
				}
			}
		}
		return n
	}
	if n := told(0, 14, now); n != 14 {
		t.Errorf("of 14 names that are asked for three times each %d are told of", n)
	}
	if !e.allow(explanation{"0", "another"}, now) {
		t.Error("another reason for the same name is not told")
	}
	if n := told(0, 1000, now.Add(rateWindow/2)); n != maxExplained-15 || len(e.last) > maxExplained {
		t.Errorf("%d more are told of and %d remembered, want %d of %d", n, len(e.last), maxExplained-15, maxExplained)
	}
	if n := told(0, 14, now.Add(rateWindow)); n != 14 {
		t.Errorf("in the next window %d of 14 are told of", n)
	}
}

func TestRate(t *testing.T) {
	var r rate
	now := time.Now()
	allowed := 0
	for range 3 * rateBurst {
		if r.allow(now) {
			allowed++
		}
	}
	if allowed != rateBurst || r.allow(now.Add(rateWindow/2)) || !r.allow(now.Add(rateWindow)) {
		t.Errorf("%d events of one moment are let through, want %d, and none before the next window", allowed, rateBurst)
	}
}
