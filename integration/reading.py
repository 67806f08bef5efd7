"""What the checks of this folder share: reading, comparing, forking."""

import errno
import json
import os
import traceback

import numpy as np


def read(path):
    with open(path, "rb") as file:
        return file.read()


def stats(mount):
    return json.loads(read(os.path.join(mount, ".prismfs", "stats")))


def files_below(folder):
    """Paths of all files below a folder, relative to it, sorted by their bytes."""
    found = []
    for at, _, names in os.walk(folder, onerror=raise_it):
        found += [os.path.relpath(os.path.join(at, name), folder) for name in names]
    return sorted(found, key=os.fsencode)


def raise_it(error):
    raise error


def same(got, want, what):
    """Raises unless two byte strings are equal; says where they part."""
    if got == want:
        return
    if len(got) != len(want):
        raise AssertionError(f"{what}: {len(got)} bytes, want {len(want)}")
    at = int(np.flatnonzero(np.frombuffer(got, np.uint8) != np.frombuffer(want, np.uint8))[0])
    raise AssertionError(f"{what}: byte {at} of {len(want)} is {got[at]}, want {want[at]}")


def same_pixels(got, want, what):
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{what}: {got.shape} {got.dtype}, want {want.shape} {want.dtype}")
    same(np.ascontiguousarray(got).tobytes(), np.ascontiguousarray(want).tobytes(), what)


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def forked(works):
    """Runs functions at the same time, each in a process; raises what the first to fail raised."""
    children = []
    for work in works:
        mine, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                os.write(theirs, traceback.format_exc().encode()[-3000:])
            finally:
                os._exit(status)
        os.close(theirs)
        children.append((pid, mine))
    failed = []
    for pid, pipe in children:
        with open(pipe, "rb") as file:
            said = file.read().decode(errors="replace")
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
            failed.append(said or f"process {pid} died")
    if failed:
        raise AssertionError(f"{len(failed)} of {len(children)} processes failed; the first: {failed[0]}")


def expect_errno(want, what, call):
    """Raises unless call fails with one of the numbers."""
    want = want if isinstance(want, tuple) else (want,)
    try:
        call()
    except OSError as error:
        expect(error.errno in want, f"{what}: {error}, want {[errno.errorcode[w] for w in want]}")
        return
    raise AssertionError(f"{what} succeeded, want {[errno.errorcode[w] for w in want]}")
