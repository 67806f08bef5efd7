package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"prismfs/internal/testfiles"
)

// Environment variables for developers.
const (
	// envRace has the command built with the race detector; its reports fail
	// the test whose mount they come from.
	envRace = "PRISMFS_TEST_RACE"
	// envFixtures names a folder for the fixtures, which are made there if it
	// is not there yet and else used as they are.
	envFixtures = "PRISMFS_TEST_FIXTURES"
)

// work holds everything that the tests write; binary is the command.
var work, binary string

func TestMain(m *testing.M) {
	status, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		status = 1
	}
	os.Exit(status)
}

func runAll(m *testing.M) (status int, err error) {
	if os.Getenv(envPosix) != "" { // started by a test, to read a mount
		return m.Run(), nil
	}
	if work, err = os.MkdirTemp("", "prismfs-test-"); err != nil {
		return 1, err
	}
	binary = filepath.Join(work, "prismfs")
	build := exec.Command("go", "build", "-o", binary)
	if os.Getenv(envRace) != "" {
		build.Args = append(build.Args, "-race")
	}
	build.Args = append(build.Args, "./cmd/prismfs")
	build.Dir = testfiles.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return 1, errors.Join(fmt.Errorf("building the command: %w\n%s", err, out), os.RemoveAll(work))
	}
	// The user nobody, as whom some checks read, must get at what lies in it.
	if err := os.Chmod(work, 0o711); err != nil {
		return 1, err
	}
	status = m.Run()
	stopReader()
	if left := mountsBelow(work); len(left) > 0 {
		for _, dir := range left {
			detach(dir)
		}
		return 1, fmt.Errorf("mounts were left over: %s", strings.Join(left, ", "))
	}
	return status, os.RemoveAll(work)
}

// mountsBelow lists mount points in a folder, without touching them.
func mountsBelow(folder string) []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		panic(err) // a Linux without /proc
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

// detach takes a mount away whatever its daemon does.
func detach(dir string) {
	if os.Getuid() == 0 {
		_ = syscall.Unmount(dir, 2 /* MNT_DETACH */)
		return
	}
	_ = exec.Command("fusermount3", "-u", "-z", dir).Run()
}

// fixtures are the folders that fixtures.py makes and what `prismfs pack` makes of them.
type fixtures struct {
	root     string // as fixtures.py says
	source   string // images
	photos   string // class folders of them
	expected string // what np.save writes of each
	packed   string // source, packed
}

var (
	fixturesOnce sync.Once
	fixturesMade fixtures
	fixturesErr  error
)

// testFixtures makes the fixtures, once.
func testFixtures(t *testing.T) fixtures {
	t.Helper()
	fixturesOnce.Do(func() { fixturesMade, fixturesErr = makeFixtures() })
	if fixturesErr != nil {
		t.Fatal("making the fixtures:", fixturesErr)
	}
	return fixturesMade
}

func makeFixtures() (fixtures, error) {
	f := fixtures{root: filepath.Join(work, "fixtures")}
	kept := os.Getenv(envFixtures)
	if kept != "" {
		f.root = kept
	}
	f.source = filepath.Join(f.root, "source")
	f.photos = filepath.Join(f.source, "photos")
	f.expected = filepath.Join(f.root, "expected")
	f.packed = filepath.Join(f.root, "packed")
	if _, err := os.Stat(f.root); err == nil {
		return f, nil
	}
	if out, err := exec.Command(python(), filepath.Join(testfiles.Root(), "integration", "fixtures.py"), f.root).CombinedOutput(); err != nil {
		return f, fmt.Errorf("fixtures.py: %w\n%s", err, out)
	}
	if err := os.Mkdir(f.path("device-packed"), 0o755); err != nil {
		return f, err
	}
	for _, c := range []struct{ from, to, mode string }{
		{f.source, f.packed, "dense"}, // in auto some would stay as they are
		{f.path("bulk"), f.path("bulk-packed"), "fast"}, {f.path("small"), f.path("small-packed"), "fast"},
		{f.path("replace"), f.path("replace-packed"), "fast"}, {f.path("fio"), f.path("fio-packed"), "fast"},
		{f.path("device/fast"), f.path("device-packed/fast"), "fast"}, {f.path("device/dense"), f.path("device-packed/dense"), "dense"},
		{f.path("device/labels"), f.path("device-packed/labels"), "labels"},
		{f.path("device/published"), f.path("device-packed/published"), "published"},
	} {
		if out, err := prismfs("pack", "--to", "l3", "--mode", c.mode, c.from, c.to); err != nil {
			return f, fmt.Errorf("packing %s: %w\n%s", c.from, err, out)
		}
	}
	return f, nil
}

func (f fixtures) path(name string) string { return filepath.Join(f.root, name) }

// prismfs runs the command to its end.
func prismfs(args ...string) (string, error) {
	cmd := exec.Command(binary, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// python is Debian's, which has Debian's torch.
func python() string {
	if p := os.Getenv("PYTHON"); p != "" {
		return p
	}
	return "/usr/bin/python3"
}

// scratch is a folder for a test, removed with all that the tests write. It is
// not the testing package's, which would walk into a mount that is left in it.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(work, "scratch-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// duration picks how long a test of endurance runs.
func duration(whole, short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return whole
}
