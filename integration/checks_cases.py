"""The checks of the table of hard cases, by what its rows are about."""

import ctypes
import errno
import hashlib
import io
import mmap
import multiprocessing
import os
import random
import stat
import struct
import subprocess
import time

import numpy as np
from torchvision.datasets import ImageFolder

from reading import expect, expect_errno, files_below, forked, raise_it, read, same, same_pixels, stats

NOBODY = 65534


# Arrays.


def check_saved_by_numpy(mount, names, expected):
    """Files are byte for byte what np.save writes, and begin with 128 bytes of format 1.0."""
    for name in names:
        want = read(os.path.join(expected, name))
        expect(want[:8] == b"\x93NUMPY\x01\x00" and struct.unpack("<H", want[8:10])[0] + 10 == 128, f"{name}: np.save writes another head here")
        same(read(os.path.join(mount, name)), want, name)
        array, file = np.load(os.path.join(mount, name)), io.BytesIO()
        np.save(file, array)
        same(file.getvalue(), want, name + ", saved again")


def check_whole_or_refused(mount, whole, refused):
    """A file has as many bytes as its head and st_size say, or cannot be opened."""
    for name in whole + refused:
        path = os.path.join(mount, name)
        if name in refused:
            expect_errno(errno.EIO, f"{name}, which is cut,", lambda: os.open(path, os.O_RDONLY))
            continue
        data, size = read(path), os.stat(path).st_size
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            expect(version == (1, 0), f"{name}: version {version}")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            head = file.tell()
        expect(not fortran, f"{name} is in Fortran's order")
        expect(len(data) == size == head + int(np.prod(shape)) * dtype.itemsize, f"{name}: {len(data)} bytes, st_size {size}, shape {shape} of {dtype}")


def check_sizes_before_decoding(mount, expected):
    """The first that anybody asks of a file is its size: it is right, and nothing has been decoded for it."""
    before = stats(mount)
    names = files_below(expected)
    for name in names:
        size, want = os.stat(os.path.join(mount, name)).st_size, os.path.getsize(os.path.join(expected, name))
        expect(size == want > 0, f"{name}: st_size {size}, want {want}")
    after = stats(mount)
    for key in ("decoded", "served"):
        expect(after[key] == before[key], f"{key} rose by {after[key] - before[key]}")
    return len(names)


def check_mapped(mount, expected, names, how):
    """Maps of files that nobody has read, and again: what read gives."""
    for name in names * 2:
        path, want = os.path.join(mount, name), np.load(os.path.join(expected, name))
        if how == "shared":
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
                same(mapped[:], read(os.path.join(expected, name)), f"{name}, mapped shared")
        else:
            for mode in ("r", "c"):
                same_pixels(np.asarray(np.load(path, mmap_mode=mode)), want, f'{name}, mmap_mode="{mode}"')
        same_pixels(np.load(path), want, name)


def check_arrays_named(mount, want):
    """Files, by the bytes that they must have."""
    for name, path in want.items():
        same(read(os.path.join(mount, name)), read(path), name)


def check_dead_mount(mount):
    """A mount without a daemon says so to whoever asks; its own folder may still answer stat."""
    expect_errno(errno.ENOTCONN, "statfs", lambda: os.statvfs(mount))
    expect_errno(errno.ENOTCONN, "listing", lambda: os.listdir(mount))


# A source that changes.


def put(source, name, data):
    """Replaces a file as a careful writer does."""
    temporary = os.path.join(source, ".new")
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, os.path.join(source, name))


def check_replaced_under_readers(mount, source, versions, expected, seconds, readers=3):
    """While files are replaced again and again, every reader gets one version or an error, never a mixture; the last in the end."""
    packed = [read(os.path.join(versions, f"{number:03d}.l3")) for number in range(3)]
    arrays = [read(os.path.join(expected, f"{number:03d}.npy")) for number in range(3)]
    texts = [bytes([65 + number]) * (300_000 + 70_000 * number) for number in range(3)]
    put(source, "text", texts[0])
    put(source, "picture.l3", packed[0])
    until = time.monotonic() + seconds
    counts = multiprocessing.get_context("fork").Array("q", 3)

    def replacer():
        number = 0
        while time.monotonic() < until:
            number += 1
            put(source, "picture.l3", packed[number % 3])
            put(source, "text", texts[number % 3])
            time.sleep(0.003)

    def reader():
        choose, seen, refused = random.Random(os.getpid()), {}, 0
        while time.monotonic() < until:
            name, known = choose.choice((("picture.npy", arrays), ("text", texts)))
            got, piece = [], choose.choice((10_000, 65_536, 1 << 20))
            try:
                fd = os.open(os.path.join(mount, name), os.O_RDONLY)
            except OSError as error:
                expect(error.errno in (errno.ESTALE, errno.EIO), f"open of {name}: {error}")
                refused += 1
                continue
            try:
                while part := os.read(fd, piece):
                    got.append(part)
                    if choose.random() < 0.1:
                        time.sleep(0.002)
                size = os.fstat(fd).st_size
            finally:
                os.close(fd)
            got = b"".join(got)
            expect(got in known, f"{name}: {len(got)} bytes that are no version")
            expect(size == len(got), f"{name}: st_size {size}, {len(got)} bytes")
            seen[name, known.index(got)] = True
        with counts.get_lock():
            counts[0] = max(counts[0], len(seen))
            counts[1] += refused

    forked([reader] * readers + [replacer])
    expect(counts[0] > 2, "no reader has seen several versions: the check checked nothing")
    put(source, "picture.l3", packed[2])
    put(source, "text", texts[2])
    same(read(os.path.join(mount, "picture.npy")), arrays[2], "picture.npy in the end")
    same(read(os.path.join(mount, "text")), texts[2], "text in the end")
    return {"refused_opens": counts[1]}


def check_rewritten_in_place(mount, source, size=3_000_000):
    """A file that passes through and is written to in place while it is open gives an error, not a mixture; then the new bytes."""
    path, old, new = os.path.join(source, "rewritten"), b"o" * size, b"n" * size
    with open(path, "wb") as file:
        file.write(old)
    fd = os.open(os.path.join(mount, "rewritten"), os.O_RDONLY)
    try:
        got = os.pread(fd, 100_000, 0)
        with open(path, "r+b") as file:
            file.write(new)
        expect(got == old[:100_000], "the old bytes are wrong")
        expect_errno((errno.ESTALE, errno.EIO), "reading on", lambda: os.pread(fd, 100_000, size - 100_000))
    finally:
        os.close(fd)
    until = time.monotonic() + 5
    while (data := read_or_none(os.path.join(mount, "rewritten"))) != new:
        expect(data is None or data == old, "a mixture of old and new bytes")
        expect(time.monotonic() < until, "the new bytes never come")


def read_or_none(path):
    try:
        return read(path)
    except OSError:
        return None


# Names.


def check_classes(mount, source, view, labels):
    """Classes and their order are those of ImageFolder on the source; so are the labels that samples carry, where they do."""
    want, got = ImageFolder(source), ImageFolder(os.path.join(mount, view))
    expect(got.classes == want.classes and got.class_to_idx == want.class_to_idx, f"classes {got.classes}, want {want.classes}")
    counts = lambda folder: np.bincount(folder.targets, minlength=len(folder.classes)).tolist()
    expect(counts(got) == counts(want), f"{counts(got)} images in the classes, want {counts(want)}")
    carried = 0
    for path, target in got.samples:
        try:
            label = int(os.getxattr(path, "user.prismfs.label"))
        except OSError as error:
            expect(error.errno == errno.ENODATA and not labels, f"{path}: {error}")
            continue
        expect(label == target, f"{path}: label {label}, want {target}")
        carried += 1
    expect(not labels or carried == len(got.samples), f"{carried} of {len(got.samples)} images carry labels")
    return {"classes": got.classes, "images": len(got.samples), "labels": carried}


def check_listed_bytes(mount, folder, want):
    """A folder lists exactly the names, given in hex, and each file has the bytes that a file elsewhere has."""
    folder = os.path.join(os.fsencode(mount), os.fsencode(folder))
    want = {bytes.fromhex(name): path for name, path in want.items()}
    listed = os.listdir(folder)
    expect(sorted(listed) == sorted(want), f"listed but not wanted {set(listed) - set(want)}, wanted but not listed {set(want) - set(listed)}")
    for name, path in want.items():
        got = os.path.join(folder, name)
        if path is None:
            expect(os.path.isdir(got), f"{name} is no folder")
            continue
        same(read(got), read(path), repr(name))
    return len(listed)


# Entries.


def linux_entries(folder):
    """What getdents64 says, of . and .. too: name, inode number and type."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    buffer, found = ctypes.create_string_buffer(32768), []
    try:
        while True:
            got = libc.syscall(217 if os.uname().machine == "x86_64" else 61, fd, buffer, len(buffer))
            expect(got >= 0, f"getdents64: {os.strerror(ctypes.get_errno())}")
            if got == 0:
                return found
            at = 0
            while at < got:
                number, _, length, kind = struct.unpack_from("<QqHB", buffer.raw, at)
                found.append((os.fsdecode(buffer.raw[at + 19:at + length].split(b"\0")[0]), number, kind))
                at += length
    finally:
        os.close(fd)


def check_entries(mount, what):
    """Of every entry of every folder: d_type, or d_ino against st_ino."""
    seen = 0
    for at, _, _ in os.walk(mount, onerror=raise_it):
        entries = linux_entries(at)
        expect([name for name, _, _ in entries[:2]] == [".", ".."], f"{at} begins with {entries[:2]}")
        for name, number, kind in entries:
            if name == ".." and at == mount:
                continue  # the kernel's own, of the folder above the mount
            path = os.path.join(at, name)
            info = os.lstat(path)
            if what == "d_type":
                want = {stat.S_IFREG: 8, stat.S_IFDIR: 4}[stat.S_IFMT(info.st_mode)]
                expect(kind == want, f"{path}: d_type {kind}, want {want}")
            else:
                expect(number == info.st_ino != 0, f"{path}: d_ino {number}, st_ino {info.st_ino}")
            seen += 1
    return seen


def check_stat_fields(mount, packed, what):
    """st_blocks and st_blksize of every file, or its modification time, the packed file's."""
    seen = 0
    now = time.time()
    for name in files_below(mount):
        info = os.stat(os.path.join(mount, name))
        if what == "blocks":
            expect(info.st_blocks == -(-info.st_size // 512) and info.st_blksize >= 512, f"{name}: {info.st_size} bytes, {info.st_blocks} blocks, st_blksize {info.st_blksize}")
        else:
            stored = os.path.join(packed, name)
            if not os.path.exists(stored):
                stored = os.path.splitext(stored)[0] + ".l3"
            want = os.stat(stored).st_mtime_ns
            expect(info.st_mtime_ns == want != 0, f"{name}: mtime {info.st_mtime_ns}, want {want}")
            expect(info.st_mtime < now - 3600, f"{name} is not old: the check cannot tell its time from now")
        seen += 1
    return seen


def check_find_by_size(mount, expected):
    """find -size asks for the size of everything, and decodes nothing."""
    before = stats(mount)
    found = subprocess.run(["find", mount, "-type", "f", "-name", "*.npy", "-size", "+0", "-printf", "%s %P\n"], check=True, capture_output=True, text=True)
    sizes = {name: int(size) for size, name in (line.split(" ", 1) for line in found.stdout.splitlines())}
    want = {name: os.path.getsize(os.path.join(expected, name)) for name in files_below(expected)}
    expect(sizes == want, "find tells other sizes")
    after = stats(mount)
    expect(after["decoded"] == before["decoded"], f"{after['decoded'] - before['decoded']} images were decoded")


def check_new_name(mount, source, name, packed, expected):
    """A name that was asked for before it was there is seen as soon as it is."""
    path = os.path.join(mount, name + ".npy")
    for _ in range(3):
        expect_errno(errno.ENOENT, name, lambda: os.stat(path))
    os.link(packed, os.path.join(source, name + ".l3"))
    same(read(path), read(expected), name)
    expect(name + ".npy" in os.listdir(mount), f"{name} is not listed")


def check_removed_name(mount, source, name, timeout):
    """A name that was removed is gone when the kernel's memory of it has ended."""
    path = os.path.join(mount, name + ".npy")
    os.stat(path)
    os.unlink(os.path.join(source, name + ".l3"))
    time.sleep(timeout)
    expect_errno(errno.ENOENT, f"{name}, removed {timeout} s ago,", lambda: os.stat(path))
    expect_errno(errno.ENOENT, f"{name}, removed {timeout} s ago,", lambda: os.open(path, os.O_RDONLY))


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def check_many_opens(mount, names, expected, pid, opens, limit, processes=4, nobody=False):
    """Many opens leave no descriptor behind in the daemon, which has few."""
    count = lambda: len(os.listdir(f"/proc/{pid}/fd"))
    want = {name: read(os.path.join(expected, name))[:4096] for name in names}
    if nobody:
        become_nobody()

    def opener():
        held = []
        for number in range(opens // processes):
            name = names[number % len(names)]
            fd = os.open(os.path.join(mount, name), os.O_RDONLY)
            if number % 97 == 0:
                same(os.pread(fd, 4096, 0), want[name], name)
            held.append(fd)
            if len(held) > 40:
                for fd in held:
                    os.close(fd)
                held.clear()

    opener_counts = []
    for _ in range(2):
        forked([opener] * processes)
        opener_counts.append(count())
    expect(max(opener_counts) < limit, f"{opener_counts} descriptors, the limit is {limit}")
    expect(opener_counts[1] <= opener_counts[0] + 8, f"descriptors of the daemon grow: {opener_counts}")
    return opener_counts


def check_labels_of_the_rest(mount, source, bad):
    """Classes and labels are the source's, of which the bad files are not there and all others are."""
    dataset = ImageFolder(os.path.join(mount, "+png"))
    expect(dataset.classes == sorted(os.listdir(source)), f"classes {dataset.classes}")
    got = [(os.path.splitext(os.path.basename(path))[0], label) for path, label in dataset.samples]
    want = [(os.path.splitext(name)[0], label) for label, name_of in enumerate(dataset.classes)
            for name in sorted(os.listdir(os.path.join(source, name_of))) if name not in bad]
    expect(sorted(got) == sorted(want), f"{got}, want {want}")


# Many files.


def resident(pid):
    """Bytes of memory that a process has to itself."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))


def check_many_entries(mount, source, pid, count):
    """
    Lists a folder of very many files, then asks for all their attributes: times and the daemon's memory. The source is
    listed as well, since the machine may be busy.
    """
    before, memory = stats(mount), resident(pid)
    started = time.monotonic()
    expect(sum(1 for _ in os.scandir(source)) == count, "entries of the source")
    plain = time.monotonic() - started
    started = time.monotonic()
    listed, first = 0, None
    with os.scandir(mount) as entries:
        for entry in entries:
            first = first if listed else time.monotonic() - started
            listed += 1
    seconds = time.monotonic() - started
    expect(listed == count, f"{listed} entries listed, want {count}")
    after_listing = resident(pid)
    started = time.monotonic()
    for entry in os.scandir(mount):
        expect(entry.stat().st_size > 0, entry.name)
    looked = time.monotonic() - started
    after_looking = resident(pid)
    after = stats(mount)
    expect(after["decoded"] == before["decoded"] and after["served"] == before["served"], "something was decoded or opened")
    return {"first_s": first, "listing_s": seconds, "stat_s": looked, "source_s": plain,
            "listing_bytes": after_listing - memory, "entry_bytes": (after_looking - after_listing) / count}


# Access.


def check_as_nobody(mount, readable, refused, unlisted=()):
    """Files that the user nobody can read, by what they must hold, and those that nobody cannot."""
    want = {name: read(path) for name, path in readable.items()}
    become_nobody()
    for name, data in want.items():
        same(read(os.path.join(mount, name)), data, f"{name}, as nobody")
    for name in refused:
        expect_errno((errno.EACCES, errno.EPERM), f"{name}, as nobody,", lambda: read(os.path.join(mount, name)))
        expect_errno((errno.EACCES, errno.EPERM), f"a map of {name}, as nobody,", lambda: np.load(os.path.join(mount, name), mmap_mode="r"))
    for name in unlisted:
        expect_errno((errno.EACCES, errno.EPERM), f"listing {name}, as nobody,", lambda: os.listdir(os.path.join(mount, name)))


def check_shut_out(mount):
    """A user other than the one who mounted sees nothing."""
    become_nobody()
    for call in (os.stat, os.listdir):
        expect_errno(errno.EACCES, f"{call.__name__} of another user's mount", lambda: call(mount))


# Memory.


def check_readers_in_a_cgroup(mount, names, expected, hold, readers=8):
    """Readers go through more images than there is memory for while one holds some of them mapped: no wrong byte, at most ENOMEM."""
    want = hashlib.sha256(read(expected)).digest()
    held = [np.load(os.path.join(mount, name), mmap_mode="r") for name in hold]

    def reader(number):
        refused = 0
        for name in random.Random(number).sample(names, len(names)):
            try:
                got = hashlib.sha256(read(os.path.join(mount, name))).digest()
            except OSError as error:
                expect(error.errno == errno.ENOMEM, f"{name}: {error}")
                refused += 1
                continue
            expect(got == want, f"{name}: wrong bytes")
        expect(refused < len(names), "every open was refused")

    forked([lambda number=number: reader(number) for number in range(readers)])
    whole = np.load(expected)
    for array, name in zip(held, hold):
        same_pixels(np.asarray(array), whole, name + ", held mapped")
    now = stats(mount)
    return {"decoded": now["decoded"], "errors": now["errors"], "evictions": now["cache_evictions"]}
