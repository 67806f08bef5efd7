"""The checks of plans: orders of reading that a loader hands over before it reads."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

import numpy as np

from reading import expect, forked, read, same_pixels, stats


def check_plan_images(folder, count, classes, height, width):
    """Makes images of one size in class folders."""
    for number in range(count):
        at = os.path.join(folder, f"class{number % classes}")
        os.makedirs(at, exist_ok=True)
        slope = (np.add.outer(np.arange(height) * (number % 5), np.arange(width) * (number % 3)))[..., None]
        picture = slope + np.array([number % 97, 40, 80]) + np.random.default_rng(number).integers(0, 4, (height, width, 3))
        np.save(os.path.join(at, f"{number:05d}.npy"), picture.astype(np.uint8))


def names_below(source):
    return sorted(os.path.join(folder, name) for folder in os.listdir(source) for name in os.listdir(os.path.join(source, folder)))


def hand_over(binary, mount, names, *flags):
    """Hands a plan over as a shell would."""
    done = subprocess.run([binary, "plan", mount, "-", *flags], input="\n".join(names), text=True, capture_output=True)
    expect(done.returncode == 0, f"prismfs plan: {done.stderr}")


def plans(binary, mount):
    return json.loads(subprocess.run([binary, "plan", mount, "--json"], capture_output=True, check=True).stdout)


def batches_of(names, worker, workers, batch):
    """What one worker of a loader reads: every so manyth batch, in order."""
    for begin in range(worker * batch, len(names), workers * batch):
        yield from names[begin:begin + batch]


def read_right(mount, source, names):
    for name in names:
        same_pixels(np.load(os.path.join(mount, name)), np.load(os.path.join(source, name)), name)


def difference(before, after, keys):
    return {key: after[key] - before[key] for key in keys}


def check_planned_readers(mount, source, binary, workers, batch, planned):
    """Workers read everything in a random order, as those of a loader do. Returns the statistics."""
    names = names_below(source)
    random.Random(1).shuffle(names)
    if planned:
        hand_over(binary, mount, names)
    forked([lambda w=w: read_right(mount, source, batches_of(names, w, workers, batch)) for w in range(workers)])
    return stats(mount)


def check_plan_again(mount, source, binary):
    """A reader that pauses, leaves the plan, and begins anew is followed; the images of a second plan are not made twice."""
    names = names_below(source)
    random.Random(2).shuffle(names)
    hand_over(binary, mount, names, "--name", "again", "--start", "10")
    read_right(mount, source, names[10:40])
    read_right(mount, source, names[200:205])
    read_right(mount, source, names[40:60])
    read_right(mount, source, names[300:340])  # it has jumped
    place = [p for p in plans(binary, mount) if p["name"] == "again"][0]
    expect(place["start"] == 10 and place["place"] == 340 and place["lines"] == len(names), f"the plan is at {place}")
    subprocess.run([binary, "plan", mount, "--remove", "--name", "again"], check=True)
    return stats(mount)


def check_plan_example(mount, source, binary, example):
    """The example of a loader reads everything, with plans and without a prismfs to hand them to. Returns what plans did."""
    count, before = len(names_below(source)), stats(mount)
    for command, workers in ((binary, 2), (os.path.join(source, "none"), 0)):
        done = subprocess.run([sys.executable, "-B", example, os.path.join(mount, "+png"), "--epochs", "1", "--size", "32",
                               "--workers", str(workers), "--prismfs", command], capture_output=True, text=True)
        expect(done.returncode == 0 and f"epoch 0: {count} images" in done.stdout, f"the example: {done.stdout} {done.stderr}")
        expect(("no plan" in done.stderr) == (command != binary), f"the example said {done.stderr}")
    return difference(before, stats(mount), ("plan_made", "plan_useful", "decoded"))


def check_plan_of_echoes(mount, source, binary, epochs):
    """A plan of an echo view decodes what its readers get, and no more. Returns what each epoch did."""
    names = names_below(source)
    of_class, did = {}, []
    for name in names:
        of_class.setdefault(os.path.dirname(name), set()).add(np.load(os.path.join(source, name)).tobytes())
    for epoch in range(epochs):
        before = stats(mount)
        random.Random(epoch).shuffle(names)
        hand_over(binary, mount, ["+echo2+seed5/" + name for name in names])
        for name in names:
            got = np.load(os.path.join(mount, "+echo2+seed5", name)).tobytes()
            expect(got in of_class[os.path.dirname(name)], f"{name} is of another class")
        did.append(difference(before, stats(mount), ("decoded", "plan_made", "plan_useful", "cache_misses")))
    return did


def resident(pid):
    """Bytes of a process's own memory."""
    with open(f"/proc/{pid}/status") as file:
        return int(dict(line.split(":", 1) for line in file)["RssAnon"].split()[0]) << 10


@contextlib.contextmanager
def connection(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        yield s


def say(path, head, pieces=()):
    """Sends a request in pieces and returns what is answered; who is refused may find the line dead."""
    with connection(path) as s:
        s.sendall(head)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                s.sendall(piece)
            s.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(1 << 16):
                answer += piece
        return answer


PUT = b"PUT /plan?name=mine HTTP/1.1\r\nHost: x\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def check_plan_rubbish(mount, source, binary, pid, bound):
    """Whatever is sent to the socket, a reader notices nothing, its plan stays, and the daemon's memory is bounded."""
    path = json.loads(read(os.path.join(mount, ".prismfs", "config")))["socket"]
    names = names_below(source)
    random.Random(3).shuffle(names)
    hand_over(binary, mount, names, "--name", "mine")
    failed, going = [], True

    def keep_reading():
        try:
            while going:
                read_right(mount, source, names)
        except BaseException as error:
            failed.append(error)

    reader = threading.Thread(target=keep_reading)
    reader.start()
    before, most = resident(pid), 0
    try:
        rng = random.Random(4)
        for head, pieces, want in (
            (b"rubbish\r\n\r\n", (), b"400"),
            (rng.randbytes(1 << 16), (), None),
            (PUT + b"Content-Length: 100000\r\n\r\n", (rng.randbytes(100000),), b" 400 "),
            (PUT + b"Content-Length: 9000\r\n\r\n", (b"x" * 9000,), b" 400 "),
            (PUT + b"Content-Length: 5000000000\r\n\r\n", (b"a/b.npy\n" * 1000,), b" 413 "),
            (PUT + b"Transfer-Encoding: chunked\r\n\r\n", (chunk(b"a\n" * (1 << 19)) for _ in range(1 << 11)), b" 413 "),
            (PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", (), b" 400 "),
            (PUT + b"Content-Length: 1000\r\n\r\n", (names[0].encode() + b"\n",), b" 400 "),  # and no more
        ):
            answer = say(path, head, pieces)
            expect(want is None or want in answer, f"{head[:80]}: {answer[:200]}")
            most = max(most, resident(pid))
        with contextlib.ExitStack() as many:
            for _ in range(40):  # some send half and stay, some vanish
                s = many.enter_context(connection(path))
                s.sendall(PUT + b"Content-Length: 1000\r\n\r\n" + names[0].encode())
            most = max(most, resident(pid))
        mine = [p for p in plans(binary, mount) if p["name"] == "mine"]
        expect([(p["name"], p["lines"]) for p in mine] == [("mine", len(names))], f"the plans are {mine}")
    finally:
        going = False
        reader.join()
    if failed:
        raise failed[0]
    expect(most - before < bound, f"the daemon took {(most - before) >> 20} MiB")
    expect(stats(mount)["errors"] == 0, f"{stats(mount)['errors']} errors")
    return {"taken_bytes": most - before}


def check_plan_of_many_lines(mount, source, binary, pid, lines):
    """A plan as long as ImageNet costs a few bytes a line. Returns how many."""
    names = names_below(source)
    before = resident(pid)
    hand_over(binary, mount, (names[i] if i < len(names) else f"train/n{i % 1000:08d}/n{i % 1000:08d}_{i}.JPEG.npy" for i in range(lines)), "--name", "long")
    after = resident(pid)
    read_right(mount, source, names[:100])
    place = [p for p in plans(binary, mount) if p["name"] == "long"][0]
    expect(place["lines"] == lines and place["read"] == 100, f"the plan is at {place}")
    return {"bytes_a_line": (after - before) / lines}


def check_read_ahead(mount, source):
    """Read-ahead serves a reader that goes through a folder, and hardly one that does not. Returns what it did for each."""
    keys = ("served", "cache_misses", "read_ahead_made", "read_ahead_useful", "decoded")
    folders = [[os.path.join(name, file) for file in sorted(os.listdir(os.path.join(source, name)))]
               for name in sorted(os.listdir(source))]
    random.Random(5).shuffle(folders[1])
    did = {}
    for what, names in (("in_order", folders[0]), ("shuffled", folders[1]), ("leaves", folders[2][:len(folders[2]) // 4])):
        before = stats(mount)
        read_right(mount, source, names)
        time.sleep(0.5)  # in which what was begun comes to its end
        did[what] = difference(before, stats(mount), keys)
    return did
