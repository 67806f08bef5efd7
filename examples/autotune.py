#!/usr/bin/python3
"""Trains at the lowest fidelity whose gradients still point where those of full fidelity do.

    autotune.py [options] MOUNT/train+auto

MOUNT is a mount of PCR records, train+auto (or train+auto-NAME) a view of it whose
fidelity can be set. Before each epoch the gradients of a few batches are computed
at every fidelity and compared with those of the same images at full fidelity. The
smallest fidelity whose gradients have a cosine above 0.8 is set with `prismfs
fidelity`, and the epoch reads that many bytes. The datasets are torchvision's
ImageFolder, whose files are what changes.

The method is that of the paper on progressive compressed records (Kuchnik,
Smith and others, 2019), which tunes at run time so.
"""

import argparse
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import models, transforms
from torchvision.datasets import ImageFolder


def small_model(classes):
    """A few convolutions, for a look at the method without a GPU."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, classes))


MODELS = {"small": small_model, "resnet18": lambda classes: models.resnet18(num_classes=classes),
          "shufflenet": lambda classes: models.shufflenet_v2_x1_0(num_classes=classes)}


class Views:
    """The views of one folder of a mount: the one that can be set, and the same images at every fidelity."""

    def __init__(self, path, transform):
        parts = re.fullmatch(r"(.*)\+(auto(-[A-Za-z0-9_.-]+)?)", path.rstrip("/"))
        if parts is None:
            sys.exit(f"{path} does not end in +auto or +auto-NAME")
        self.base, self.path, self.transform = parts[1], path.rstrip("/"), transform
        self.train = self.images(self.path + "+png")
        self.fixed = {}

    def images(self, path):
        try:
            return ImageFolder(path, self.transform)
        except OSError as error:  # ImageFolder says by it, too, that there are no classes or no images
            sys.exit(f"{path} cannot be read as images in class folders; is {self.base} a folder of a mount, with classes in it? {error}")

    def at(self, fidelity):
        """The images at a fidelity, None being full; in the same order as those of train."""
        if fidelity not in self.fixed:
            terms = "+png" if fidelity is None else f"+{fidelity}+png"
            self.fixed[fidelity] = self.images(self.base + terms)
        return self.fixed[fidelity]

    def levels(self, indices):
        """The number of fidelities of some images."""
        return max(attribute(self.at(None).samples[i][0], "fidelity") for i in indices)

    def bytes(self, fidelity, indices):
        """What some images cost to read at a fidelity."""
        samples = self.at(fidelity).samples
        return sum(attribute(samples[i][0], "encoded_bytes") for i in indices)


def attribute(path, name):
    """A number that a mount tells of a file."""
    try:
        return int(os.getxattr(path, "user.prismfs." + name))
    except OSError as error:
        sys.exit(f"{path} has no attribute user.prismfs.{name}; is it in a mount of prismfs? {error.strerror}")


def gradient(model, loss, dataset, indices, options):
    """The mean gradient over batches of the given images, as one vector. The model stays as it is."""
    model = copy.deepcopy(model)  # normalisation layers keep averages
    model.train()
    batches = DataLoader(Subset(dataset, indices), batch_size=options.batch_size, num_workers=options.workers)
    for images, labels in batches:
        loss(model(images.to(options.device)), labels.to(options.device)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def choose(model, loss, views, options):
    """Prints how fidelities compare and returns the smallest that is good enough, None for full."""
    count = min(options.batches * options.batch_size, len(views.train))
    indices = random.sample(range(len(views.train)), count)
    full = gradient(model, loss, views.at(None), indices, options)
    whole = views.bytes(None, indices)
    chosen, levels = None, views.levels(indices)
    print(" fidelity  cosine  bytes")
    for k in range(1, levels):
        cosine = torch.cosine_similarity(full, gradient(model, loss, views.at(k), indices, options), dim=0).item()
        print(f"{k:>9}  {cosine:>6.4f}  {views.bytes(k, indices) / whole:>5.2f}")
        if chosen is None and cosine > options.threshold:
            chosen = k
            if not options.all:
                break
    return chosen


def set_fidelity(options, fidelity):
    text = "full" if fidelity is None else str(fidelity)
    try:
        done = subprocess.run([options.prismfs, "fidelity", options.view, text], check=False)
    except OSError as error:
        sys.exit(f"{options.prismfs} cannot be run ({error.strerror}); --prismfs names the command, such as bin/prismfs")
    if done.returncode != 0:
        sys.exit(f"the fidelity of {options.view} could not be set")  # the command has said why
    print(f"fidelity {text} is set for {options.view}", flush=True)


def train_epoch(model, loss, optimizer, views, options):
    """An ordinary epoch. It knows nothing of fidelities."""
    loader = DataLoader(views.train, batch_size=options.batch_size, shuffle=True, num_workers=options.workers)
    model.train()
    total, started = 0.0, time.perf_counter()
    for images, labels in loader:
        optimizer.zero_grad()
        error = loss(model(images.to(options.device)), labels.to(options.device))
        error.backward()
        optimizer.step()
        total += error.item() * len(labels)
    seconds = time.perf_counter() - started
    print(f"loss {total / len(views.train):.3f}, {len(views.train) / seconds:.0f} images/s")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("view", metavar="MOUNT/train+auto")
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet18")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=4, help="of which gradients are compared")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224, help="edge of the images as the model gets them, in pixels")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--threshold", type=float, default=0.8, help="least cosine of a fidelity that is good enough")
    parser.add_argument("--all", action="store_true", help="compare all fidelities, not only until one is good enough")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prismfs", default="prismfs", help="the command")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def main():
    options = parse()
    if shutil.which(options.prismfs) is None:
        sys.exit(f"there is no command {options.prismfs}; --prismfs names it, such as --prismfs bin/prismfs")
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    views = Views(options.view, transforms.Compose([
        transforms.Resize(options.size), transforms.CenterCrop(options.size), transforms.ToTensor()]))
    model = MODELS[options.model](len(views.train.classes)).to(options.device)
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(options.epochs):
        print(f"epoch {epoch}")
        set_fidelity(options, choose(model, loss, views, options))
        train_epoch(model, loss, optimizer, views, options)


if __name__ == "__main__":
    main()
