"""One of the processes that read for benchmarks/plain: takes requests in JSON, a line each,
and answers likewise.

It is small, since several of them run at once. It knows paths only, and reads below a
mount as below a tmpfs.
"""

import hashlib
import json
import mmap
import os
import sys
import time

PIECE_BYTES = 128 << 10

buffer = memoryview(bytearray(1))


def whole(path, size):
    """All of a file by one read(2), or as many as it takes."""
    fd = os.open(path, os.O_RDONLY)
    at = 0
    while at < size:
        at += os.readv(fd, [buffer[at:size]])
    os.close(fd)


def pieces(path, size):
    """All of a file by pieces, as buffered readers and shutil.copyfileobj have it."""
    fd = os.open(path, os.O_RDONLY)
    for at in range(0, size, PIECE_BYTES):
        os.readv(fd, [buffer[at:min(at + PIECE_BYTES, size)]])
    os.close(fd)


def mapped(path, size):
    """A copy out of a map of the file."""
    fd = os.open(path, os.O_RDONLY)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as pages, memoryview(pages) as view:
        buffer[:size] = view
    os.close(fd)


WAYS = {"read whole": whole, "pieces of 128 KiB": pieces, "mmap": mapped}


def forget(paths):
    """Has the kernel drop its pages of the files."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def recycle(size):
    """Has the kernel own free memory for as many bytes: a hypervisor may have taken away
    what was free, and getting it back costs more than what is measured."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size, flags=flags).close()


def prepare(paths):
    """Lets the kernel know the names, which is not measured, and has a buffer for the largest file."""
    global buffer
    largest = max(os.stat(path).st_size for path in paths)
    if largest > len(buffer):
        buffer = memoryview(bytearray(largest))
        buffer[:] = bytes(largest)
    return {}


def read(paths, way, at, drop):
    """Reads the files in turn, beginning at a time of the monotonic clock; seconds for each."""
    take, clock, taken = WAYS[way], time.perf_counter, []
    sizes = [os.stat(path).st_size for path in paths]
    recycle(sum(sizes) * 5 // 4)
    if drop:
        forget(paths)
    time.sleep(max(0, at - time.monotonic()))
    used = time.process_time()
    for path, size in zip(paths, sizes, strict=True):
        started = clock()
        take(path, size)
        taken.append(clock() - started)
    return {"seconds": taken, "cpu_seconds": time.process_time() - used}


def digests(paths):
    """A checksum of each file."""
    found = []
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            found.append(hashlib.blake2b(file.read(), digest_size=16).hexdigest())
    return {"digests": found}


def text(path):
    with open(path, encoding="utf-8") as file:
        return {"text": file.read()}


def main():
    functions = {f.__name__: f for f in (prepare, read, digests, text)}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = functions[request.pop("measure")](**request)
        except Exception as error:  # the one who asked decides; this process goes on
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
