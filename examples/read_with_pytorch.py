#!/usr/bin/python3
"""Reads a mount of prismfs with PyTorch and compares it with the source images.

    read_with_pytorch.py SOURCE MOUNT

SOURCE is a folder of class folders of images, MOUNT a mount of what `prismfs
pack` made of it. Nothing here knows of prismfs but the paths: the datasets and
loaders are torchvision's and NumPy's own.
"""

import json
import os
import sys
import time

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.transforms.functional import pil_to_tensor


def epochs(dataset, workers, count):
    """Reads the whole dataset count times; yields the seconds and samples of each epoch."""
    # Samples stay as they are: the pictures differ in size, and torch has no unsigned 16 bits.
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0, collate_fn=tuple)
    for _ in range(count):
        started = time.perf_counter()
        samples = [(np.asarray(sample), label) for sample, label in loader]
        yield time.perf_counter() - started, samples


def as_stored(path):
    """The samples of an image file as PIL reads them, in the type that the file has."""
    with Image.open(path) as image:
        pixels = np.asarray(image)
    return pixels.astype(np.uint16) if image.mode.startswith("I") else pixels


def compare(name, samples, expected):
    """Ends the program if a pixel or a label differs."""
    if len(samples) != len(expected):
        sys.exit(f"{name}: {len(samples)} images, the source has {len(expected)}")
    for number, ((pixels, label), (right, right_label)) in enumerate(zip(samples, expected)):
        if label != right_label or pixels.shape != right.shape or pixels.dtype != right.dtype or (pixels != right).any():
            sys.exit(f"{name}: image {number} differs from the source")


def measure(name, dataset, expected):
    """Prints images per second, first and again, and again with two workers."""
    speeds = []
    for workers, skip in ((0, 0), (2, 1)):  # the first epoch of workers is the time that they take to start
        for number, (seconds, samples) in enumerate(epochs(dataset, workers, 2)):
            compare(name, samples, expected)
            if number >= skip:
                speeds.append(len(samples) / seconds)
    first, again, two = speeds
    print(f"  {name:<42} {first:>7.0f} {again:>7.0f} {two:>10.0f}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, mount = sys.argv[1:]

    originals = ImageFolder(source, transform=pil_to_tensor)
    pictures = ImageFolder(os.path.join(mount, "+png"), transform=pil_to_tensor)
    arrays = DatasetFolder(mount, loader=np.load, extensions=(".npy",))
    for dataset in (pictures, arrays):
        if dataset.class_to_idx != originals.class_to_idx:
            sys.exit(f"classes differ: {dataset.class_to_idx} and {originals.class_to_idx}")

    as_pictures = [(np.asarray(sample), label) for sample, label in originals]
    as_arrays = [(as_stored(path), label) for path, label in originals.samples]

    print(f"  {'images per second':<42} {'first':>7} {'again':>7} {'2 workers':>10}")
    measure("ImageFolder, the source files", originals, as_pictures)
    measure("ImageFolder, the mount as PNG (+png)", pictures, as_pictures)
    measure("DatasetFolder with np.load, the mount", arrays, as_arrays)
    print(f"  every pixel and label of {len(originals)} images equals what PIL reads from the source, in every epoch")

    with open(os.path.join(mount, ".prismfs", "stats")) as file:
        stats = json.load(file)
    print(f"  decoded {stats['decoded']} times for {stats['served']} opens; passthrough: {stats['passthrough']}")


if __name__ == "__main__":
    main()
