"""Reads as fsx does them: any call, anywhere, in any order, compared with the bytes that must come."""

import ctypes
import errno
import mmap
import os
import random
import select
import socket

from reading import expect, expect_errno, read, same, stats

PAGE = mmap.PAGESIZE


class Reader:
    """Open handles and maps of some files, and one step of any kind at a time."""

    def __init__(self, choose, wanted, scratch):
        self.choose, self.wanted, self.scratch = choose, wanted, scratch
        self.names = sorted(wanted)
        self.handles, self.maps = [], []  # [fd, name, position or None for O_DIRECT], [map, name]
        self.buffer = mmap.mmap(-1, 1 << 20)  # page-aligned, as O_DIRECT wants it
        self.pipe = os.pipe()
        self.counts = {}

    def place(self, name):
        """An offset and a length: mostly inside, odd, at edges of pages, at the end and past it."""
        size = len(self.wanted[name])
        offset = self.choose.choice([
            0, self.choose.randrange(size), self.choose.randrange(size) // PAGE * PAGE, self.choose.randrange(size) // PAGE * PAGE + 1,
            size - 1, size, size + self.choose.randrange(3 * PAGE), max(0, size - self.choose.randrange(2 * PAGE)),
        ])
        return offset, self.choose.choice([1, 2, 7, 511, PAGE - 1, PAGE, PAGE + 1, 65536, 200_001, self.choose.randrange(1, 300_000)])

    def part(self, name, offset, length):
        return self.wanted[name][offset:offset + length]

    def open(self):
        name = self.choose.choice(self.names)
        extra = self.choose.choice([0, 0, 0, os.O_NOATIME if os.geteuid() == 0 else 0, os.O_CLOEXEC, os.O_NONBLOCK])
        self.handles.append([os.open(name, os.O_RDONLY | extra), name, 0])

    def step(self):
        if not self.handles:
            self.open()
        kind = self.choose.choice([k for k in dir(self) if k.startswith("do_")])
        self.counts[kind[3:]] = self.counts.get(kind[3:], 0) + 1
        getattr(self, kind)(*self.choose.choice(self.handles))
        while len(self.handles) > 6:
            os.close(self.handles.pop(self.choose.randrange(len(self.handles)))[0])
        while len(self.maps) > 4:
            self.maps.pop(self.choose.randrange(len(self.maps)))[0].close()

    def moved(self, fd, by):
        for handle in self.handles:
            if handle[0] == fd:
                handle[2] += by

    def do_open(self, *_):
        self.open()

    def do_pread(self, fd, name, _):
        offset, length = self.place(name)
        same(os.pread(fd, length, offset), self.part(name, offset, length), f"{name}: pread {length} at {offset}")

    def do_read(self, fd, name, at):
        _, length = self.place(name)
        same(os.read(fd, length), self.part(name, at, length), f"{name}: read {length} at {at}")
        self.moved(fd, len(self.part(name, at, length)))

    def do_readv(self, fd, name, at):
        parts = [bytearray(self.choose.choice([1, 3, PAGE, 10_001])) for _ in range(self.choose.randrange(1, 6))]
        length = sum(map(len, parts))
        got = os.readv(fd, parts)
        same(b"".join(parts)[:got], self.part(name, at, length), f"{name}: readv {length} at {at}")
        self.moved(fd, got)

    def do_preadv(self, fd, name, _):
        offset, _ = self.place(name)
        parts = [bytearray(self.choose.choice([1, 3, PAGE, 10_001])) for _ in range(3)]
        length = sum(map(len, parts))
        got = os.preadv(fd, parts, offset)
        same(b"".join(parts)[:got], self.part(name, offset, length), f"{name}: preadv {length} at {offset}")

    def do_lseek(self, fd, name, at):
        size, (offset, _) = len(self.wanted[name]), self.place(name)
        whence = self.choose.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, os.SEEK_DATA, os.SEEK_HOLE])
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            if offset >= size:
                expect_errno(errno.ENXIO, f"{name}: seek for data or a hole at {offset} of {size}", lambda: os.lseek(fd, offset, whence))
                return
            got, want = os.lseek(fd, offset, whence), offset if whence == os.SEEK_DATA else size
        else:
            got, want = os.lseek(fd, offset - {os.SEEK_SET: 0, os.SEEK_CUR: at, os.SEEK_END: size}[whence], whence), offset
        expect(got == want, f"{name}: lseek to {offset} by {whence} gave {got}, want {want}")
        self.moved(fd, got - at)

    def do_dup(self, fd, name, at):
        other = os.dup(fd)
        try:
            same(os.read(other, 100), self.part(name, at, 100), f"{name}: read by a duplicate at {at}")
        finally:
            os.close(other)
        self.moved(fd, len(self.part(name, at, 100)))  # they share the position

    def do_reopen(self, fd, name, _):
        other = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        self.handles.append([other, name, 0])

    def do_map(self, fd, name, _):
        flags = self.choose.choice([mmap.MAP_SHARED, mmap.MAP_PRIVATE])
        mapped = mmap.mmap(fd, 0, flags, mmap.PROT_READ | (mmap.PROT_WRITE if flags == mmap.MAP_PRIVATE else 0))
        expect(len(mapped) == len(self.wanted[name]), f"{name}: a map of {len(mapped)} bytes")
        if flags == mmap.MAP_PRIVATE and self.choose.random() < 0.3:
            mapped[self.choose.randrange(len(mapped))] = 77  # nobody else may see it
            mapped.close()
            return
        self.maps.append([mapped, name])

    def do_touch(self, *_):
        if self.maps:
            mapped, name = self.choose.choice(self.maps)
            offset, length = self.place(name)
            same(mapped[offset:offset + length], self.part(name, offset, length), f"{name}: map at {offset}")

    def do_direct(self, fd, name, _):
        offset, length = self.place(name)
        offset, length = offset // PAGE * PAGE, self.choose.choice([PAGE, 16 * PAGE, 1 << 20])
        other = os.open(name, os.O_RDONLY | os.O_DIRECT)
        try:
            got = os.preadv(other, [memoryview(self.buffer)[:length]], offset)
            same(self.buffer[:got], self.part(name, offset, length), f"{name}: O_DIRECT {length} at {offset}")
        finally:
            os.close(other)

    def do_sendfile(self, fd, name, _):
        offset, length = self.place(name)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            length = min(length, 50_000)  # less than a socket's buffer
            sent = os.sendfile(ours.fileno(), fd, offset, length)
            got = b""
            while len(got) < sent:
                got += theirs.recv(1 << 16)
            want = self.part(name, offset, length)
            expect(sent > 0 or not want, f"{name}: sendfile at {offset} sent nothing")
            same(got, want[:sent], f"{name}: sendfile {length} at {offset}")

    def do_splice(self, fd, name, _):
        offset, length = self.place(name)
        moved = os.splice(fd, self.pipe[1], min(length, 30_000), offset_src=offset)
        got = os.read(self.pipe[0], moved) if moved else b""
        want = self.part(name, offset, min(length, 30_000))
        expect(moved > 0 or not want, f"{name}: splice at {offset} moved nothing")
        same(got, want[:moved], f"{name}: splice {length} at {offset}")

    def do_copy_file_range(self, fd, name, _):
        offset, length = self.place(name)
        with open(self.scratch, "w+b") as file:
            try:
                copied = os.copy_file_range(fd, file.fileno(), length, offset_src=offset, offset_dst=0)
            except OSError as error:
                # What Linux says of any two file systems of different kinds (since
                # 5.19; before it copied); cp and Python's shutil go on with read.
                expect(error.errno == errno.EXDEV, f"{name}: copy_file_range: {error}")
                return
            same(file.read(), self.part(name, offset, length)[:copied], f"{name}: copy_file_range {length} at {offset}")
            expect(copied > 0 or not self.part(name, offset, length), f"{name}: copy_file_range at {offset} copied nothing")

    def do_advise(self, fd, *_):
        advice = self.choose.choice([os.POSIX_FADV_DONTNEED, os.POSIX_FADV_WILLNEED, os.POSIX_FADV_RANDOM, os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_NORMAL])
        os.posix_fadvise(fd, 0, 0, advice)

    def do_fork(self, *_):
        """A child has all handles and maps, reads by them, and goes; what it did to positions stays."""
        if self.choose.random() < 0.9:
            return
        mine, theirs = os.pipe()
        seed = self.choose.random()
        pid = os.fork()
        if pid == 0:
            status, said = 1, b""
            try:
                self.choose = random.Random(seed)
                for fd, name, _ in self.handles:
                    self.do_pread(fd, name, 0)
                    self.do_splice(fd, name, 0)
                for _ in range(5):
                    self.do_touch()
                status = 0
            except BaseException as error:
                said = str(error).encode()[:2000]
            os.write(theirs, said)
            os._exit(status)
        os.close(theirs)
        with open(mine, "rb") as file:
            said = file.read().decode(errors="replace")
        expect(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, f"in a child: {said}")

    def do_poll(self, fd, *_):
        ready, _, _ = select.select([fd], [], [], 0)
        expect(ready == [fd], "a file is not ready for reading")

    def do_stat(self, fd, name, _):
        info = os.fstat(fd) if self.choose.random() < 0.5 else os.stat(name)
        expect(info.st_size == len(self.wanted[name]), f"{name}: st_size {info.st_size}")

    def close(self):
        for fd, _, _ in self.handles:
            os.close(fd)
        for mapped, _ in self.maps:
            mapped.close()


def check_random_reads(mount, files, scratch, seed, steps):
    """Steps of every kind on files, by what they must hold. What fails is told with its seed, and comes again with it."""
    wanted = {os.path.join(mount, name): read(path) for name, path in files.items()}
    reader = Reader(random.Random(seed), wanted, scratch)
    try:
        for number in range(steps):
            try:
                reader.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from None
    finally:
        reader.close()
    kinds = len([k for k in dir(reader) if k.startswith("do_")])
    expect(steps < 500 or len(reader.counts) == kinds, f"only {sorted(reader.counts)} were done")
    return {"steps": steps, "kinds": kinds}


PIECE = 128 << 10  # of the kernel's read-ahead, where nobody may raise it


def forgotten(fd):
    """Has the kernel drop its pages of a file."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def read_ahead_of_users(mount):
    """Has the kernel read ahead as little as in a mount of somebody who may not change that."""
    device = os.stat(mount).st_dev
    path = f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
    if os.access(path, os.W_OK):
        with open(path, "w", encoding="ascii") as file:
            file.write(str(PIECE >> 10))


def copied(pages, up):
    """A copy out of a map, page by page, from the start or from the end."""
    offsets = range(0, len(pages), PAGE)
    pieces = [pages[at:at + PAGE] for at in (offsets if up else reversed(offsets))]
    return b"".join(pieces if up else reversed(pieces))


def check_page_cache(mount, files, direct):
    """Where the daemon answers reads: the first open is read past the kernel's pages, the others fill them, whoever
    reads again asks nobody, and a file that keeps losing them is read past them again."""
    def counted(act):
        before = stats(mount)["requests"]["read"]
        act()
        return stats(mount)["requests"]["read"] - before - asking

    asking = 0  # what reading stats takes itself
    asking = counted(lambda: None)

    def read_twice(name, want):
        with open(os.path.join(mount, name), "rb", buffering=0) as file:
            forgotten(file.fileno())
            expect((first := counted(lambda: same(file.read(), want, f"{name}, without pages"))) >= 1, f"{name}: nobody was asked")
            file.seek(0)
            again = counted(lambda: same(file.read(), want, f"{name}, with pages"))
            return first, again

    read_ahead_of_users(mount)
    wanted = {name: read(path) for name, path in sorted(files.items())}
    for name, want in wanted.items():
        if direct:
            _, again = read_twice(name, want)
            expect(again > 0, f"{name}: the first open left pages behind")
        else:
            read(os.path.join(mount, name))
        first, again = read_twice(name, want)
        expect(again == 0, f"{name}: {again} requests for pages that are there")
        # A daemon that stores pages unasked waits in the kernel for those that were asked for meanwhile, and if it is
        # killed then, it never ends.
        expect(first >= len(want) // PIECE, f"{name}: {first} requests for {len(want)} bytes: the daemon stores pages unasked")
    *mapped, lost = wanted
    for name in mapped:
        want = wanted[name]
        with open(os.path.join(mount, name), "rb", buffering=0) as file:
            kept = counted(lambda: same(file.read(), want, f"{name}, opened again"))
            expect(kept == 0, f"{name}: {kept} requests at the next open: its pages are not kept")
            for up in (True, False):
                forgotten(file.fileno())
                with mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as pages:
                    same(copied(pages, up), want, f"{name}, a map {'up' if up else 'down'}")
    if direct:
        for _ in range(12):  # opens in whose beginning the pages are gone
            _, again = read_twice(lost, wanted[lost])
        expect(again > 0, f"{lost}: its pages are filled again and again")
    return {"reads": stats(mount)["requests"]["read"]}
