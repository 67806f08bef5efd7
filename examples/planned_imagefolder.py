#!/usr/bin/python3
"""Reads a folder of a mount in random order, and tells the mount the order of each epoch beforehand.

    planned_imagefolder.py MOUNT/train+png [--epochs 2] [--workers 2] [--prismfs bin/prismfs]

The dataset is torchvision's ImageFolder and the loader is PyTorch's, both as they
are. What is added is PlannedSampler: it draws the permutation of an epoch before
the epoch and hands it over, by `prismfs plan`, and the mount decodes along it. Where
there is no mount, or no prismfs, it is an ordinary random sampler.

A job of several ranks gives each a plan of its own: name="rank3", and the indices of
that rank, such as list(DistributedSampler(...)), in place of the permutation. One that
resumes in mid-epoch passes start=: the number of samples that were read.
"""

import argparse
import os
import subprocess
import sys
import time

import torch
from torch.utils.data import DataLoader, Sampler
from torchvision import transforms
from torchvision.datasets import ImageFolder


class PlannedSampler(Sampler):
    """A random order of the samples of an ImageFolder, another one in each epoch."""

    def __init__(self, dataset, mount, seed=0, name="default", prismfs="prismfs"):
        self.paths = [path for path, _ in dataset.samples]
        self.mount, self.name, self.prismfs = mount, name, prismfs
        self.generator = torch.Generator().manual_seed(seed)
        self.start = 0  # of the next epoch: samples to leave out, since they were read before a restart

    def __len__(self):
        return len(self.paths)

    def __iter__(self):
        order = torch.randperm(len(self.paths), generator=self.generator).tolist()
        self.hand_over(order)
        begin, self.start = self.start, 0
        yield from order[begin:]

    def hand_over(self, order):
        """Tells the mount; a job goes on without a plan, only slower.

        Where many ranks do it at the same time the command waits for its turn.
        """
        plan = "".join(self.paths[i] + "\n" for i in order)
        command = [self.prismfs, "plan", self.mount, "-", "--name", self.name, "--start", str(self.start)]
        try:
            done = subprocess.run(command, input=plan.encode(), capture_output=True, check=False)
        except OSError as error:
            print(f"no plan: {self.prismfs}: {error.strerror}", file=sys.stderr)
            return
        if done.returncode != 0:
            print(f"no plan: {done.stderr.decode().strip()}", file=sys.stderr)


def mount_point(path):
    """The mount that a path lies in."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="MOUNT/train+png")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224, help="edge of the images as a model gets them, in pixels")
    parser.add_argument("--prismfs", default="prismfs", help="the command")
    options = parser.parse_args()
    dataset = ImageFolder(os.path.realpath(options.folder), transforms.Compose([
        transforms.RandomResizedCrop(options.size), transforms.ToTensor()]))
    sampler = PlannedSampler(dataset, mount_point(options.folder), prismfs=options.prismfs)
    loader = DataLoader(dataset, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers)
    for epoch in range(options.epochs):
        started, images = time.perf_counter(), 0
        for batch, _ in loader:
            images += len(batch)  # here a model would be trained
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: {images} images, {images / seconds:.0f} a second")


if __name__ == "__main__":
    main()
