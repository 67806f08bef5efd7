"""Readers of more than there is memory for, in a memory cgroup with the daemon or beside it."""

import errno
import hashlib
import mmap
import os
import random

from checks_killed import Reader, map_and_close
from reading import expect, read, stats

PIECE = 256 << 10


def join(group):
    if group:
        with open(os.path.join(group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))


def digest(data):
    return hashlib.sha256(data).digest()


def digest_of(path):
    """Of a file, read in pieces: a reader has no room for whole ones."""
    sum = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            sum.update(piece)
    return sum.digest()


def check_readers_within(mount, names, expected, hold, group, each, readers=8):
    """
    names are those of files of the mount, which have the bytes of expected in turn. One process holds the first ones,
    of hold bytes together, mapped all the time, half of them closed; the readers read them all between them, and each
    as many files as that says.

    Returns how many opens failed for want of memory.
    """
    want = [digest(read(path)) for path in expected]
    sizes = [os.stat(path).st_size for path in expected]
    right = {name: want[at % len(want)] for at, name in enumerate(names)}

    def holder(pipe):
        join(group)
        maps, held, refused = {}, 0, 0
        for at, name in enumerate(names):
            if held >= hold:
                break
            size = sizes[at % len(sizes)]
            with open(os.path.join(mount, name), "rb") as file:
                maps[name] = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) if at % 2 else map_and_close(file.fileno(), size)
            held += size
            expect(digest(maps[name][:]) == right[name], f"{name}: wrong bytes in a map")
        pipe.send(("busy", held))
        pipe.recv()
        for name, held in maps.items():
            expect(digest(held[:]) == right[name], f"{name}: wrong bytes in a map that was held")
        return refused

    def reader(number):
        def work(pipe):
            join(group)
            refused = 0
            choose, mine = random.Random(number), names[number::readers]
            mine += choose.sample(names, each - len(mine))
            choose.shuffle(mine)
            for name in mine:
                try:
                    got = digest_of(os.path.join(mount, name))
                except OSError as error:
                    expect(error.errno == errno.ENOMEM, f"{name}: {error}")
                    refused += 1
                    continue
                expect(got == right[name], f"{name}: wrong bytes")
            return refused
        return work

    holding = Reader("holder", holder)
    others = []
    try:
        held = holding.told(200)[1]
        expect(held >= hold, f"{held} bytes are held")
        others = [Reader(f"reader {number}", reader(number)) for number in range(readers)]
        refused = sum(other.end(200) for other in others)
        holding.pipe.send("enough")
        holding.end(200)
        now = stats(mount)
        return {"refused": refused, "held": held, "decoded": now["decoded"], "evictions": now["cache_evictions"], "budget": now["cache_budget_bytes"]}
    finally:
        for other in [holding, *others]:
            other.kill()
