#!/usr/bin/python3
"""The programs that read a mount, for the tests of this folder.

The tests must never touch a mount themselves: the process that a reader waits
for could be the one that waits. They start this program once and send it
requests, one JSON object a line:

    {"id": 7, "check": "arrays", "args": {"mount": "/tmp/m", ...}}

Each runs in a process of its own, forked after the slow imports, so that one
that hangs can be killed and one that crashes harms nobody. It answers

    {"id": 7, "pid": 1234}                   it has begun
    {"id": 7, "ok": RESULT}                  or
    {"id": 7, "error": "what was wrong"}

A check is a function named check_NAME, here or in a checks_*.py of this folder; it
raises what it finds wrong.
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import importlib
import io
import json
import mmap
import multiprocessing
import os
import random
import select
import signal
import stat
import struct
import subprocess
import sys
import time
import traceback
import warnings
import zlib

import numpy as np
import torchvision.io
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.transforms.functional import pil_to_tensor

from reading import expect, expect_errno, files_below, forked, raise_it, read, same, same_pixels, stats

libc = ctypes.CDLL(None, use_errno=True)

# The other files of checks, imported before anything is forked.
modules = [importlib.import_module(os.path.splitext(os.path.basename(path))[0])
           for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "checks_*.py")))]


def check_drop_caches():
    """The kernel forgets the pages, names and inodes that it can; only root may tell it to."""
    if os.geteuid() != 0:
        return
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


# Loaders.


def epochs(dataset, workers, count=2):
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(count):
        yield [(np.asarray(sample), label) for sample, label in loader]


def compare_with_source(dataset, originals, expected, workers):
    expect(dataset.classes == originals.classes, f"classes {dataset.classes}, want {originals.classes}")
    expect(dataset.class_to_idx == originals.class_to_idx, f"indices {dataset.class_to_idx}")
    expect(len(dataset) == len(originals), f"{len(dataset)} samples, want {len(originals)}")
    for epoch, samples in enumerate(epochs(dataset, workers)):
        for (got, label), (want, want_label), (path, _) in zip(samples, expected, dataset.samples):
            what = f"{path} (epoch {epoch}, {workers} workers)"
            expect(label == want_label, f"{what}: label {label}, want {want_label}")
            same_pixels(got, want, what)


def check_image_folder(mount, source, view, workers):
    """ImageFolder over a view that PIL reads: what it gives of the source."""
    originals = ImageFolder(source, transform=pil_to_tensor)
    expected = [(np.asarray(sample), label) for sample, label in originals]
    pictures = ImageFolder(os.path.join(mount, view), transform=pil_to_tensor)
    compare_with_source(pictures, originals, expected, workers)


def check_dataset_folder(mount, source, expected, folder, workers):
    """DatasetFolder with np.load over the default view: the stored samples."""
    originals = ImageFolder(source)
    want = [(np.load(os.path.join(expected, os.path.relpath(os.path.splitext(path)[0], source) + ".npy")), label)
            for path, label in originals.samples]
    arrays = DatasetFolder(os.path.join(mount, folder), loader=np.load, extensions=(".npy",))
    compare_with_source(arrays, originals, want, workers)


def check_read_image(mount, source, expected, view, workers):
    """torchvision.io.read_image over +png: the stored samples, channels first."""
    originals = ImageFolder(source)
    want = []
    for path, label in originals.samples:
        pixels = np.load(os.path.join(expected, os.path.relpath(os.path.splitext(path)[0], source) + ".npy"))
        want.append((pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1), label))
    tensors = DatasetFolder(os.path.join(mount, view), loader=torchvision.io.read_image, extensions=(".png",))
    compare_with_source(tensors, originals, want, workers)


# Forms.


def check_arrays(mount, expected):
    """Every .npy file is what np.save writes, by read, by every kind of map, in any order."""
    names = files_below(expected)
    expect(len(names) > 0, "nothing to compare")
    shuffled = random.Random(1).sample(names, len(names))
    for name in names + shuffled:
        path, want = os.path.join(mount, name), read(os.path.join(expected, name))
        same(read(path), want, name)
        expect(os.stat(path).st_size == len(want), f"{name}: st_size {os.stat(path).st_size}, want {len(want)}")
        array = np.load(os.path.join(expected, name))
        same_pixels(np.load(path), array, name)
        same_pixels(np.asarray(np.load(path, mmap_mode="r")), array, name + ' mmap_mode="r"')
        copy = np.load(path, mmap_mode="c")
        same_pixels(np.asarray(copy), array, name + ' mmap_mode="c"')
        copy.reshape(-1)[0] ^= 1
        same_pixels(np.load(path), array, name + " after a write to a private map")
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as shared:
            same(shared[:], want, name + " mapped shared")
    return len(names)


def check_offsets(mount, expected, direct=False, seed=1, count=200):
    """pread at random places, short reads at the end, nothing after it; with direct, past the page cache."""
    choose = random.Random(seed)
    names = files_below(expected)
    buffer = mmap.mmap(-1, 1 << 20)  # page-aligned, as O_DIRECT wants it
    for name in choose.sample(names, min(len(names), 12)):
        want = read(os.path.join(expected, name))
        fd = os.open(os.path.join(mount, name), os.O_RDONLY | (os.O_DIRECT if direct else 0))
        try:
            for _ in range(count // 12 + 1):
                if direct:
                    offset = choose.randrange(len(want)) // 4096 * 4096
                    length = choose.choice([4096, 65536, 1 << 20])
                    got = os.preadv(fd, [memoryview(buffer)[:length]], offset)
                    same(buffer[:got], want[offset:offset + length], f"{name} at {offset}, O_DIRECT")
                else:
                    offset, length = choose.randrange(len(want)), choose.choice([1, 100, 4096, 70000, 1 << 20])
                    same(os.pread(fd, length, offset), want[offset:offset + length], f"{name} at {offset}")
            if not direct:
                same(os.pread(fd, 4096, len(want) - 3), want[-3:], f"{name}, short read at the end")
            for past in (0, 4096, 1 << 20):
                expect(os.pread(fd, 100, -(-len(want) // 4096) * 4096 + past) == b"", f"{name}: bytes after the end")
        finally:
            os.close(fd)


def parse_netpbm(data):
    """A binary Netpbm file: magic, maxval and samples in the machine's order."""
    magic, size, maxval, body = data.split(b"\n", 3)
    width, height = map(int, size.split())
    channels = {b"P5": 1, b"P6": 3}[magic]
    kind = np.dtype(">u2") if int(maxval) > 255 else np.dtype("u1")
    samples = np.frombuffer(body, kind).astype(kind.newbyteorder("=")).reshape(height, width, channels)
    return int(maxval), samples[..., 0] if channels == 1 else samples


def parse_png(data):
    """A PNG with filter 0 in every row, read by the letter of the format."""
    expect(data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG signature")
    at, packed, head = 8, b"", b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
        expect(zlib.crc32(kind + body) == crc, f"CRC of {kind}")
        head = body if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, bits, colour, compression, filters, interlace = struct.unpack(">IIBBBBB", head)
    expect((compression, filters, interlace) == (0, 0, 0), "unusual PNG")
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1)
    expect(not rows[:, 0].any(), "a filter other than 0")
    kind = np.dtype(">u2") if bits == 16 else np.dtype("u1")
    samples = np.frombuffer(rows[:, 1:].tobytes(), kind).astype(kind.newbyteorder("="))
    return samples.reshape((height, width) if channels == 1 else (height, width, channels))


def saved(array):
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array))
    return file.getvalue()


def as_rgb(array):
    """The term rgb: grey repeated, alpha dropped, 16 bits by their high byte."""
    if array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    if array.ndim == 2:
        return np.stack([array] * 3, axis=-1)
    return np.stack([array[..., 0]] * 3, axis=-1) if array.shape[-1] == 2 else array[..., :3]


def check_forms(mount, expected, packed):
    """All forms of all photos against arrays that NumPy makes of the expected ones."""
    names = [name[:-4] for name in files_below(os.path.join(expected, "photos"))]
    for name in names:
        array = np.load(os.path.join(expected, "photos", name + ".npy"))
        first = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
        view = lambda terms, suffix: read(os.path.join(mount, f"photos{terms}", name + suffix))
        same(view("+npy", ".npy"), saved(array), name + " +npy")
        same(view("+chw", ".npy"), saved(first), name + " +chw")
        same(view("+raw", ".raw"), array.tobytes(), name + " +raw")
        same(view("+chw+raw", ".raw"), np.ascontiguousarray(first).tobytes(), name + " +chw+raw")
        same(view("+rgb", ".npy"), saved(as_rgb(array)), name + " +rgb")
        same(view("+raw+rgb", ".raw"), np.ascontiguousarray(as_rgb(array)).tobytes(), name + " +raw+rgb")
        same(view("+rgb+chw", ".npy"), saved(as_rgb(array).transpose(2, 0, 1)), name + " +rgb+chw")
        same(view("+3", ".npy"), saved(array), name + " +3")
        same_pixels(parse_png(view("+png", ".png")), array, name + " +png")
        same_pixels(parse_png(view("+rgb+png", ".png")), as_rgb(array), name + " +rgb+png")
        opaque = array if array.ndim == 2 else array[..., 0] if array.shape[-1] == 2 else array[..., :3]
        maxval, samples = parse_netpbm(view("+ppm", ".ppm"))
        expect(maxval == 255, f"{name} +ppm: maxval {maxval}")
        same_pixels(samples, opaque, name + " +ppm")
        same(view("+l3", ".l3"), read(os.path.join(packed, "photos", name + ".l3")), name + " +l3")
    return len(names)


def check_sixteen_bits(mount, expected):
    load = lambda name: np.load(os.path.join(expected, "deep", name + ".npy"))
    for name in ("grey", "plane", "colour"):
        array = load(name)
        got = np.load(os.path.join(mount, "deep", name + ".npy"))
        expect(got.dtype.str == "<u2", f"{name}: dtype {got.dtype.str}")
        same_pixels(got, array, name)
        maxval, samples = parse_netpbm(read(os.path.join(mount, "deep+ppm+16", name + ".ppm")))
        expect(maxval == 65535, f"{name} +ppm+16: maxval {maxval}")
        same_pixels(samples, array, name + " +ppm+16")
        same(read(os.path.join(mount, "deep+raw", name + ".raw")), array.astype("<u2").tobytes(), name + " +raw")
        same_pixels(parse_png(read(os.path.join(mount, "deep+png", name + ".png"))), array, name + " +png")
        same_pixels(np.load(os.path.join(mount, "deep+rgb", name + ".npy")), as_rgb(array), name + " +rgb")
    with Image.open(os.path.join(mount, "deep+png", "grey.png")) as image:
        same_pixels(np.asarray(image).astype(np.uint16), load("grey"), "grey +png through PIL")
    signed = np.load(os.path.join(mount, "deep", "signed.npy"))
    expect(signed.dtype.str == "<i2", f"signed: dtype {signed.dtype.str}")
    # What a form cannot hold is left out of its listing and is not there.
    for view, left in (("deep+ppm", {"grey", "plane", "colour", "signed", "two"}), ("deep+ppm+16", {"signed", "two"}), ("deep+png", {"signed", "two"})):
        listed = {os.path.splitext(name)[0] for name in os.listdir(os.path.join(mount, view))}
        missing = {"grey", "plane", "colour", "signed", "two"} - listed
        expect("signed" in missing and missing <= left, f"{view} lists {sorted(listed)}")
        for name in missing:
            suffix = ".png" if "png" in view else ".ppm"
            expect_errno(errno.ENOENT, f"{view}/{name}{suffix}", lambda: os.stat(os.path.join(mount, view, name + suffix)))


def check_original_names(mount, source, expected):
    """+orig has the tree under the names of the source, with PNG inside."""
    want = files_below(source)
    got = files_below(os.path.join(mount, "photos+orig"))
    expect(got == want, f"+orig lists {got}, want {want}")
    for name in want:
        stem = os.path.join(expected, "photos", os.path.splitext(name)[0] + ".npy")
        if os.path.exists(stem):
            same_pixels(parse_png(read(os.path.join(mount, "photos+orig", name))), np.load(stem), name + " +orig")


def check_copies(mount, expected, work):
    """cp -r, rsync -a and tar -S of a folder give the bytes that np.save wrote."""
    run = lambda *command, **more: subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **more)
    run("cp", "-r", mount, os.path.join(work, "cp"))
    os.mkdir(os.path.join(work, "rsync"))
    run("rsync", "-a", mount + "/", os.path.join(work, "rsync"))
    os.mkdir(os.path.join(work, "tar"))
    run("tar", "-C", mount, "-S", "-cf", os.path.join(work, "all.tar"), ".")
    run("tar", "-C", os.path.join(work, "tar"), "-xf", os.path.join(work, "all.tar"))
    for how in ("cp", "rsync", "tar"):
        copied = [name for name in files_below(os.path.join(work, how)) if name.endswith(".npy")]
        expect(copied == files_below(expected), f"{how} copied {copied}")
        for name in copied:
            same(read(os.path.join(work, how, name)), read(os.path.join(expected, name)), f"{name} copied by {how}")
    for name in files_below(os.path.join(work, "rsync")):
        before, after = os.stat(os.path.join(mount, name)), os.stat(os.path.join(work, "rsync", name))
        expect(int(before.st_mtime) == int(after.st_mtime), f"{name}: rsync -a did not keep the time")


# Load.


def fio(path, pattern, direct, block, jobs, invalidate=0):
    """Runs fio on one file; every block is compared with the header and checksum that fio wrote."""
    command = ["fio", "--readonly", "--name=read", f"--filename={path}", f"--rw={pattern}", f"--bs={block}",
               f"--size={os.path.getsize(path)}", f"--numjobs={jobs}", f"--invalidate={invalidate}", f"--direct={direct}",
               "--verify=crc32c", "--verify_interval=4096", "--verify_fatal=1", "--verify_state_load=0",
               "--verify_state_save=0", "--allow_file_create=0", "--group_reporting", "--output-format=json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    expect(done.returncode == 0, f"fio {pattern} direct={direct} bs={block} on {path}: status {done.returncode}: "
                                 f"{(done.stderr or done.stdout)[:1500]}")
    # Warnings may stand before the JSON.
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    want = os.path.getsize(path) * jobs
    expect(job["error"] == 0 and job["read"]["io_bytes"] >= want, f"fio read {job['read']['io_bytes']} bytes, want {want}")


def check_fio(mount, files, jobs):
    """Random and sequential, direct and not: each on a file that nobody has read, again, and when the kernel has forgotten it."""
    runs = [("randread", 0, "4k"), ("read", 0, "256k"), ("randread", 1, "64k"), ("read", 1, "256k"), ("randread", 0, "256k")]
    expect(files >= len(runs), "too few files for each run to begin cold")
    paths = [os.path.join(mount, f"{number}.raw") for number in range(len(runs))]
    for path, (pattern, direct, block) in zip(paths, runs):
        fio(path, pattern, direct, block, jobs)  # cold
        fio(path, pattern, direct, block, jobs)  # warm
        fio(path, pattern, direct, block, jobs, invalidate=1)  # without the kernel's pages of it
    check_drop_caches()
    for path, (pattern, direct, block) in zip(paths, runs):
        fio(path, pattern, direct, block, jobs)


def check_fio_sees_damage(path, work):
    """The check that the other checks stand on: one changed byte fails it."""
    data = bytearray(read(path))
    damaged = os.path.join(work, "damaged")
    for byte in (None, len(data) // 2):
        if byte is not None:
            data[byte] ^= 1
        with open(damaged, "wb") as file:
            file.write(data)
        try:
            fio(damaged, "randread", 0, "64k", 1)
        except AssertionError:
            expect(byte is not None, "fio refuses a file that is right")
        else:
            expect(byte is None, "fio takes a file that is wrong")


def check_one_decode(mount, name, expected, readers=32):
    """Many readers open one file that nobody has read; it is decoded once."""
    want = read(expected)
    before = stats(mount)
    start = multiprocessing.get_context("fork").Barrier(readers)

    def reader():
        start.wait()
        same(read(os.path.join(mount, name)), want, name)

    forked([reader] * readers)
    after = stats(mount)
    expect(after["decoded"] - before["decoded"] == 1, f"{after['decoded'] - before['decoded']} images decoded, want 1")
    expect(after["served"] - before["served"] == readers, f"{after['served'] - before['served']} opens served, want {readers}")
    return after["decoded"]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def settled(mount, right, seconds=10):
    """Waits until what the last close has set off is done: the kernel tells the daemon after close returned."""
    until = time.monotonic() + seconds
    while True:
        now = stats(mount)
        if right(now) or time.monotonic() > until:
            return now
        time.sleep(0.02)


def check_small_cache(mount, expected, budget, pid, rounds):
    """Reads more than the cache holds, again and again, while some files are held open and some mapped."""
    names = files_below(expected)
    sizes = {name: os.path.getsize(os.path.join(expected, name)) for name in names}
    expect(sum(sizes.values()) > 1.5 * budget, "too few files for this check")
    want = {name: hashlib.sha256(read(os.path.join(expected, name))).digest() for name in names}
    held = []  # (what was held, its name), the oldest first
    seen, worst = [], 0
    for round_number in range(rounds):
        for number, name in enumerate(random.Random(round_number).sample(names, len(names))):
            file = open(os.path.join(mount, name), "rb")
            if number % 3:  # so that not only the kernel's own pages are read from the second round on
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            expect(hashlib.sha256(file.read()).digest() == want[name], f"{name} in round {round_number}: wrong bytes")
            if number % 10 == 0:
                held.append((file, name))
            elif number % 10 == 5:
                held.append((mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ), name))
                file.close()  # the map alone keeps it
            else:
                file.close()
            if len(held) > 8:
                old, old_name = held.pop(0)
                old.seek(0)
                if not isinstance(old, mmap.mmap):  # so that the bytes must come from where the file is pinned
                    os.posix_fadvise(old.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                expect(hashlib.sha256(old.read()).digest() == want[old_name], f"{old_name}, held open: wrong bytes")
                old.close()
            if number % 7 == 0:
                pins = sum(-(-sizes[name] // 4096) * 4096 for name in {name for _, name in held})
                # One file more: the one closed last may still be known as open.
                bound = budget + pins + max(sizes.values()) + 4096
                now = settled(mount, lambda now: now["cache_bytes"] + now["pinned_bytes"] <= bound)
                worst = max(worst, now["cache_bytes"] + now["pinned_bytes"])
                if now["passthrough"] is True:  # else the kernel's pages may be all that a held file needs
                    expect(now["pinned_bytes"] >= sum(sizes[name] for name in {name for _, name in held}),
                           f"pinned_bytes {now['pinned_bytes']} is less than what is held open")
                expect(now["cache_bytes"] + now["pinned_bytes"] <= bound,
                       f"cache_bytes {now['cache_bytes']} + pinned_bytes {now['pinned_bytes']}, want at most {bound}")
        seen.append(descriptors(pid))
    # Which buffers are there changes from round to round, and with them the
    # descriptors of a cache that serves reads itself; their number must not grow.
    half = rounds // 2
    expect(max(seen[half:]) <= max(seen[:half]) + 8, f"descriptors of the daemon, round by round: {seen}")
    for old, _ in held:
        old.close()
    after = settled(mount, lambda now: now["pinned_bytes"] == 0)
    expect(after["pinned_bytes"] == 0, f"pinned_bytes {after['pinned_bytes']} after the last close")
    expect(after["cache_evictions"] > len(names) / 3, f"{after['cache_evictions']} evictions")
    return {"descriptors": seen, "worst_bytes": worst, "decoded": after["decoded"], "evictions": after["cache_evictions"]}


def check_open_and_close(mount, name, expected, others, seconds, openers=4):
    """Several processes open, read and close one file while others push it out of the cache."""
    want = {other: read(os.path.join(expected, other)) for other in [name, *others]}
    until = time.monotonic() + seconds
    before = stats(mount)
    opens = multiprocessing.get_context("fork").Value("q", 0)

    def read_anew(name, choose):
        fd = os.open(os.path.join(mount, name), os.O_RDONLY)
        try:
            if choose.random() < 0.5:  # so that it is read from the cache, and not only from pages that the kernel has kept
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            same(os.pread(fd, len(want[name]) + 1, 0), want[name], name)
        finally:
            os.close(fd)

    def opener():
        choose, count = random.Random(os.getpid()), 0
        while time.monotonic() < until:
            read_anew(name, choose)
            count += 1
            if choose.random() < 0.2:
                time.sleep(choose.random() * 0.004)  # so that at times nobody holds it
        with opens.get_lock():
            opens.value += count

    def evictor():
        choose = random.Random(os.getpid())
        while time.monotonic() < until:
            read_anew(choose.choice(others), choose)

    forked([opener] * openers + [evictor] * 2)
    after = stats(mount)
    expect(after["cache_evictions"] > before["cache_evictions"], "nothing was evicted: the check checked nothing")
    return {"opens": opens.value, "evictions": after["cache_evictions"] - before["cache_evictions"]}


def check_refused_registration(mount, expected, seconds):
    """Opens and reads everything from several processes while the kernel refuses to take some backing files."""
    want = {name: read(os.path.join(expected, name)) for name in files_below(expected)}
    names = sorted(want)
    until = time.monotonic() + seconds

    def reader():
        choose, held = random.Random(os.getpid()), []
        while time.monotonic() < until:
            name = choose.choice(names)
            fd = os.open(os.path.join(mount, name), os.O_RDONLY)
            held.append((fd, name))
            same(os.pread(fd, len(want[name]) + 1, 0), want[name], name)
            mapped = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
            same(mapped[:], want[name], name + " mapped")
            mapped.close()
            if len(held) > choose.randrange(4):
                fd, name = held.pop(choose.randrange(len(held)))
                same(os.pread(fd, len(want[name]) + 1, 0), want[name], name + " held open")
                os.close(fd)

    forked([reader] * 4)
    now = stats(mount)
    return {"decoded": now["decoded"], "errors": now["errors"], "passthrough": now["passthrough"]}


def check_pages_in_a_pipe(mount, expected, names, others, budget):
    """Bytes spliced into a pipe stay what they were after the file is closed and its buffer is gone."""
    pipes = []
    for name in names:
        reader, writer = os.pipe()
        size = ctypes.c_int(libc.fcntl(writer, 1031, 1 << 20)).value  # F_SETPIPE_SZ
        expect(size >= 1 << 16, "cannot enlarge a pipe")
        want = read(os.path.join(expected, name))
        fd = os.open(os.path.join(mount, name), os.O_RDONLY)
        moved = 0
        while moved < min(len(want), size // 2):
            got = os.splice(fd, writer, min(len(want), size // 2) - moved)
            expect(got > 0, f"{name}: splice ended at {moved}")
            moved += got
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel's own copy, if it has one
        os.close(fd)
        os.close(writer)
        pipes.append((reader, want[:moved], name))
    before = stats(mount)
    total = 0
    for _ in range(2):
        for other in others:
            total += len(read(os.path.join(mount, other)))
    after = stats(mount)
    evicted = (after["cache_evictions"] - before["cache_evictions"]) * os.path.getsize(os.path.join(expected, others[0]))
    expect(evicted > 2 * budget, f"only {evicted} bytes were evicted: the check checked nothing")
    for reader, want, name in pipes:
        with open(reader, "rb") as file:
            same(file.read(), want, f"{name} through a pipe")
    return {"spliced": sum(len(want) for _, want, _ in pipes), "read_between": total}


def check_signals(mount, expected):
    """Signals that a reader handles do not fail what can finish; by libc, since Python would try again itself."""
    names = files_below(expected)
    signals = [0]
    signal.signal(signal.SIGALRM, lambda *_: signals.__setitem__(0, signals[0] + 1))
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    failed = None
    for name in names:
        size = os.path.getsize(os.path.join(expected, name))
        buffer = ctypes.create_string_buffer(size)
        fd = libc.open(os.fsencode(os.path.join(mount, name)), os.O_RDONLY)
        got = libc.read(fd, buffer, size) if fd >= 0 else -1
        if got != size:
            failed = f"{name}: open {fd}, read {got}: {errno.errorcode.get(ctypes.get_errno())}"
            break
        libc.close(fd)
        if buffer.raw != read(os.path.join(expected, name)):
            failed = f"{name}: wrong bytes"
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    expect(failed is None, failed)
    expect(signals[0] > len(names), f"{signals[0]} signals came: the check checked nothing")
    return signals[0]


def replace(source, name, version):
    """Puts another version of a packed file into a source, as a careful writer does."""
    temporary = os.path.join(source, ".new")
    with open(temporary, "wb") as file:
        file.write(read(version))
    os.replace(temporary, os.path.join(source, name + ".l3"))


def check_replaced_source(mount, source, versions, expected):
    """A source file that is replaced gives its new bytes at the next open; open files keep what they had."""
    path = os.path.join(mount, "picture.npy")
    old = None
    for turn in range(9):
        number = (0, 1, 0, 1, 1, 0, 2, 0, 2)[turn]  # 0 and 1 have one shape, 2 another
        replace(source, "picture", os.path.join(versions, f"{number:03d}.l3"))
        want = read(os.path.join(expected, f"{number:03d}.npy"))
        with open(path, "rb") as file:
            same(file.read(), want, f"turn {turn}: version {number} at the next open")
        same_pixels(np.load(path, mmap_mode="r"), np.load(os.path.join(expected, f"{number:03d}.npy")), f"turn {turn}, mapped")
        expect(os.stat(path).st_size == len(want), f"turn {turn}: st_size {os.stat(path).st_size}, want {len(want)}")
        if old is not None:
            file, before, old_number = old
            same(os.pread(file.fileno(), len(before) + 1, 0), before, f"turn {turn}: version {old_number}, open since before")
            file.close()
        file = open(path, "rb", buffering=0)
        old = (file, want, number)
    old[0].close()


def check_held_while_replaced(mount, source, versions, expected, others):
    """Files that are open or mapped keep their bytes while their source is replaced, then removed, and memory is wanted."""
    path = os.path.join(mount, "picture.npy")
    want = read(os.path.join(expected, "000.npy"))
    same(read(path), want, "read before")  # so that the kernel may have its pages
    before = stats(mount)["cache_evictions"]
    for name in others:
        read(os.path.join(mount, name))
    expect(stats(mount)["cache_evictions"] > before, "nothing was evicted: the check checked nothing")
    with open(path, "rb", buffering=0) as file:
        mapped = np.load(path, mmap_mode="r")
        pixels = np.load(os.path.join(expected, "000.npy"))
        for what in ("replaced", "removed"):
            if what == "replaced":
                replace(source, "picture", os.path.join(versions, "001.l3"))
            else:
                os.unlink(os.path.join(source, "picture.l3"))
            for name in others:
                read(os.path.join(mount, name))
            check_drop_caches()
            same(os.pread(file.fileno(), len(want) + 1, 0), want, f"{what}: open since before")
            same_pixels(mapped, pixels, f"{what}: mapped since before")


# The tree.


def check_listing(mount, folders, files):
    """Listing and stat of many files decode nothing."""
    before = stats(mount)
    started = time.monotonic()
    listed = 0
    for folder in os.scandir(mount):
        expect(folder.is_dir(follow_symlinks=False), f"{folder.name} is no folder")
        for entry in os.scandir(folder.path):
            expect(entry.is_file(follow_symlinks=False) and entry.name.endswith(".npy"), f"{entry.name} is listed")
            listed += 1
    expect(listed == folders * files, f"{listed} files listed, want {folders * files}")
    seconds_listing = time.monotonic() - started
    started = time.monotonic()
    found = subprocess.run(["find", mount, "-type", "f", "-size", "+0", "-printf", "%s\n"], check=True, capture_output=True, text=True)
    sizes = found.stdout.split()
    expect(len(sizes) == folders * files and len(set(sizes)) == 1, f"find -size: {len(sizes)} files, sizes {sorted(set(sizes))[:5]}")
    after = stats(mount)
    for key in ("decoded", "served"):
        expect(after[key] == before[key], f"{key} rose by {after[key] - before[key]}")
    return {"listing_s": seconds_listing, "stat_s": time.monotonic() - started}


def check_long_listing(mount, files):
    """A plain listing reads no header; of ls -l few names come to be looked up one by one."""
    found = subprocess.run(["find", mount, "-name", "*.npy", "-type", "f"], check=True, capture_output=True, text=True).stdout.splitlines()
    before = stats(mount)
    expect(len(found) == files, f"find lists {len(found)} files")
    expect(before["store_bytes_index"] == 0, f"{before['store_bytes_index']} bytes of headers were read for a plain listing")
    lines = [line.split() for line in subprocess.run(["ls", "-l", mount], check=True, capture_output=True, text=True).stdout.splitlines()]
    sizes = {words[-1]: int(words[4]) for words in lines if words[-1].endswith(".npy")}
    requests = stats(mount)["requests"]
    lookups, attributes = (requests[key] - before["requests"][key] for key in ("lookup", "getxattr"))
    expect(lookups < files / 2, f"{lookups} lookups for {files} files")
    expect(attributes < 10, f"ls asked for extended attributes {attributes} times")
    wrong = [name for name, size in sizes.items() if size != os.stat(os.path.join(mount, name)).st_size]
    expect(len(sizes) == files and not wrong, f"{len(sizes)} sizes, wrong are {wrong[:3]}")
    for name in sorted(sizes)[-3:]: # those that were told, not looked up
        with open(os.path.join(mount, name), "rb") as file:
            expect(len(file.read()) == sizes[name], f"{name} has other bytes than ls says")
    return {"lookups": lookups}


def check_names_are_forgotten(mount, files, few):
    """More names than there is room for are looked up, again and again; the kernel forgets them, but for those in use."""
    before = stats(mount)
    names = sorted(name for name in os.listdir(mount) if name.endswith(".npy"))
    expect(len(names) == files and before["names_limit"] == few, f"{len(names)} names, {before['names_limit']} of them may be held")
    numbers = {name: os.stat(os.path.join(mount, name)).st_ino for name in names[:50]}
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(open(os.path.join(mount, name), "rb")) for name in names[:20]]
        content = held[0].read()
        view = mmap.mmap(held[1].fileno(), 0, prot=mmap.PROT_READ)
        stack.callback(view.close)
        for _ in range(2):
            subprocess.run(["du", "-s", mount], check=True, stdout=subprocess.DEVNULL)
            sizes = {os.stat(os.path.join(mount, name)).st_size for name in names}
            expect(sizes == {len(content)}, f"sizes {sorted(sizes)[:4]}, want {len(content)}")
        deadline = time.monotonic() + 30
        while (after := stats(mount))["names_held"] > few and time.monotonic() < deadline:
            time.sleep(0.05)
        expect(after["names_held"] <= few, f"{after['names_held']} names are held")
        # In a folder where somebody looks there may be twice as many.
        expect(after["names_asked_to_forget"] > files - 2 * few, f"only {after['names_asked_to_forget']} were to be forgotten")
        for file in held:
            file.seek(0)
            expect(file.read() == content, f"{file.name} has other bytes than before")
        expect(view[:] == content, "the map has other bytes than before")
    wrong = [name for name, number in numbers.items() if os.stat(os.path.join(mount, name)).st_ino != number]
    expect(not wrong, f"inode numbers have changed, of {wrong[:3]}")
    with open(os.path.join(mount, names[-1]), "rb") as file:
        expect(file.read() == content, "the last file cannot be read")
    return {"names_held": after["names_held"], "names_told": after["names_told"]}


def set_flags(path, command, value):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, command, value)
    finally:
        os.close(fd)


def rename_by(old, new, flags):
    at_cwd = -100
    if libc.renameat2(at_cwd, os.fsencode(old), at_cwd, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def check_read_only(mount, name, folder):
    """Whatever would change the file system is refused, root or not, and changes nothing."""
    path, folder, missing = os.path.join(mount, name), os.path.join(mount, folder), os.path.join(mount, "new")
    before = os.stat(path), sorted(os.listdir(mount))
    calls = {
        "unlink": lambda: os.unlink(path),
        "rmdir": lambda: os.rmdir(folder),
        "mkdir": lambda: os.mkdir(missing),
        "create": lambda: os.close(os.open(missing, os.O_CREAT | os.O_RDWR)),
        "open for writing": lambda: os.close(os.open(path, os.O_WRONLY)),
        "open for reading and writing": lambda: os.close(os.open(path, os.O_RDWR)),
        "open with O_TRUNC": lambda: os.close(os.open(path, os.O_RDWR | os.O_TRUNC)),
        "truncate": lambda: os.truncate(path, 0),
        "rename": lambda: os.rename(path, missing),
        "link": lambda: os.link(path, missing),
        "symlink": lambda: os.symlink("anywhere", missing),
        "mkfifo": lambda: os.mkfifo(missing),
        "chmod": lambda: os.chmod(path, 0o600),
        "chown": lambda: os.chown(path, 1, 1),
        "utime": lambda: os.utime(path, (0, 0)),
        "setxattr": lambda: os.setxattr(path, "user.prismfs.shape", b"1"),
        "removexattr": lambda: os.removexattr(path, "user.prismfs.shape"),
        "mknod": lambda: os.mknod(missing, 0o644 | stat.S_IFREG),
        "open with O_TMPFILE": lambda: os.close(os.open(mount, os.O_TMPFILE | os.O_RDWR)),
        "open with O_CREAT for reading": lambda: os.close(os.open(missing, os.O_CREAT | os.O_RDONLY)),
        "lchown": lambda: os.lchown(folder, 1, 1),
        "chmod of a folder": lambda: os.chmod(folder, 0o777),
        "setting file flags": lambda: set_flags(path, 0x40086602, bytes(8)),  # FS_IOC_SETFLAGS
        "setting file attributes": lambda: set_flags(path, 0x401C5820, bytes(28)),  # FS_IOC_FSSETXATTR
    }
    for flags in (1, 2, 4):  # RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT
        calls[f"rename with flags {flags}"] = lambda flags=flags: rename_by(path, folder if flags == 2 else missing, flags)
    for what, call in calls.items():
        expect_errno(errno.EROFS, what, call)
    for what in (path, folder, os.path.join(mount, ".prismfs/stats")):
        synced = os.open(what, os.O_RDONLY)
        os.fsync(synced)  # or it fails
        os.fdatasync(synced)
        os.close(synced)
    after = os.stat(path), sorted(os.listdir(mount))
    expect(after == before, "something changed")


def check_attributes(mount, source, packed, expected):
    """Sizes, blocks, times, inode numbers, modes and types of everything; statfs; extended attributes."""
    numbers = {}
    for at, folders, names in os.walk(mount, onerror=raise_it):
        listed = {entry.name: entry for entry in os.scandir(at)}
        for name in folders + names:
            path, entry = os.path.join(at, name), listed[name]
            info = os.stat(path)
            relative = os.path.relpath(path, mount)
            expect(info.st_ino != 0 and entry.inode() == info.st_ino, f"{relative}: d_ino {entry.inode()}, st_ino {info.st_ino}")
            expect(entry.is_dir(follow_symlinks=False) == stat.S_ISDIR(info.st_mode), f"{relative}: d_type")
            numbers[relative] = info.st_ino
            if stat.S_ISREG(info.st_mode):
                expect(info.st_blocks == -(-info.st_size // 512), f"{relative}: st_blocks {info.st_blocks} for {info.st_size} bytes")
                expect(info.st_blksize >= 4096, f"{relative}: st_blksize {info.st_blksize}")
                expect(info.st_nlink == 1, f"{relative}: st_nlink {info.st_nlink}")
            stored_name = os.path.join(packed, relative)
            if not os.path.exists(stored_name):
                stored_name = os.path.splitext(stored_name)[0] + ".l3"
            original = os.stat(stored_name)
            expect(info.st_mtime_ns == original.st_mtime_ns, f"{relative}: mtime {info.st_mtime_ns}, the source's {original.st_mtime_ns}")
            expect(stat.S_IMODE(info.st_mode) & 0o444 == stat.S_IMODE(original.st_mode) & 0o444,
                   f"{relative}: mode {stat.S_IMODE(info.st_mode):o}, the source's {stat.S_IMODE(original.st_mode):o}")
            expect((info.st_uid, info.st_gid) == (original.st_uid, original.st_gid), f"{relative}: owner")
    expect(len(set(numbers.values())) == len(numbers), "inode numbers are not unique")
    expect(not any(".prismfs" in name or "+" in name for name in numbers), "a hidden name is listed")
    space = os.statvfs(mount)
    expect(space.f_bsize > 0 and space.f_blocks > 0 and space.f_files > 0 and space.f_namemax >= 255, f"statfs: {space}")
    expect(space.f_flag & os.ST_RDONLY, "statfs does not say read-only")
    for name in ("README.txt", os.path.join("photos", "annotations.json")):
        same(read(os.path.join(mount, name)), read(os.path.join(source, name)), name)
    for name in files_below(expected):
        array = np.load(os.path.join(expected, name))
        attribute = lambda key: os.getxattr(os.path.join(mount, name), "user.prismfs." + key).decode()
        expect(json.loads("[" + attribute("shape").strip("()[]").rstrip(",") + "]") == list(array.shape), f"{name}: shape {attribute('shape')}")
        expect(np.dtype(attribute("dtype")) == array.dtype, f"{name}: dtype {attribute('dtype')}")
        size = os.path.getsize(os.path.join(packed, os.path.splitext(name)[0] + ".l3"))
        expect(int(attribute("encoded_bytes")) == size, f"{name}: encoded_bytes {attribute('encoded_bytes')}, want {size}")
    return numbers


def check_mode(mount, name, mode):
    info = os.stat(os.path.join(mount, name))
    expect(stat.S_IMODE(info.st_mode) == mode, f"{name}: mode {stat.S_IMODE(info.st_mode):o}, want {mode:o}")


def check_names(mount, expected):
    """Views by path, at any level, in any order; what is none is not there."""
    want = read(os.path.join(expected, "photos", "Brassica", "rgb.npy"))
    for path in ("photos/Brassica/rgb.npy", "+npy/photos/Brassica/rgb.npy", "photos+npy/Brassica/rgb.npy",
                 "photos/Brassica+npy/rgb.npy", "+3/photos/Brassica/rgb.npy", "photos+npy+3/Brassica/rgb.npy",
                 "photos+3+npy/Brassica/rgb.npy", "photos/Brassica/rgb+3.npy"):
        same(read(os.path.join(mount, path)), want, path)
    for path in ("+png/photos/Brassica/rgb.png", "photos/Brassica/rgb+rgb.npy", "+png+rgb/photos/canis/bits.png"):
        expect(os.stat(os.path.join(mount, path)).st_size > 0, path)
    for path in ("photos+nonsense", "photos+png+png", "photos+png+npy", "photos+png/Brassica+npy", "photos+0", "photos++png",
                 "photos+", "nothing+png", "photos/Brassica/rgb.png", "photos/Brassica/rgb.l3", "photos+png/Brassica/rgb.npy",
                 "photos+png+chw", "photos+jpg/Brassica/rgb.jpg", "photos/Brassica/rgb.npy/x"):
        expect_errno((errno.ENOENT, errno.ENOTDIR), path, lambda: os.stat(os.path.join(mount, path)))
    for hidden in ("stats", "version", "config", "log", "views"):
        expect(len(read(os.path.join(mount, ".prismfs", hidden))) > 0, f".prismfs/{hidden} is empty")


def check_links(mount):
    """Links inside the source are followed; links out of it, devices and sockets are not there to read."""
    listed = os.listdir(mount)
    same(read(os.path.join(mount, "inside.npy")), read(os.path.join(mount, "picture.npy")), "a link inside the source")
    expect(os.path.isdir(os.path.join(mount, "folder-link")), "a link to a folder inside the source")
    expect(not {"fifo", "socket"} & set(listed), f"special files are listed: {listed}")
    for name in ("outside.npy", "outside-folder", "fifo"):
        expect_errno((errno.ENOENT, errno.EACCES, errno.EPERM, errno.EIO, errno.EXDEV), name,
                     lambda: read(os.path.join(mount, name)))


def check_odd_names(mount, names, want):
    """Names are bytes: each is listed as it is and readable; want is the data of all of them."""
    listed = {entry for entry in os.listdir(os.fsencode(mount))}
    for name in names:
        name = bytes.fromhex(name)
        expect(name in listed, f"{name} is not listed")
        same(read(os.path.join(os.fsencode(mount), name)), read(want), repr(name))


def check_reference(mount, folder):
    """The files of the published encoder: right pixels or an error of that file alone."""
    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".l3"))
    good = [name for name in names if name.startswith(("ok-", "fixed-"))]
    bad = [name for name in names if name.startswith("bad-")]
    expect(len(good) > 0 and len(bad) > 0, "no reference files")
    for _ in range(2):
        for name in bad + good:
            path = os.path.join(mount, "+raw", name + ".raw")
            if name in bad:
                expect_errno(errno.EIO, f"reading {name}, which is inconsistent,", lambda: read(path))
            else:
                same(read(path), read(os.path.join(folder, name + ".rgb")), name)
    expect(stats(mount)["errors"] >= len(bad), "the errors are not counted")
    return {"good": len(good), "bad": len(bad)}


def check_bad_files(mount, expected, bad, good):
    """Damaged files give EIO; a listing and their neighbours do not mind."""
    listed = os.listdir(mount)
    for _ in range(2):
        for name in bad:
            expect_errno(errno.EIO, f"{name}, which is damaged,", lambda: read(os.path.join(mount, name)))
        for name, want in good.items():
            expect(name in listed, f"{name} is not listed")
            same(read(os.path.join(mount, name)), read(os.path.join(expected, want)), name)


def check_image_cases(mount, files, rows):
    """Small odd images: what PIL gives of them, or refused when they were packed."""
    compared = 0
    for row in rows:
        name, path = row["file"], os.path.join(mount, row["file"] + ".npy")
        if row["refused"]:
            expect(not os.path.exists(path), f"{name} was refused and is there")
            continue
        array = np.load(path)
        if array.dtype == np.uint16:
            with Image.open(os.path.join(files, name)) as image:
                same_pixels(array, np.asarray(image).astype(np.uint16), name)
        else:
            got = hashlib.sha256(np.ascontiguousarray(as_rgb(array)).tobytes()).hexdigest()
            expect(got == row["sha256"], f"{name} ({row['id']}): pixels differ from PIL's")
        compared += 1
    return compared


def check_stats(mount):
    """The statistics as they are, for the tests to look at."""
    return stats(mount)


def check_inodes(mount):
    """Inode numbers of everything, by path."""
    return {os.path.relpath(os.path.join(at, name), mount): os.stat(os.path.join(at, name)).st_ino
            for at, folders, names in os.walk(mount, onerror=raise_it) for name in folders + names}


# The server.


def answer(out, message):
    # One write: lines of several processes must not mix (PIPE_BUF is 4096 bytes).
    line = json.dumps(message).encode()
    if len(line) > 4000:
        message = {"id": message["id"], "error": "the answer is too long"}
        line = json.dumps(message).encode()
    os.write(out, line + b"\n")


def run_check(request, out):
    """In the forked process: runs the check and answers."""
    os.setsid()  # so that the tests can end it with all that it started
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    warnings.simplefilter("ignore")
    answer(out, {"id": request["id"], "pid": os.getpid()})
    try:
        name = "check_" + request["check"]
        check = globals().get(name) or next(getattr(module, name) for module in modules if hasattr(module, name))
        result = check(**request["args"])
        answer(out, {"id": request["id"], "ok": result})
    except BaseException as error:
        told = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        answer(out, {"id": request["id"], "error": told[-2500:]})


def serve():
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    running, pending = {}, b""
    answer(out, {"id": 0, "ok": "ready"})
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            while running:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                request = running.pop(pid)
                if status != 0:
                    answer(out, {"id": request["id"], "error": f"{request['check']} died: {os.waitstatus_to_exitcode(status)}"})
        if 0 in ready:
            got = os.read(0, 65536)
            if not got:
                break
            pending += got
            *lines, pending = pending.split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    os.close(wake)
                    os.close(waker)
                    run_check(request, out)
                    os._exit(0)
                running[pid] = request
    for pid in running:
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve()
