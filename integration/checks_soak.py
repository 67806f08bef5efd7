"""Everything at once, for as long as one likes: readers, readers that are killed, sources that are replaced, memory that is short."""

import contextlib
import errno
import io
import mmap
import os
import random
import shutil
import signal
import tarfile
import time
import traceback

from reading import expect, files_below, read, same, stats


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


def everything(folder):
    """The bytes of all files below a folder, by name."""
    return {name: read(os.path.join(folder, name)) for name in files_below(folder)}


def read_shard(path):
    """The images of a shard, by their members' names."""
    with tarfile.open(fileobj=io.BytesIO(read(path))) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.name.endswith(".npy")}


@contextlib.contextmanager
def limited(group):
    """Yields what limits the processes of a memory cgroup (version 1) to so many bytes beyond what they take."""
    def setting(name):
        return os.path.join(group, f"memory.{name}_in_bytes")

    def limit(to):
        with open(setting("limit"), "w") as file:
            file.write(str(to))

    before = int(read(setting("limit")))
    try:
        yield lambda spare: limit(min(int(read(setting("usage"))) + spare, int(read(setting("limit")))))
    finally:
        limit(before)


def wait_for_budget(mount, right, what, meanwhile=lambda: None):
    """Returns when the budget of the mount's cache is right."""
    until = time.monotonic() + 60
    while not right(budget := stats(mount)["cache_budget_bytes"]):
        expect(time.monotonic() < until, f"the cache has a budget of {budget} bytes and has not {what}")
        meanwhile()
        time.sleep(0.1)


def check_soak(mount, source, expected, versions, version_bytes, seconds, seed, classes, records, group, spare):
    """
    Ends when the time is over. Files of the mount have the bytes of expected, picture.npy those of a version.

    The folder classes has images of expected in folders of their own, records the images of PCR records, of which
    a first reading tells what they are. The daemon is alone in the cgroup, if there is one. Returns how much was
    done, so that a test can tell that something was.
    """
    want = everything(expected)
    names = list(want)
    progressive = {view: everything(os.path.join(mount, records + view)) for view in ("+1+npy", "+4+ppm", "+npy")}
    pictures = list(everything(version_bytes).values())
    packed = [os.path.join(versions, name) for name in files_below(versions) if name.endswith(".l3")]
    of_class = {name: {want[file.removesuffix(".l3") + ".npy"] for file in os.listdir(os.path.join(source, classes, name))}
                for name in os.listdir(os.path.join(source, classes))}
    until = time.monotonic() + seconds

    def read_picture(choose):
        try:
            got = read_somehow(os.path.join(mount, choose.choice(["", "+npy"]), "picture.npy"), choose)
            expect(got in pictures, f"picture.npy: {len(got)} bytes of no version")
        except OSError as error:  # it is being written, or was replaced between two steps
            expect(error.errno in (errno.EIO, errno.ESTALE, errno.ENOENT), f"picture.npy: {error}")

    def read_image(choose):
        name = choose.choice(names)
        same(read_somehow(os.path.join(mount, choose.choice(["", "+npy", "+1", "+3+npy"]), name), choose), want[name], name)

    def read_progressive(choose):
        view = choose.choice(list(progressive))
        name = choose.choice(list(progressive[view]))
        same(read_somehow(os.path.join(mount, records + view, name), choose), progressive[view][name], records + view + "/" + name)

    def read_echo(choose):
        name = choose.choice(list(of_class))
        folder = os.path.join(mount, classes + "+echo2", name)
        expect(read_somehow(os.path.join(folder, choose.choice(os.listdir(folder))), choose) in of_class[name], f"an echo in {folder} is of no image there")

    def read_stream(choose):
        path = os.path.join(mount, f"{classes}+stream+shard8/epoch-{choose.randrange(5):04d}/000000.tar")
        images = read_shard(path)
        expect(len(images) == 8, f"{path} has {len(images)} images")
        for name, image in images.items():
            expect(any(image in of for of in of_class.values()), f"{path}: {name} is no image of {classes}")

    ways = [read_picture, read_image, read_progressive, read_echo, read_stream]

    def reader(choose, count):
        while time.monotonic() < until:
            choose.choices(ways, [4, 8, 4, 2, 1])[0](choose)
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

    def presser(choose, count):
        """Makes memory short, so that the cache shrinks, and frees it, so that it grows back."""
        full = stats(mount)["cache_budget_bytes"]
        while time.monotonic() < until:
            with limited(group) as press:  # again and again, as the daemon may take less by itself
                wait_for_budget(mount, lambda budget: budget < full, "shrunk", lambda: press(spare))
                time.sleep(choose.random())
            wait_for_budget(mount, lambda budget: budget == full, "grown back")
            count[0] += 1
            time.sleep(choose.random())

    return together({"read": [reader] * 3, "replaced": [replacer], "killed": [killer] * 2, "pressed": [presser] * (group != "")}, seed)


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
