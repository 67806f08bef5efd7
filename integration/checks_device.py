"""The checks of mounts whose images a device decodes."""

import os
import random
import subprocess
import time

import numpy as np
from torch.utils.data import DataLoader, Dataset

from reading import expect, files_below, forked, read, same, same_pixels, stats

VIEWS = ("", "+chw", "+raw")  # one that is decoded in place, one that is not, one without a head


class Arrays(Dataset):
    """Every file of a mount in every view, as an array and what it must be."""

    def __init__(self, mount, expected):
        self.mount, self.expected = mount, expected
        self.items = [(view, name) for view in VIEWS for name in files_below(expected)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        view, name = self.items[number]
        want = np.load(os.path.join(self.expected, name))
        folder, file = os.path.split(name)
        path = os.path.join(self.mount, folder + view, file)
        if view == "+raw":
            got = np.frombuffer(read(path[:-len("npy")] + "raw"), want.dtype)
            return path, got, want.reshape(-1)
        if view == "+chw":
            return path, np.load(path), want[None] if want.ndim == 2 else np.ascontiguousarray(want.transpose(2, 0, 1))
        return path, np.load(path), want


def epoch(dataset, workers, shuffle):
    """Reads everything once by workers of PyTorch."""
    count = 0
    for path, got, want in DataLoader(dataset, batch_size=None, num_workers=workers, shuffle=shuffle, collate_fn=lambda item: item):
        same_pixels(np.asarray(got), np.asarray(want), path)
        count += 1
    expect(count == len(dataset), f"{count} of {len(dataset)} samples came")


def cat_all(mount, expected, seed):
    """Reads everything once by another program, in an order of its own."""
    names = files_below(expected)
    random.Random(seed).shuffle(names)
    for name in names:
        said = subprocess.run(["cat", os.path.join(mount, name)], check=True, capture_output=True).stdout
        same(said, read(os.path.join(expected, name)), f"cat {name}")


def check_device_epochs(mount, expected, workers, rounds):
    """Workers of a loader and other programs read at the same time, in order and shuffled; every file is right."""
    dataset = Arrays(mount, expected)
    for number in range(rounds):
        forked([lambda: epoch(dataset, workers, shuffle=number % 2 == 0),
                lambda: cat_all(mount, expected, 2 * number), lambda: cat_all(mount, expected, 2 * number + 1)])
    return stats(mount)


def read_some(dataset, seed, count):
    """Reads some of the files in an order of its own."""
    for number in random.Random(seed).sample(range(len(dataset)), count):
        path, got, want = dataset[number]
        same_pixels(got, want, path)


def check_device_readers(mount, expected, readers, files):
    """Many processes read files that are not decoded, each a few of its own choice."""
    dataset = Arrays(mount, expected)
    forked([lambda seed=seed: read_some(dataset, seed, files) for seed in range(readers)])
    return stats(mount)


def check_device_comes_back(mount, expected, seconds):
    """A lost device is tried again while its mount is read, and takes up work again; every file is right all the time."""
    deadline = time.monotonic() + seconds
    dataset = Arrays(mount, expected)  # more than the cache holds
    while stats(mount)["device"]["state"] != "up":
        expect(time.monotonic() < deadline, f"the device was not taken into use again: {stats(mount)['device']}")
        epoch(dataset, workers=0, shuffle=True)
        time.sleep(0.2)
    before = stats(mount)["device"]["images"]
    epoch(dataset, workers=0, shuffle=True)
    after = stats(mount)["device"]
    expect(after["images"] > before, f"the device decodes nothing although it is back: {after}")
    return stats(mount)
