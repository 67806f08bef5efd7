package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// parsed returns the flags of a command line of mount.
func parsed(args ...string) (*mountFlags, error) {
	f := new(mountFlags)
	cmd := &cobra.Command{Use: "mount"}
	f.register(cmd)
	return f, cmd.ParseFlags(args)
}

func TestMountOptions(t *testing.T) {
	f, err := parsed("-o", "rw,relatime,dirsync,nosymfollow,_netdev,x-systemd.automount,noexec,comment=a", "-o", "allow_other,nofail,user=joe,view=png+rgb",
		"-o", "cache=4GiB,cache-policy=pin,timeout=5s,keep_duplicates,read-ahead=off,context=system_u:object_r:x_t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"noexec", "context=system_u:object_r:x_t"}, f.options.kernel); diff != "" {
		t.Errorf("kernel options (want, got):\n%s", diff)
	}
	if !f.allowOther || f.view != "png+rgb" || f.cache != 4<<30 || f.policy.String() != "pin" || f.timeout.Seconds() != 5 || !f.keepDuplicates || f.readAhead != -1 {
		t.Errorf("%+v", f)
	}
	for _, c := range []struct{ option, text string }{
		{"bogus", `"bogus" is no mount option`}, {"cache", `"cache" needs a value`}, {"cache=lots", "want a size"}, {"cache_policy=fifo", "lru or pin"},
		{"options=a", "no mount option"}, {"foreground", "use prismfs mount --foreground"}, {"=5", `"=5" is a value without`}, {"ro,=5", "without the name"},
		{"remount,ro", "prismfs cannot change a mount"},
	} {
		if _, err := parsed("-o", c.option); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("-o %s: %v, want %s", c.option, err, c.text)
		}
	}
	if _, err := parsed("--sloppy", "-o", "bogus,view=png"); err != nil {
		t.Error(err)
	}
}

func TestHelperArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		line string
		fake bool
	}{
		{[]string{"src", "/mnt"}, "mount -- src /mnt", false},
		{[]string{"src", "/mnt", "-o", "rw,view=png"}, "mount -o rw,view=png -- src /mnt", false},
		{[]string{"src", "/mnt", "-n", "-v", "-orw", "-t", "prismfs"}, "mount -o rw -- src /mnt", false},
		{[]string{"src", "/mnt", "-sfo", "rw"}, "mount --sloppy -o rw -- src /mnt", true},
		{[]string{"src", "/mnt", "-o", "rw", "-s"}, "mount --sloppy -o rw -- src /mnt", false},
		{[]string{"src", "/mnt", "-o", "rw", "--sloppy"}, "mount --sloppy -o rw -- src /mnt", false},
		{[]string{"--help"}, "mount --help", false},
		{[]string{"-h"}, "mount --help", false},
		{[]string{"-V"}, "version", false},
	} {
		line, fake, err := helperArguments(c.args)
		if err != nil || strings.Join(line, " ") != c.line || fake != c.fake {
			t.Errorf("%q gives %q, %v, %v", c.args, line, fake, err)
		}
	}
	for _, args := range [][]string{{"src"}, {"src", "/mnt", "-o"}, {"src", "/mnt", "more"}, {"src", "/mnt", "-N", "7"}, {"src", "/mnt", "-x"}} {
		if line, _, err := helperArguments(args); statusOf(err) != statusUsage {
			t.Errorf("%q gives %q, %v", args, line, err)
		}
	}
	if _, _, err := helperArguments([]string{"src", "/mnt", "--view", "png"}); statusOf(err) != statusUsage || !strings.Contains(err.Error(), "-o view=png") {
		t.Errorf("a flag of mount: %v", err)
	}
}

// TestMountByMount has mount(8) find the helper, in a mount namespace whose /sbin
// holds nothing else, and umount(8) take the mount away.
func TestMountByMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount(8)")
	}
	packed, mnt := packedImages(t)
	script := `set -e
mount -t tmpfs none /sbin/
ln -s "$1" /sbin/mount.prismfs
mount -t prismfs "$2" "$3" -o view=png,cache=64MiB,_netdev,nofail,x-systemd.automount,ro,allow_other,noexec
grep " $3 " /proc/self/mountinfo
head -c 4 "$3/cat/0.png"
grep -o '"view": "png"' "$3/.prismfs/config"
umount "$3"
! grep " $3 " /proc/self/mountinfo
mount -f -t prismfs "$2" "$3"
! grep " $3 " /proc/self/mountinfo
mount -t prismfs "$2" "$3" -o bogus || echo "status $?"
mount -s -t prismfs "$2" "$3" -o bogus && umount "$3"
`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", os.Args[0], packed, mnt)
	cmd.Env = append(os.Environ(), envRunMain+"=1", "PATH="+os.Getenv("PATH")+":"+filepath.Dir("/usr/bin/mount"))
	status, out := output(t, cmd)
	if status != statusOK {
		t.Fatalf("status %d: %s", status, out)
	}
	for _, want := range []string{"fuse.prismfs", "ro,nosuid,nodev,noexec", "allow_other", "\x89PNG", `"view": "png"`, `"bogus" is no mount option`, "status 2"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}
