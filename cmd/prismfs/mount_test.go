package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needMounts skips where this user cannot mount.
func needMounts(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("FUSE is not available here: %v", err)
	}
	f.Close()
}

// packedImages returns a packed folder and an empty mount point. What is
// mounted there at the end of the test is detached.
func packedImages(t *testing.T) (packed, mountpoint string) {
	t.Helper()
	needMounts(t)
	src, dst := writeImages(t, 4)
	if status, _, stderr := call("pack", "--to", "l3", src, dst); status != statusOK {
		t.Fatal(stderr)
	}
	mountpoint = t.TempDir()
	t.Cleanup(func() {
		for prismfs("umount", "--lazy", mountpoint).Run() == nil {
		}
	})
	return dst, mountpoint
}

// output runs a command to its end and returns its exit status and all that it
// printed.
func output(t *testing.T, cmd *exec.Cmd) (exitStatus, string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return exitStatus(cmd.ProcessState.ExitCode()), string(out)
}

// cat reads a file of a mount in a process of its own: one that serves a mount
// must not read it.
func cat(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("cat", path).Output()
	if err != nil {
		t.Fatalf("cat %s: %v", path, err)
	}
	return string(out)
}

func isMounted(t *testing.T, mountpoint string) bool {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(info), " "+mountpoint+" ")
}

// startInForeground mounts with -f and returns once the log says that the
// mount answers.
func startInForeground(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := prismfs(append([]string{"mount", "-f"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "msg=mounted") {
			go io.Copy(io.Discard, stderr)
			return cmd
		}
	}
	t.Fatalf("prismfs mount -f %v ended before it had mounted", args)
	return nil
}

// within waits for a condition that another process brings about.
func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestMountInBackground(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", "--view", "png", "--", packed, mnt)); status != statusOK || out != "" {
		t.Fatalf("mount: status %d, want 0 and no word: %s", status, out)
	}
	if log := cat(t, filepath.Join(mnt, ".prismfs", "log")); !strings.Contains(log, "msg=mounted") {
		t.Errorf("the log is %q", log)
	}
	if png := cat(t, filepath.Join(mnt, "cat", "0.png")); !strings.HasPrefix(png, "\x89PNG") {
		t.Errorf("0.png begins with %q", png[:8])
	}
	if cfg := cat(t, filepath.Join(mnt, ".prismfs", "config")); !strings.Contains(cfg, `"view": "png"`) || !strings.Contains(cfg, packed) {
		t.Errorf("config is %s", cfg)
	}
	if views := cat(t, filepath.Join(mnt, ".prismfs", "views")); !strings.Contains(views, "chw") {
		t.Errorf("views is %s", views)
	}
	if v := cat(t, filepath.Join(mnt, ".prismfs", "version")); !strings.Contains(v, "prismfs") {
		t.Errorf("version is %s", v)
	}
	status, out := output(t, prismfs("mount", packed, mnt))
	if status != statusMounted || !strings.Contains(out, "mounted there already") {
		t.Errorf("a second mount: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("umount", mnt)); status != statusOK || isMounted(t, mnt) {
		t.Errorf("umount: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("umount", mnt)); status != statusNotMounted {
		t.Errorf("umount of nothing: status %d: %s", status, out)
	}
}

func TestMakesTheMountpoint(t *testing.T) {
	packed, parent := packedImages(t)
	mnt := filepath.Join(parent, "mnt")
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusMountPoint || !strings.Contains(out, "--mkdir") {
		t.Errorf("a missing mount point: status %d: %s", status, out)
	}
	inside := filepath.Join(packed, "new", "mnt")
	if status, out := output(t, prismfs("mount", "--mkdir", packed, inside)); status != statusMountPoint {
		t.Errorf("in the source: status %d: %s", status, out)
	}
	if _, err := os.Stat(filepath.Dir(inside)); err == nil {
		t.Error("a folder was made in the source")
	}
	deeper := filepath.Join(parent, "one", "two", "three")
	if status, out := output(t, prismfs("mount", "--mkdir", packed, deeper)); status != statusOK || !isMounted(t, deeper) {
		t.Errorf("without its parents, too: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("umount", deeper)); status != statusOK {
		t.Fatalf("umount: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("mount", "--mkdir", packed, mnt)); status != statusOK || !isMounted(t, mnt) {
		t.Errorf("--mkdir: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("umount", mnt)); status != statusOK {
		t.Fatalf("umount: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("mount", "-o", "mkdir", packed, mnt)); status != statusOK {
		t.Errorf("one that is there: status %d: %s", status, out)
	}
	if status, out := output(t, prismfs("umount", mnt)); status != statusOK {
		t.Errorf("umount: status %d: %s", status, out)
	}
}

// TestLogIsForTheOwner: it names files that other readers of the mount may not even list.
func TestLogIsForTheOwner(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatalf("mount: status %d: %s", status, out)
	}
	for name, want := range map[string]string{"log": "400", "stats": "444", "config": "444"} {
		want += " " + strconv.Itoa(os.Getuid()) + "\n"
		out, err := exec.Command("stat", "-c", "%a %u", filepath.Join(mnt, ".prismfs", name)).Output()
		if err != nil || string(out) != want {
			t.Errorf(".prismfs/%s: mode and owner are %q, %v; want %q", name, out, err, want)
		}
	}
}

// TestSessionOfBackground: an automount of systemd lets its own process group alone look
// at the mount point while it is being mounted; a terminal's signals concern the caller's.
func TestSessionOfBackground(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd := prismfs("mount", packed, mnt)
	cmd.Env = append(cmd.Env, "PRISMFS_STORE=stat delay 500ms first 1; list delay 500ms first 1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := 0
	within(t, "the process in the background is started", func() bool {
		threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "task/*/children"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range threads {
			children, _ := os.ReadFile(name) // the thread may have ended
			if child, err := strconv.Atoi(strings.TrimSpace(string(children))); err == nil {
				group, err = syscall.Getpgid(child)
				return err == nil
			}
		}
		return false
	})
	if !isMounted(t, mnt) && group != cmd.Process.Pid {
		t.Errorf("before there is a mount the process group is %d, want the caller's, %d", group, cmd.Process.Pid)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	daemon := daemonOf(t, mnt)
	if group, err := syscall.Getpgid(daemon); err != nil || group != daemon {
		t.Errorf("the mount is in the process group %d, %v; want its own, %d", group, err, daemon)
	}
}

// What was never packed is shown as it is, and who mounts it is told.
func TestMountOfPlainFiles(t *testing.T) {
	_, mnt := packedImages(t)
	src, _ := writeImages(t, 2)
	status, out := output(t, prismfs("mount", src, mnt))
	if status != statusOK || !strings.Contains(out, "no packed images among the 2 files of "+src) || strings.Count(out, "\n") != 1 {
		t.Errorf("status %d: %s", status, out)
	}
	if got, want := cat(t, filepath.Join(mnt, "cat", "0.png")), cat(t, filepath.Join(src, "cat", "0.png")); got != want {
		t.Error("the file is another one in the mount")
	}
}

// Names in a stream that lead nowhere are explained in the log, and so are terms that
// --view cannot have, by the error.
func TestWrongNamesAreExplained(t *testing.T) {
	packed, mnt := packedImages(t)
	for view, want := range map[string]string{
		"echo0": `"echo0" is not a view term: echoE takes E from 1 to 100`, "0": "fidelities are whole numbers from 1 to",
		"rank3of2": "rankRofW takes W from 1", "pgn": "terms are a fidelity",
		"png+ppm": "two file forms in one view (png and ppm)",
	} {
		if status, out := output(t, prismfs("mount", "--view", view, packed, mnt)); status != statusUsage || !strings.Contains(out, want) {
			t.Errorf("--view %s: status %d: %s", view, status, out)
		}
	}
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	for path, want := range map[string]string{
		"+stream/000000.tar":                 "shards lie in the folder of an epoch: epoch-0000/000000.tar",
		"+stream/epoch-0000/000001.tar":      "the epoch has 1 shard, the last one is 000000.tar",
		"+stream/epoch-0000/1.tar":           "shards are written with six digits, from 000000.tar on",
		"cat/0+echo0.npy":                    `\"echo0\" is no view term: echoE takes E from 1 to 100`,
		"+stream+shard2/epoch-3/000.tar":     "epochs are written with four digits",
		"+stream/epoch-9223372036854775808":  "epochs have numbers from 0 to 9223372036854775807",
		"+stream/epoch-99999999999999999999": "epochs have numbers from 0 to 9223372036854775807\"",
		"+stream/epoch-00005":                "epochs are written with four digits",
		"+stream/epoch-0000/wrongly.tsv":     "their tables as 000000.tsv",
		"+stream/epoch-0000/000001.tar.x":    "",
	} {
		if status, out := output(t, exec.Command("cat", filepath.Join(mnt, path))); status == statusOK {
			t.Errorf("%s can be read: %s", path, out)
		}
		log := cat(t, filepath.Join(mnt, ".prismfs", "log"))
		if want != "" && !strings.Contains(log, want) || want == "" && strings.Contains(log, path) {
			t.Errorf("%s: the log has not %q:\n%s", path, want, log)
		}
	}
}

func TestMountRefusals(t *testing.T) {
	packed, mnt := packedImages(t)
	full := t.TempDir()
	writeFile(t, filepath.Join(full, "file"), nil)
	for _, c := range []struct {
		args   []string
		env    string
		status exitStatus
		text   string
	}{
		{[]string{packed}, "", statusUsage, "MOUNTPOINT is missing"},
		{[]string{"--view", "gif", packed, mnt}, "", statusUsage, "not a view term"},
		{[]string{"--view", "png+chw", packed, mnt}, "", statusUsage, "chw"},
		{[]string{"--cache", "lots", packed, mnt}, "", statusUsage, "--cache"},
		{[]string{"--cache", "1KiB", packed, mnt}, "", statusUsage, "--cache"},
		{[]string{"--backend", "tpu", packed, mnt}, "", statusUsage, "--backend"},
		{[]string{"--jobs", "0", packed, mnt}, "", statusUsage, "--jobs"},
		{[]string{"--timeout", "-1s", packed, mnt}, "", statusUsage, "--timeout"},
		{[]string{packed, mnt}, "PRISMFS_FORCE=magic", statusUsage, "PRISMFS_FORCE"},
		{[]string{packed, mnt}, "PRISMFS_FAULT=register:0", statusUsage, "PRISMFS_FAULT"},
		{[]string{filepath.Join(packed, "none"), mnt}, "", statusBadInput, "source not usable: lstat "},
		{[]string{filepath.Join(packed, "cat", "0.l3"), mnt}, "", statusBadInput, "0.l3"},
		{[]string{packed, filepath.Join(mnt, "none")}, "", statusMountPoint, "mkdir"},
		{[]string{packed, filepath.Join(full, "file")}, "", statusMountPoint, "no folder"},
		{[]string{packed, full}, "", statusMountPoint, "not empty"},
		{[]string{packed, packed}, "", statusMountPoint, "one in the other"},
		{[]string{packed, filepath.Join(packed, "cat")}, "", statusMountPoint, "one in the other"},
		{[]string{filepath.Join(packed, "cat"), packed}, "", statusMountPoint, "one in the other"},
	} {
		t.Run(strings.Join(c.args, " ")+c.env, func(t *testing.T) {
			cmd := prismfs(append([]string{"mount"}, c.args...)...)
			if c.env != "" {
				cmd.Env = append(cmd.Env, c.env)
			}
			status, out := output(t, cmd)
			if status != c.status || !strings.Contains(out, c.text) {
				t.Errorf("status %d, want %d: %s", status, c.status, out)
			}
			if lines := strings.Count(out, "\n"); lines > 2 {
				t.Errorf("%d lines for one error:\n%s", lines, out)
			}
		})
	}
	if isMounted(t, mnt) {
		t.Error("a refused mount is there")
	}
}

// TestMountLetsGoOfDescriptors: a lock that the calling shell holds ends with
// the shell, not with the mount.
func TestMountLetsGoOfDescriptors(t *testing.T) {
	packed, mnt := packedImages(t)
	lock := filepath.Join(t.TempDir(), "lock")
	script := exec.Command("sh", "-c", `(flock 9; "$0" mount "$1" "$2") 9>"$3"; flock -n "$3" true`, os.Args[0], packed, mnt, lock)
	script.Env = append(os.Environ(), envRunMain+"=1")
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("the lock is held by the mount: %v %s", err, out)
	}
	if !isMounted(t, mnt) {
		t.Error("nothing is mounted")
	}
}

// TestMountAsUser mounts through fusermount3, and shows what that refuses.
func TestMountAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	if info, err := os.Stat("/dev/fuse"); err != nil || info.Mode().Perm()&0o006 != 0o006 {
		t.Skipf("users cannot open /dev/fuse here: %v", err)
	}
	packed, _ := packedImages(t)
	base, err := os.MkdirTemp("", "prismfs-user") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := filepath.Join(base, "mine"), filepath.Join(base, "theirs")
	t.Cleanup(func() {
		prismfs("umount", "--lazy", mine).Run()
		os.RemoveAll(base)
	})
	for _, dir := range []string{mine, theirs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary, source := filepath.Join(base, "prismfs"), filepath.Join(base, "packed")
	if out, err := exec.Command("sh", "-c", `chmod 755 "$0" && cp "$1" "$2" && cp -r "$3" "$4" && chown -R nobody "$5" "$4"`,
		base, os.Args[0], binary, packed, source, mine).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	asNobody := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), envRunMain+"=1")
		cmd.Dir = base
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd
	}
	status, out := output(t, asNobody("mount", source, theirs))
	if status != statusNotPermitted || strings.Count(out, "\n") != 1 || !strings.Contains(out, "use a mount point that is yours") {
		t.Errorf("a mount point of root: status %d: %s", status, out)
	}
	if conf, _ := os.ReadFile("/etc/fuse.conf"); !strings.Contains("\n"+string(conf), "\nuser_allow_other") {
		status, out := output(t, asNobody("mount", "--allow-other", source, mine))
		if status != statusNotPermitted || strings.Count(out, "\n") != 1 || !strings.Contains(out, "/etc/fuse.conf") {
			t.Errorf("--allow-other: status %d: %s", status, out)
		}
	}
	if status, out := output(t, asNobody("mount", source, mine)); status != statusOK || out != "" {
		t.Fatalf("mount: status %d: %s", status, out)
	}
	reader := exec.Command("cat", filepath.Join(mine, "cat", "0.npy"))
	reader.SysProcAttr = asNobody().SysProcAttr
	if data, err := reader.Output(); err != nil || len(data) != 3728 {
		t.Errorf("nobody reads %d bytes: %v", len(data), err)
	}
	if status, out := output(t, asNobody("umount", mine)); status != statusOK {
		t.Errorf("umount: status %d: %s", status, out)
	}
}

func TestMountOverFiles(t *testing.T) {
	packed, _ := packedImages(t)
	full := t.TempDir()
	writeFile(t, filepath.Join(full, "file"), nil)
	cmd := startInForeground(t, "--nonempty", packed, full)
	if got := cat(t, filepath.Join(full, "dog", "1.npy")); !strings.HasPrefix(got, "\x93NUMPY") {
		t.Errorf("1.npy begins with %q", got[:6])
	}
	if status, out := output(t, prismfs("umount", full)); status != statusOK {
		t.Errorf("umount: status %d: %s", status, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the unmounted daemon ended with %v", err)
	}
}

func TestSignalUnmounts(t *testing.T) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // else what we start ignores it too
		signals = append(signals, syscall.SIGHUP)
	}
	for _, s := range signals {
		packed, mnt := packedImages(t)
		cmd := startInForeground(t, packed, mnt)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || isMounted(t, mnt) {
			t.Errorf("after %v the daemon ended with %v; mounted: %v", s, err, isMounted(t, mnt))
		}
	}
}

// TestBusyMount: a mount with an open file survives the first signal, and is
// detached by the second; the file stays readable until it is closed.
func TestBusyMount(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd := startInForeground(t, packed, mnt)
	// The reader opens the file, tells us, and reads it when it is told to.
	reader := exec.Command("sh", "-c", `exec 3<"$1"; echo open; read go; cat <&3 | wc -c`, "sh", filepath.Join(mnt, "cat", "0.npy"))
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Process.Kill()
	answers := bufio.NewScanner(out)
	if !answers.Scan() || answers.Text() != "open" {
		t.Fatalf("the reader says %q", answers.Text())
	}
	if status, text := output(t, prismfs("umount", mnt)); status != statusUnmountBusy || !strings.Contains(text, "--lazy") {
		t.Errorf("umount of a busy mount: status %d: %s", status, text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, "the daemon says that the mount is busy", func() bool {
		return strings.Contains(cat(t, filepath.Join(mnt, ".prismfs", "log")), "a second signal detaches it")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, "the mount vanishes", func() bool { return !isMounted(t, mnt) })
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if !answers.Scan() || strings.TrimSpace(answers.Text()) != "3728" { // a header of 128 bytes and 40 × 30 × 3
		t.Errorf("the reader got %q bytes from the detached mount", answers.Text())
	}
	if err := reader.Wait(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

// TestDeadMountIsCleared: after a kill, readers are told, and the next mount
// needs no cleaning up by hand.
func TestDeadMountIsCleared(t *testing.T) {
	packed, mnt := packedImages(t)
	cmd := startInForeground(t, packed, mnt)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if out, err := exec.Command("cat", filepath.Join(mnt, "cat", "0.npy")).CombinedOutput(); err == nil || !strings.Contains(string(out), "not connected") {
		t.Fatalf("reading a dead mount: %v, %s", err, out)
	}
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatalf("mount over a dead one: status %d: %s", status, out)
	}
	if got := cat(t, filepath.Join(mnt, "cat", "0.npy")); len(got) != 3728 {
		t.Errorf("0.npy has %d bytes", len(got))
	}
}

// TestStatfsOfFiles: df and quota tools name files as well as mount points.
func TestStatfsOfFiles(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	_, ofRoot := output(t, exec.Command("stat", "-f", "-c", "%s %l", mnt))
	_, ofFile := output(t, exec.Command("stat", "-f", "-c", "%s %l", filepath.Join(mnt, "cat", "0.npy")))
	if ofFile != ofRoot || strings.HasPrefix(ofFile, "0") {
		t.Errorf("statfs of a file gives %q, of the mount %q", ofFile, ofRoot)
	}
}

// TestFolderComesBeforeView: a folder that takes the name of a view is seen in
// its place, also while somebody has the view open.
func TestFolderComesBeforeView(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", "--timeout", "0", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	script := `exec 3<"$2/cat+png" && ls "$2/cat+png" && mkdir "$1/cat+png" && cp "$1/dog/1.l3" "$1/cat+png/new.l3" && ls "$2/cat+png"`
	status, out := output(t, exec.Command("sh", "-c", script, "sh", packed, mnt))
	if want := "0.png\n2.png\nnew.npy\n"; status != statusOK || out != want {
		t.Errorf("status %d, the view and then the folder list\n%s, want\n%s", status, out, want)
	}
}

// TestFolderBecomesFile: the first listing that fails makes the kernel look
// again, long before it would have done so by itself.
func TestFolderBecomesFile(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	script := `ls "$2/dog" >/dev/null && rm -r "$1/dog" && echo file >"$1/dog" || exit; ls "$2/dog"; cat "$2/dog"`
	if status, out := output(t, exec.Command("sh", "-c", script, "sh", packed, mnt)); status != statusOK || !strings.HasSuffix(out, "file\n") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestByteSizeFlag(t *testing.T) {
	for text, want := range map[string]byteSize{"4GiB": 4 << 30, "64MiB": 64 << 20, "1000": 1000, "1MB": 1e6, "1.5KiB": 1536} {
		var b byteSize
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%s is %d, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "4 elephants", "99999999999TiB"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is %d", text, b)
		}
	}
}

func TestReadAheadFlag(t *testing.T) {
	for text, want := range map[string]string{"off": "off", "1": "1", "8": "8", "1024": "1024"} {
		var n imageCount
		if err := n.Set(text); err != nil || n.String() != want {
			t.Errorf("%q: %v, %v", text, n.String(), err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1025", "on", "8 "} {
		var n imageCount
		if err := n.Set(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
