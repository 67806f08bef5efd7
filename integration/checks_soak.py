"""Everything at once, for as long as one likes: readers, readers that are killed, sources that are replaced."""

import errno
import mmap
import os
import random
import shutil
import signal
import time
import traceback

from reading import expect, files_below, read, same


def put(version, path, choose):
    """Makes a source file that version: by a new file of its name, or in place, which others may see half done."""
    if choose.random() < 0.7:
        shutil.copy(version, path + ".new")
        os.rename(path + ".new", path)
    else:
        shutil.copy(version, path)


def read_somehow(path, choose):
    """The bytes of a file, by read, in pieces or mapped; kept open for a while now and then."""
    with open(path, "rb", buffering=0) as file:
        if choose.random() < 0.1:
            time.sleep(choose.random() * 0.05)
        size = os.fstat(file.fileno()).st_size
        how = choose.randrange(3)
        if how == 0:
            return file.readall()
        if how == 1:
            return b"".join(os.pread(file.fileno(), 70_000, at) for at in range(0, size, 70_000))
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            return mapped[:]


def check_soak(mount, source, expected, versions, version_bytes, seconds, seed):
    """
    Ends when the time is over. Files of the mount have the bytes of expected, picture.npy those of a version.

    Returns how much was done, so that a test can tell that something was.
    """
    names = files_below(expected)
    want = {name: read(os.path.join(expected, name)) for name in names}
    pictures = [read(os.path.join(version_bytes, name)) for name in files_below(version_bytes)]
    packed = [os.path.join(versions, name) for name in files_below(versions) if name.endswith(".l3")]
    until = time.monotonic() + seconds
    views = ["", "+npy", "+1", "+3+npy"]

    def reader(choose, count):
        while time.monotonic() < until:
            view = choose.choice(views)
            if choose.random() < 0.25:
                try:
                    got = read_somehow(os.path.join(mount, view, "picture.npy"), choose)
                    expect(got in pictures, f"picture.npy: {len(got)} bytes of no version")
                except OSError as error:  # it is being written, or was replaced between two steps
                    expect(error.errno in (errno.EIO, errno.ESTALE, errno.ENOENT), f"picture.npy: {error}")
            else:
                name = choose.choice(names)
                same(read_somehow(os.path.join(mount, view, name), choose), want[name], name)
            count[0] += 1

    def replacer(choose, count):
        while time.monotonic() < until:
            put(choose.choice(packed), os.path.join(source, "picture.l3"), choose)
            count[0] += 1
            time.sleep(choose.random() * 0.03)
        shutil.copy(packed[0], os.path.join(source, "picture.l3"))

    def killer(choose, count):
        """Starts readers and kills them in the middle of what they do."""
        while time.monotonic() < until:
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                reader(random.Random(choose.random()), [0])
                os._exit(0)
            time.sleep(choose.random() * 0.1)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            count[0] += 1

    return together({"read": [reader] * 3, "replaced": [replacer], "killed": [killer] * 2}, seed)


def together(works, seed):
    """Runs works at the same time, each in a process, and returns the sum of what each kind counted."""
    children = []
    for kind, functions in works.items():
        for number, work in enumerate(functions):
            mine, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(mine)
                count = [0]
                try:
                    work(random.Random(f"{seed} {kind} {number}"), count)
                    said = str(count[0])
                except BaseException:
                    said = traceback.format_exc()[-3000:]
                os.write(theirs, said.encode())
                os._exit(0)
            os.close(theirs)
            children.append((kind, pid, mine))
    done = dict.fromkeys(works, 0)
    failed = []
    for kind, pid, pipe in children:
        with open(pipe, "rb") as file:
            said = file.read().decode(errors="replace")
        os.waitpid(pid, 0)
        if said.isdigit():
            done[kind] += int(said)
        else:
            failed.append(f"{kind}: {said or 'died'}")
    expect(not failed, f"{len(failed)} failed; the first: {failed[:1]}")
    return done
