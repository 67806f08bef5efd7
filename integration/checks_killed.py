"""A daemon that is killed while it is read: what becomes of readers, and of the mount."""

import ctypes
import errno
import mmap
import multiprocessing
import os
import random
import signal
import subprocess
import time
import traceback

import numpy as np
from torch.utils.data import DataLoader

from checks_cases import become_nobody
from reading import expect, expect_errno, files_below, read, same

# What asks the daemon fails with the first; what it was working on then, with the second.
GONE = (errno.ENOTCONN, errno.ECONNABORTED)

# Nobody waits longer for a daemon that is gone; generous, since the machine may be busy.
HANGS = 30

fork = multiprocessing.get_context("fork")


class Reader:
    """A function in a process of its own. It gets an end of a pipe, and says there "busy" when it reads."""

    def __init__(self, name, work):
        self.name = name
        self.pipe, theirs = fork.Pipe()

        def run():
            self.pipe.close()
            os.setpgid(0, 0)
            try:
                theirs.send(("done", work(theirs)))
            except BaseException:
                theirs.send(("failed", traceback.format_exc()[-3000:]))
            os._exit(0)

        self.process = fork.Process(target=run, name=name)
        self.process.start()
        theirs.close()

    def told(self, seconds=HANGS):
        """What it says next."""
        expect(self.pipe.poll(seconds), f"{self.name} said nothing for {seconds} s: it hangs")
        said = self.pipe.recv()
        expect(said[0] != "failed", f"{self.name}: {said[1:]}")
        return said

    def end(self, seconds=HANGS):
        """What it returned."""
        said = self.told(seconds)
        self.process.join(HANGS)
        expect(self.process.exitcode == 0, f"{self.name} ended with {self.process.exitcode}")
        return said[1]

    def kill(self):
        if self.process.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)


def until_gone(pipe, step):
    """Repeats a step until it fails for want of a daemon; returns the error's name and how often it was right."""
    for count in range(1 << 30):
        try:
            step()
        except OSError as error:
            expect(error.errno in GONE, f"{error}")
            return errno.errorcode[error.errno], count
        if count == 1:
            pipe.send(("busy",))


def in_a_child(look):
    """Runs look in a child; "right", or the signal that ended it. A map without its pages gives SIGBUS."""
    child = fork.Process(target=look)
    child.start()
    child.join(HANGS)
    expect(child.exitcode is not None, "looking at a map hangs")
    expect(child.exitcode in (0, -signal.SIGBUS), f"looking at a map ended with {child.exitcode}")
    return "right" if child.exitcode == 0 else "SIGBUS"


def loader(mount, names):
    """A DataLoader with workers, over and over. Its error says what the worker's was."""
    def work(pipe):
        class Arrays:
            def __len__(self):
                return len(names)

            def __getitem__(self, at):
                return np.load(os.path.join(mount, names[at]))

        for epoch in range(1 << 20):
            try:
                batches = iter(DataLoader(Arrays(), batch_size=None, num_workers=2, shuffle=True, collate_fn=lambda array: array))
                for count, _ in enumerate(batches):
                    if (epoch, count) == (0, 3):
                        pipe.send(("busy",))
            except (OSError, ValueError) as error:
                # In the middle of a file NumPy overlooks the error, and finds an array too short for its shape.
                told = next((errno.errorcode[number] for number in GONE if f"[Errno {number}]" in str(error)), None)
                told = told or ("too short" if "cannot reshape" in str(error) else None)
                expect(told, f"the loader's error is {error}")
                pipe.send(("done", told))
                for worker in multiprocessing.active_children():
                    worker.kill()  # or PyTorch would wait five seconds until they notice
                os._exit(0)
    return work


def opener(mount, want, seed):
    """Opens files and reads them to their ends, over and over."""
    choose = random.Random(seed)

    def step():
        name = choose.choice(list(want))
        same(read(os.path.join(mount, name)), want[name], name)
    return lambda pipe: until_gone(pipe, step)


def lister(mount):
    return lambda pipe: until_gone(pipe, lambda: [entry.stat() for entry in os.scandir(mount)])


def waiter(path):
    """Waits in an open for what is decoded slowly."""
    def work(pipe):
        pipe.send(("busy",))
        expect_errno(GONE, "an open that the daemon was working on", lambda: read(path))
    return work


def sequential(path, want, served_by_kernel, piece=16 << 10):
    """Is in the middle of a file, and goes on after the daemon's end."""
    def work(pipe):
        with open(path, "rb", buffering=0) as file:
            got = b""
            while len(got) < len(want) // 2:
                got += os.read(file.fileno(), piece)
            pipe.send(("busy",))
            pipe.recv()
            how = "right"
            try:
                while data := os.read(file.fileno(), piece):
                    got += data
            except OSError as error:
                expect(error.errno in GONE and not served_by_kernel, f"{error} after {len(got)} bytes")
                how = errno.errorcode[error.errno]
            same(got, want[:len(got)], f"{path}, read across the daemon's end")
            expect(how != "right" or len(got) == len(want), f"{path} ended after {len(got)} bytes of {len(want)}")
        pipe.send(("after", how))
        pipe.recv()
    return work


def mapper(touched, untouched, served_by_kernel):
    """Holds two files mapped, of which it has looked at one; their paths and bytes. Both are closed."""
    def work(pipe):
        maps = []
        for path, want in (touched, untouched):
            with open(path, "rb") as file:
                maps.append(mmap.mmap(file.fileno(), len(want), mmap.MAP_SHARED, mmap.PROT_READ, trackfd=False)
                            if "trackfd" in (mmap.mmap.__doc__ or "") else map_and_close(file.fileno(), len(want)))
        same(maps[0][:], touched[1], "a map")
        pipe.send(("busy",))
        for word in ("after", "later"):
            pipe.recv()
            how = [in_a_child(lambda: same(held[:], want, f"{path}, mapped, {word}"))
                   for held, (path, want) in zip(maps, (touched, untouched))]
            expect(how == ["right", "right"] or not served_by_kernel, f"maps of files that the kernel serves: {how}")
            pipe.send((word, how))
        pipe.recv()
    return work


class map_and_close:
    """A map of a descriptor that need not stay open, unlike Python's own, which duplicates it."""

    def __init__(self, fd, size):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.at, self.size = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0), size
        expect(self.at != ctypes.c_void_p(-1).value, f"mmap: {os.strerror(ctypes.get_errno())}")

    def __getitem__(self, _):
        return ctypes.string_at(self.at, self.size)


def check_killed(mount, binary, source, pid, expected, slow, passed, served_by_kernel, environment, nobody):
    """The daemon is killed under load: everybody gets on, and so does the mount, with one command."""
    want = {name: read(os.path.join(expected, name)) for name in files_below(expected)}
    want[passed] = read(os.path.join(source, passed))
    if nobody:
        become_nobody()
    at = lambda name: os.path.join(mount, name)
    # Of these three nobody else has the kernel keep pages.
    large = sorted((name for name in want if name.endswith(".npy")), key=lambda name: len(want[name]))[-3:]
    others = {name: data for name, data in want.items() if name not in large}
    names = sorted(name for name in others if name.endswith(".npy"))
    readers = {
        "loader": loader(mount, names), "lister": lister(mount), "waiter": waiter(at(slow)),
        "opener 1": opener(mount, others, 1), "opener 2": opener(mount, others, 2),
        "sequential": sequential(at(large[0]), want[large[0]], served_by_kernel),
        "mapper": mapper(*((at(name), want[name]) for name in large[1:]), served_by_kernel),
    }
    readers = {name: Reader(name, work) for name, work in readers.items()}
    try:
        for reader in readers.values():
            expect(reader.told() == ("busy",), f"{reader.name} is not reading")
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        told, killed = {}, time.monotonic()
        for name in ("opener 1", "opener 2", "lister", "waiter", "loader"):
            told[name] = readers[name].end(), round(time.monotonic() - killed, 2)
        for name in ("sequential", "mapper"):
            readers[name].pipe.send("killed")
            told[name] = readers[name].told()[1]
        expect(served_by_kernel or told["mapper"][0] == "right", "pages that a map has looked at are gone with the daemon")
        expect_errno(errno.ENOTCONN, "statfs", lambda: os.statvfs(mount))
        # One command, while what was mapped and opened before is still in use.
        again = subprocess.run([binary, "mount", source, mount], env=environment, capture_output=True, text=True, timeout=2 * HANGS)
        expect(again.returncode == 0, f"mount after the daemon was killed: {again.returncode} {again.stderr}")
        for name, data in want.items():
            same(read(at(name)), data, f"{name}, mounted again")
        readers["mapper"].pipe.send("mounted again")
        readers["mapper"].told()
        for name in ("sequential", "mapper"):
            readers[name].pipe.send("enough")
            readers[name].end()
        off = subprocess.run([binary, "umount", mount], env=environment, capture_output=True, text=True, timeout=2 * HANGS)
        expect(off.returncode == 0, f"umount: {off.returncode} {off.stderr}")
        return told
    finally:
        for reader in readers.values():
            reader.kill()


def check_one_of_two_killed(mount, other, pid, expected, readers=2):
    """Two mounts of one source are read. The daemon of the other is killed, which readers of the first do not notice."""
    want = {name: read(os.path.join(expected, name)) for name in files_below(expected)}
    names = list(want)
    after = 2 * len(names)

    def undisturbed(seed):
        def work(pipe):
            choose = random.Random(seed)
            for count in range(1 << 30):
                name = choose.choice(names)
                same(read(os.path.join(mount, name)), want[name], name)
                if count == 1:
                    pipe.send(("busy",))
                if pipe.poll():
                    break
            pipe.recv()
            for _ in range(after):
                name = choose.choice(names)
                same(read(os.path.join(mount, name)), want[name], name)
        return work

    readers = [Reader(f"reader {seed}", undisturbed(seed)) for seed in range(readers)]
    gone = [Reader(f"reader of the other {seed}", opener(other, want, seed)) for seed in range(len(readers))]
    try:
        for reader in readers + gone:
            expect(reader.told() == ("busy",), f"{reader.name} is not reading")
        os.kill(pid, signal.SIGKILL)
        for reader in readers:
            reader.pipe.send("killed")
        return [reader.end() for reader in gone + readers]
    finally:
        for reader in readers + gone:
            reader.kill()
