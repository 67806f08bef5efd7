package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// TestRunTraining is a batch job of a user without any right: it reads a dataset
// by PyTorch under prismfs run, and its exit status comes out.
func TestRunTraining(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	f := testFixtures(t)
	dir, err := os.MkdirTemp("", "prismfs-nobody") // work is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	job := filepath.Join(testfiles.Root(), "integration", "train_under_run.py")
	copied := exec.Command("sh", "-c", `chmod 755 "$0" && mkdir "$0/dev" "$0/home" && cp "$1" "$0/prismfs" && cp "$4" "$0/train.py" &&
mkdir "$0/packed" "$0/expected" && cp -r "$2" "$0/packed/a" && cp -r "$2" "$0/packed/b" && cp -r "$3" "$0/expected/a" && cp -r "$3" "$0/expected/b" && chmod -R a+rX "$0" && chmod 777 "$0/home"`,
		dir, binary, f.path("small-packed"), f.path("small"), job)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// As on most machines, everybody may open /dev/fuse.
	script := `set -e
mount -t tmpfs none "$0/dev"; mknod -m 666 "$0/dev/fuse" c 10 229; mount --bind "$0/dev/fuse" /dev/fuse
cd "$0"; exec setpriv --reuid 65534 --regid 65534 --clear-groups ./prismfs run packed -- "$1" -B train.py "$0/expected" 42`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, dir, python())
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=", "OMP_NUM_THREADS=1")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 42 || !strings.Contains(string(out), " images\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCtrlC interrupts a command under prismfs run at a terminal.
func TestCtrlC(t *testing.T) {
	f := testFixtures(t)
	check(t, "ctrl_c", args{"binary": binary, "source": f.path("small-packed")})
}
