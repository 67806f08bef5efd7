"""The process that reads for benchmarks/pcr and benchmarks/echo: takes measurements in JSON, a line each.

It knows paths only. An epoch is the same for every kind of file: a PyTorch
DataLoader that shuffles, whose workers make of each image its middle, of
CROP × CROP pixels, as uint8, so that images of all sizes stack to batches.
"""

import io
import os
import statistics
import tarfile
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset
from torchvision.datasets import DatasetFolder, ImageFolder

import reader

CROP = 224
BATCH_IMAGES = 16


def middle(pixels):
    """CROP × CROP pixels of the middle; smaller images are repeated around their edges."""
    height, width = pixels.shape[:2]
    if height < CROP or width < CROP:
        pixels = np.pad(pixels, ((0, max(0, CROP - height)), (0, max(0, CROP - width)), (0, 0)), mode="wrap")
        height, width = pixels.shape[:2]
    top, left = (height - CROP) // 2, (width - CROP) // 2
    return torch.from_numpy(np.ascontiguousarray(pixels[top:top + CROP, left:left + CROP]))


def from_npy(path):
    return middle(np.load(path))


def from_picture(path):
    with open(path, "rb") as file:
        data = file.read()
    with Image.open(io.BytesIO(data)) as image:
        return middle(np.asarray(image.convert("RGB")))


def from_bytes(path):
    """The bytes alone, as a program reads them that decodes elsewhere."""
    with open(path, "rb") as file:
        return torch.tensor(len(file.read()))


LOADERS = {"npy": (from_npy, (".npy",)), "PIL": (from_picture, (".jpg", ".jpeg", ".png")), "bytes": (from_bytes, (".jpg", ".jpeg"))}


class Order:
    """A sampler whose order can be set while the workers of a loader run."""

    def __init__(self):
        self.chosen = []

    def __iter__(self):
        return iter(self.chosen)

    def __len__(self):
        return len(self.chosen)


def folder(root, kind):
    loader, extensions = LOADERS[kind]
    return DatasetFolder(root, loader=loader, extensions=extensions)


def shuffled(images, count, seed):
    """So many numbers of images, as a loader that shuffles takes them epoch after epoch."""
    order, rng = [], np.random.default_rng(seed)
    while len(order) < count:
        order.extend(rng.permutation(images).tolist())
    return order[:count]


def epoch(root, kind, workers, count, seed):
    """Seconds that it takes to load so many images, in an order of chance that is the same
    for the same seed. Listing the tree and starting the workers are not counted."""
    whole, order = folder(root, kind), Order()
    loader = DataLoader(whole, batch_size=BATCH_IMAGES, sampler=order, num_workers=workers, persistent_workers=workers > 0)
    for _ in loader:  # nothing yet, but the workers start
        raise RuntimeError("an empty order gave images")
    order.chosen = shuffled(len(whole), count, seed)
    started = time.perf_counter()
    seen = sum(len(images) for images, _ in loader)
    return {"seconds": time.perf_counter() - started, "count": seen}


class Shards(IterableDataset):
    """The .npy members of shards, one shard after the other."""

    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        for path in self.paths:
            with tarfile.open(path, "r|") as archive:
                for member in archive:
                    if member.name.endswith(".npy"):
                        yield middle(np.load(io.BytesIO(archive.extractfile(member).read())))


def shards(root):
    """Seconds that it takes to load the images of all shards of a folder, without workers."""
    paths = [os.path.join(root, name) for name in sorted(os.listdir(root)) if name.endswith(".tar")]
    started = time.perf_counter()
    seen = sum(len(images) for images in DataLoader(Shards(paths), batch_size=BATCH_IMAGES))
    return {"seconds": time.perf_counter() - started, "count": seen}


def shard_bytes(root, piece):
    """Seconds that it takes to read all shards of a folder from begin to end, and their bytes."""
    paths = [os.path.join(root, name) for name in sorted(os.listdir(root)) if name.endswith(".tar")]
    buffer, read = bytearray(piece), 0
    started = time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while n := file.readinto(buffer):
                read += n
    return {"seconds": time.perf_counter() - started, "bytes": read}


def decoding(root, count):
    """Milliseconds of processor time that PIL takes to decode an image that is in memory:
    the median over images spread over the tree."""
    paths = [path for path, _ in folder(root, "PIL").samples]
    taken = []
    for path in paths[::max(1, len(paths) // count)]:
        with open(path, "rb") as file:
            data = file.read()
        started = time.process_time()
        with Image.open(io.BytesIO(data)) as image:
            image.convert("RGB")
        taken.append((time.process_time() - started) * 1e3)
    return {"ms": statistics.median(taken)}


def differing(decoded, stored, count):
    """Names of images whose decoded form has not the pixels that PIL makes of the JPEG."""
    pairs = list(zip(folder(decoded, "npy").samples, folder(stored, "PIL").samples, strict=True))
    wrong = []
    for (array, label), (jpeg, label_there) in pairs[::max(1, len(pairs) // count)]:
        with Image.open(jpeg) as image:
            pixels = np.asarray(image.convert("RGB"))
        if label != label_there or not np.array_equal(pixels, np.load(array)):
            wrong.append(array)
    return {"differing": wrong}


def same_as_source(source, decoded, count):
    """Names of images of the source that are not what is decoded at full fidelity."""
    pairs = list(zip(ImageFolder(source).samples, folder(decoded, "npy").samples, strict=True))
    wrong = []
    for (jpeg, label), (array, label_there) in pairs[::max(1, len(pairs) // count)]:
        with Image.open(jpeg) as image:
            pixels = np.asarray(image.convert("RGB"))
        if label != label_there or not np.array_equal(pixels, np.load(array)):
            wrong.append(jpeg)
    return {"differing": wrong}


if __name__ == "__main__":
    reader.serve((epoch, shards, shard_bytes, decoding, differing, same_as_source, reader.text))
