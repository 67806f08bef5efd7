// Package packaging has what is installed beside the binary, and a test of what
// make install does with it.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo stands in for the go command: what is built is a file of the right name.
const fakeGo = `#!/bin/sh
case "$*" in
  "build "*) mkdir -p bin && printf '#!/bin/sh\n' >bin/prismfs && chmod 700 bin/prismfs ;;
  *" man bin/man") touch bin/man/prismfs.1 bin/man/prismfs-mount.1 ;;
  *" completion "*) echo "# $*" ;;
  *) echo "go $*: not expected" >&2; exit 1 ;;
esac
`

// makefile makes a copy of what make install reads, with a go command that is none,
// and returns its folder.
func makefile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"Makefile", "LICENSE", "NOTICE", "packaging/prismfs@.service", "packaging/logrotate"} {
		data, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(data), 0o600)
	}
	write(t, filepath.Join(dir, "go"), fakeGo, 0o700)
	return dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// What is installed can be used by everybody, whatever the umask of who installs it,
// and leads to where it will be, not to where it is put together.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make here")
	}
	for _, prefix := range []string{"/usr/local", "/opt/prism"} {
		dir := makefile(t)
		dest := filepath.Join(t.TempDir(), "a root") // a space must not matter
		out, err := exec.Command("sh", "-c", `umask 077; exec make -C "$0" install GO=./go PREFIX="$1" DESTDIR="$2"`, dir, prefix, dest).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		installed := map[string]os.FileMode{
			prefix + "/bin/prismfs":                                  0o755,
			prefix + "/share/man/man1/prismfs.1":                     0o644,
			prefix + "/share/man/man1/prismfs-mount.1":               0o644,
			prefix + "/share/bash-completion/completions/prismfs":    0o644,
			prefix + "/share/zsh/site-functions/_prismfs":            0o644,
			prefix + "/share/fish/vendor_completions.d/prismfs.fish": 0o644,
			prefix + "/share/doc/prismfs/logrotate":                  0o644,
			prefix + "/share/doc/prismfs/LICENSE":                    0o644,
			prefix + "/share/doc/prismfs/NOTICE":                     0o644,
			"/usr/lib/systemd/system/prismfs@.service":               0o644,
			"/sbin/mount.prismfs":                                    os.ModeSymlink | 0o777,
		}
		err = filepath.WalkDir(dest, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, dest)
			want, ok := installed[name]
			if e.IsDir() {
				want, ok = os.ModeDir|0o755, true
			}
			if !ok || info.Mode() != want {
				t.Errorf("%s: mode %v, want %v", name, info.Mode(), want)
			}
			delete(installed, name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for name := range installed {
			t.Errorf("%s is not installed", name)
		}
		if to, err := os.Readlink(filepath.Join(dest, "/sbin/mount.prismfs")); err != nil || to != prefix+"/bin/prismfs" {
			t.Errorf("mount.prismfs leads to %q, %v", to, err)
		}
		checkUnit(t, dest, prefix)
	}
}

// checkUnit looks whether the unit starts what was installed, and asks systemd of it.
func checkUnit(t *testing.T, dest, prefix string) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(dest, "/usr/lib/systemd/system/prismfs@.service"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(unit), "\nExecStart="+prefix+"/bin/prismfs mount ") || strings.Contains(string(unit), "@PREFIX@") {
		t.Errorf("the unit starts something else:\n%s", unit)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze here, which would be asked of the unit")
		return
	}
	self := filepath.Join(t.TempDir(), "prismfs") // systemd looks whether it is there
	write(t, self, "#!/bin/sh\n", 0o700)
	verify := func(text string) string {
		file := filepath.Join(t.TempDir(), "prismfs@.service")
		write(t, file, strings.ReplaceAll(text, prefix+"/bin/prismfs", self), 0o600)
		out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil && len(out) == 0 {
			return err.Error()
		}
		return string(out)
	}
	if said := verify(string(unit)); said != "" {
		t.Errorf("systemd says: %s", said)
	}
	if said := verify(strings.Replace(string(unit), "Type=notify", "Type=notified", 1)); !strings.Contains(said, "notified") {
		t.Errorf("systemd finds nothing wrong with a wrong unit: %q", said)
	}
}
