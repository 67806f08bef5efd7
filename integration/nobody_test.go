package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// This file has the rows of the table of hard cases that concern privileges as
// a user without any meets them, and what a command line answers.

// TestCasesAsNobody has the daemon of a user without rights, by fusermount3.
func TestCasesAsNobody(t *testing.T) {
	f := testFixtures(t)
	mayMountAsNobody(t)
	source := openFolder(t)
	for _, name := range filesIn(t, f.path("small-packed")) {
		copyFile(t, filepath.Join(f.path("small-packed"), name), filepath.Join(source, name))
	}
	t.Run("n20", func(t *testing.T) {
		const limit = 256
		few := fmt.Sprintf("ulimit -n %d\n", limit) + asNobody
		mt := mountBy(t, source, best, []string{"sh", "-c", few, "sh"}, newHome(t, nobody).environment())
		check(t, "many_opens", args{"mount": mt.dir, "names": smallOthers(), "expected": f.path("small"), "pid": mt.pid, "opens": 10_000, "limit": limit, "nobody": true})
		opens := `import os, sys
for n in range(20_000):
    name = "%03d.npy" % (n % 24 + 4)
    with open(os.environ["PRISMFS_MOUNT"] + "/" + name, "rb", buffering=0) as file:
        if n % 97 == 0 and file.read() != open(sys.argv[1] + "/" + name, "rb").read():
            sys.exit(name + " has other bytes")
sys.exit(42)`
		under := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`, limit), "sh",
			binary, "run", source, "--", python(), "-c", opens, f.path("small"))
		under.Env = append(os.Environ(), newHome(t, nobody).environment()...)
		if out, err := under.CombinedOutput(); under.ProcessState.ExitCode() != 42 {
			t.Errorf("under prismfs run: %v %s", err, out)
		}
	})
	t.Run("f05", func(t *testing.T) { caseOfOthersByNobody(t, f, source) })
}

// caseOfOthersByNobody mounts for others as nobody where /etc/fuse.conf allows it:
// others and root read what the source lets everybody read.
func caseOfOthersByNobody(t *testing.T, f fixtures, source string) {
	if err := os.Chmod(filepath.Join(source, "001.l3"), 0o600); err != nil { // root's
		t.Fatal(err)
	}
	user := newHome(t, nobody)
	expected := filepath.Join(user.dir, "000.npy")
	copyFile(t, f.path("small/000.npy"), expected)
	// As on a machine whose fuse.conf allows it, in a mount namespace of its own.
	script := `set -e; dir=$1; source=$2; prismfs=$3
printf 'user_allow_other\n' > "$dir/fuse.conf"; mount --bind "$dir/fuse.conf" /etc/fuse.conf
as() { user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
as 65534 "$prismfs" mount --allow-other "$source" "$dir/tmp"
for user in 65534 12345 0; do as $user cmp "$dir/tmp/000.npy" "$dir/000.npy"; done
for user in 65534 12345; do
	if as $user cat "$dir/tmp/001.npy" > "$dir/read" 2> "$dir/said"; then echo "user $user reads what root alone may"; exit 1; fi
	grep -q 'Permission denied' "$dir/said"
done
as 65534 "$prismfs" umount "$dir/tmp"; echo all right`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", user.dir, source, binary)
	cmd.Env = append(os.Environ(), user.environment()...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "all right\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestCasesOfPacking packs images with several numbers of scans and some that
// cannot be packed, as a user does: the summary names them, and the exit status
// says so.
func TestCasesOfPacking(t *testing.T) {
	t.Run("p13", func(t *testing.T) {
		archive := testfiles.Shared(t, "cases/files/t03_mixed_scan_counts_and_broken.tar.gz")
		source := scratch(t)
		if out, err := exec.Command("tar", "-xzf", archive, "--strip-components=1", "-C", source).CombinedOutput(); err != nil {
			t.Fatalf("tar: %v %s", err, out)
		}
		classes, names := filesIn(t, source), filesIn(t, filepath.Join(source, "n01"))
		bad := []string{"h_broken.jpg", "i_zero.jpg"}
		summary := fmt.Sprintf("%d files = %d packed + 0 passed through + %d refused",
			len(classes)*len(names), len(classes)*(len(names)-len(bad)), len(classes)*len(bad))
		for _, allow := range []bool{false, true} {
			packed := filepath.Join(scratch(t), "packed")
			command := []string{"pack", "--to", "pcr", source, packed}
			if allow {
				command = append(command, "--allow-refused")
			}
			out, err := prismfs(command...)
			var exit *exec.ExitError
			if allow && err != nil || !allow && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
				t.Errorf("%v ended with %v, want exit status 1, and 0 where that is allowed", command, err)
			}
			if !strings.Contains(out, summary) {
				t.Errorf("there is no %q in\n%s", summary, out)
			}
			for _, class := range classes {
				for _, name := range bad {
					if !strings.Contains(out, "refused "+class+"/"+name+": ") {
						t.Errorf("%s/%s is not named in\n%s", class, name, out)
					}
				}
			}
			check(t, "labels_of_the_rest", args{"mount": mount(t, packed, best, noTables...).dir, "source": source, "bad": bad})
		}
	})
}
