"""Mounts of the two speed classes, and who reads them.

A Class is a way of mounting: as root, where the kernel passes reads through to
the decoded files, or as anybody else. It starts its mounts and its readers as
the same user, since a FUSE mount shows itself to nobody but its user.
"""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time

NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]

# What a namespace needs to be as poor as a user's session: without it root's
# files in /sys, the kernel's read-ahead among them, stay writable.
HOLD = "mount --rbind /sys /sys && mount -o remount,bind,ro /sys && echo ready && exec cat"


# How long an unmounted daemon may take to end before the run goes on without waiting.
DAEMON_ENDS_SECONDS = 10


class Class:
    """A speed class: how the mount is made and by whom it is read."""

    def __init__(self, name, how, prefix=(), environment=(), owner=None):
        self.name, self.how = name, how  # how: who mounts, after "mounted"
        self.prefix = list(prefix)
        self.environment = dict(environment)
        self.owner = owner  # of the mount point, where it is not ours
        self.reader = None
        self.facts = {}     # medium and passthrough, as the mount tells them

    def command(self, words):
        return dict(args=[*self.prefix, *words], env={**os.environ, **self.environment})

    def run(self, *words):
        done = subprocess.run(**self.command(words), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout


class Reader:
    """A reader.py that runs as its class does."""

    def __init__(self, speed_class, script):
        self.process = subprocess.Popen(**speed_class.command([sys.executable, "-B", script]), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def ask(self, measure, **arguments):
        self.send(measure, **arguments)
        return self.receive(measure)

    def send(self, measure, **arguments):
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.write(json.dumps({"measure": measure, **arguments}) + "\n")
            self.process.stdin.flush()

    def receive(self, measure):
        """The answer to what was sent."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that reads ended during {measure}; if Python packages are missing, type: make setup")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{measure}: {answer['error']}")
        return answer

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Mount:
    """A mount of a class; used with `with`, after which it is gone."""

    def __init__(self, speed_class, prismfs, source, point, options=()):
        self.speed_class, self.prismfs, self.source, self.point = speed_class, prismfs, source, point
        self.options = options  # of prismfs mount
        self.pid = None

    def __enter__(self):
        os.mkdir(self.point)
        if self.speed_class.owner is not None:
            os.chown(self.point, *self.speed_class.owner)
        try:
            self.speed_class.run(self.prismfs, "mount", *self.options, self.source, self.point)
            self.pid = json.loads(self.text("config"))["pid"]
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(self, *_):
        self.leave()

    def leave(self):
        """Unmounts, lazily if need be, and waits for the daemon, which frees memory while it ends."""
        for words in (["umount"], ["umount", "--lazy"]):
            if not self.mounted():
                break
            with contextlib.suppress(RuntimeError):
                self.speed_class.run(self.prismfs, *words, self.point)
        if self.mounted():
            print(f"bench: {self.point} is still mounted; type: umount -l {self.point}", file=sys.stderr)
            return
        deadline = time.monotonic() + DAEMON_ENDS_SECONDS
        while self.pid and daemon_lives(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        with contextlib.suppress(OSError):
            os.rmdir(self.point)

    def mounted(self):
        return f" {self.point} " in self.speed_class.run("cat", "/proc/self/mounts")

    def text(self, name):
        return self.speed_class.reader.ask("text", path=os.path.join(self.point, ".prismfs", name))["text"]

    def stats(self):
        return json.loads(self.text("stats"))

    def cpu_seconds(self):
        """Processor time of the daemon so far."""
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def daemon_lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def hold_namespace(stack):
    """A user and mount namespace in which nobody has CAP_SYS_ADMIN of the machine;
    returns the prefix of commands that run in it, or None if the kernel refuses."""
    holder = subprocess.Popen(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", HOLD], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              start_new_session=True)  # Ctrl-C is for us; unmounting needs the namespace

    def end():
        holder.stdin.close()
        holder.wait()
    stack.callback(end)
    if holder.stdout.readline() != "ready\n":
        return None
    return ["nsenter", "--target", str(holder.pid), "--user", "--mount", "--preserve-credentials"]


def plain_class(stack):
    """The class of users other than root, as real as this machine allows."""
    if os.geteuid() != 0:
        return Class("plain", "by this user, through fusermount3")
    device = os.stat("/dev/fuse")
    if device.st_mode & (stat.S_IROTH | stat.S_IWOTH) == stat.S_IROTH | stat.S_IWOTH and shutil.which("fusermount3"):
        import pwd
        nobody = pwd.getpwnam("nobody")
        return Class("plain", "by user nobody, through fusermount3", NOBODY, owner=(nobody.pw_uid, nobody.pw_gid))
    prefix = hold_namespace(stack)
    if prefix:
        return Class("plain", "in a user namespace without CAP_SYS_ADMIN (/dev/fuse is closed to users)", prefix)
    return Class("plain", "by root, with PRISMFS_FORCE=memory (no user may mount here)",
                 environment={"PRISMFS_FORCE": "memory"})


def classes(stack):
    """The speed classes that this machine has, the fastest first."""
    if not os.path.exists("/dev/fuse"):
        raise RuntimeError("there is no /dev/fuse, so nothing can be mounted; prismfs doctor says more")
    privileged = [Class("passthrough", "by root")] if os.geteuid() == 0 else []
    return privileged + [plain_class(stack)]


@contextlib.contextmanager
def ordinary_tmpfs(work):
    """A folder on a tmpfs with the kernel's default options, to compare with."""
    point = os.path.join(work, "tmpfs")
    if os.geteuid() != 0:
        point = f"/dev/shm/{os.path.basename(work)}"
        os.mkdir(point)
        try:
            yield point, "/dev/shm"
        finally:
            shutil.rmtree(point)
        return
    os.mkdir(point)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=755", "tmpfs", point], check=True)
    try:
        yield point, "a tmpfs mounted for this run"
    finally:
        subprocess.run(["umount", "-l", point], check=True)


class HeldMemory:
    """Memory that this process keeps until a mount needs it.

    A hypervisor may take free memory away from a virtual machine. To get it back costs a
    mount more than decoding, and only because the machine was idle before. A machine at
    work has memory in use that it can give to somebody else at once; here, it lies in a
    tmpfs of large folios, as the mount's own will. Only root can mount that: for others,
    and for a size of 0, nothing is held."""

    PIECE = bytes(16 << 20)

    def __init__(self, work, size):
        self.point = os.path.join(work, "held")
        self.size = size if os.geteuid() == 0 else 0

    def __enter__(self):
        if self.size:
            os.mkdir(self.point)
            options = f"size={self.size + len(self.PIECE)},mode=700,huge=within_size"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.point], check=True)
            self.take()
        return self

    def __exit__(self, *_):
        if self.size:
            subprocess.run(["umount", "-l", self.point], check=True)
            os.rmdir(self.point)

    def take(self):
        with open(os.path.join(self.point, "memory"), "wb", buffering=0) as file:
            while file.tell() < self.size:
                file.write(self.PIECE)

    @contextlib.contextmanager
    def lent(self):
        """The memory is free inside `with`, for whoever takes it first."""
        if self.size:
            os.unlink(os.path.join(self.point, "memory"))
        try:
            yield
        finally:
            if self.size:
                self.take()


def ended_by_signal(number, _):
    """Lets `with` and `finally` unmount when this process is told to end."""
    raise SystemExit(128 + number)


def unmount_on_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended_by_signal)
