"""The process that reads: takes measurements in JSON, a line each, and answers likewise.

It stays for a whole run, so that importing torch counts nowhere, and it runs as
the user, and in the namespace, that sees the mount. It knows paths only: whether
a path is below a mount or a tmpfs, it reads in the same way.
"""

import json
import mmap
import os
import statistics
import sys
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder, ImageFolder

PAGE_BYTES = 4096
BATCH_IMAGES = 16


def timed(operation, paths, passes):
    """The median over all calls of operation(path), in seconds: where something else
    takes the processor, a few calls are long, and the median is not."""
    clock = time.perf_counter
    taken = []
    for _ in range(passes):
        for path in paths:
            started = clock()
            operation(path)
            taken.append(clock() - started)
    return {"seconds": statistics.median(taken)}


def sequential(paths, passes):
    """Opens a whole file and reads it into the same buffer as the others."""
    buffer = memoryview(bytearray(max(os.stat(path).st_size for path in paths)))

    def read(path):
        with open(path, "rb", buffering=0) as file:
            at = 0
            while n := file.readinto(buffer[at:]):
                at += n

    return timed(read, paths, passes)


def mapped(paths, how, passes):
    """Copies an array out of a map of its file: one that np.load makes for each copy, as
    a Dataset does that opens its files by item; one that mmap makes for each; or one
    that stays."""
    stay = {path: np.load(path, mmap_mode="r") for path in paths}
    offset = stay[paths[0]].offset
    into = np.zeros(stay[paths[0]].shape, np.uint8)
    for array in stay.values():
        np.copyto(into, array)
    if how == "stays":
        return timed(lambda path: np.copyto(into, stay[path]), paths, passes)
    stay.clear()
    del array
    if how == "np.load":
        return timed(lambda path: np.copyto(into, np.load(path, mmap_mode="r")), paths, passes)

    def copy(path):
        fd = os.open(path, os.O_RDONLY)
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as pages:
            # The array of a map must be gone before the map is closed.
            np.copyto(into, np.frombuffer(pages, np.uint8, offset=offset).reshape(into.shape))
        os.close(fd)

    return timed(copy, paths, passes)


def page(path):
    fd = os.open(path, os.O_RDONLY)
    os.pread(fd, PAGE_BYTES, 0)
    os.close(fd)


def opens(paths, passes):
    """Opens a file, reads a page of it and closes it."""
    return timed(page, paths, passes)


def stats(paths, passes):
    """Asks a file's attributes."""
    return timed(os.stat, paths, passes)


def loads(paths, passes):
    """Loads a file with np.load."""
    return timed(np.load, paths, passes)


def from_pil(image):
    return torch.from_numpy(np.array(image))


def from_npy(path):
    return torch.from_numpy(np.load(path))


def cpu_seconds():
    """Processor time of this process and of its children that ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def epoch(root, kind, workers):
    """One epoch of a DataLoader: each image to a uint8 tensor (H, W, 3), stacked to
    batches, and nothing else. Listing the tree is not counted, starting workers is."""
    if kind == "npy":
        dataset = DatasetFolder(root, loader=from_npy, extensions=(".npy",))
    else:
        dataset = ImageFolder(root, transform=from_pil)
    cpu, started = cpu_seconds(), time.perf_counter()
    count = sum(len(images) for images, _ in DataLoader(dataset, batch_size=BATCH_IMAGES, num_workers=workers))
    return {"seconds": time.perf_counter() - started, "cpu_seconds": cpu_seconds() - cpu, "count": count}


def differing(source, mount):
    """Names of images of the source (PNG) whose pixels the mount (.npy) does not have."""
    pairs = zip(ImageFolder(source).samples, DatasetFolder(mount, loader=np.load, extensions=(".npy",)).samples, strict=True)
    wrong = []
    for (original, label), (path, label_there) in pairs:
        with Image.open(original) as image:
            pixels = np.asarray(image)
        if label != label_there or not np.array_equal(pixels, np.load(path)):
            wrong.append(path)
    return {"differing": wrong}


def text(path):
    with open(path, encoding="utf-8") as file:
        return {"text": file.read()}


def serve(functions):
    """Answers requests on standard input by calling the function that each names."""
    measurements = {f.__name__: f for f in functions}
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = measurements[request.pop("measure")](**request)
        except Exception as error:  # the one who asked decides; this process goes on
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve((sequential, mapped, opens, stats, loads, epoch, differing, text))
