"""The process that trains for benchmarks/training: takes runs in JSON, a line each.

It knows paths only. What it does with them is what any training script does:
torchvision's ImageFolder, transforms, a DataLoader with shuffle=True. Whether echoes
come out of the folder is the folder's affair; that fresh samples are counted by asking
the mount is all that is special.
"""

import contextlib
import hashlib
import json
import os
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

import reader

BATCH_IMAGES = 32
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
CROP_MARGIN = 3        # pixels that a random crop may move an image
MEAN, DEVIATION = 0.5, 0.25
TEST_BATCH_IMAGES = 250


def network(classes):
    """Three layers of convolutions: 26,000 parameters, 0.9 million multiplications an image."""
    def layer(inputs, outputs, stride):
        return [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layer(3, 16, 2), *layer(16, 32, 2), *layer(32, 64, 1), nn.AdaptiveMaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 4, classes))


NORMALIZE = [transforms.ToTensor(), transforms.Normalize([MEAN] * 3, [DEVIATION] * 3)]


def augmented(side):
    return transforms.Compose([transforms.RandomCrop(side, padding=CROP_MARGIN, padding_mode="reflect"),
                               transforms.RandomHorizontalFlip(), *NORMALIZE])


def whole(root):
    """All images of a folder and their labels, as two tensors."""
    dataset = ImageFolder(root, transform=transforms.Compose(NORMALIZE))
    images, labels = zip(*dataset, strict=True)
    return torch.stack(images), torch.tensor(labels)


def accuracy(model, images, labels):
    """The share of right answers. The model is left as it was, ready to go on training."""
    model.eval()
    with torch.no_grad():
        right = sum(int((model(x).argmax(1) == y).sum())
                    for x, y in zip(images.split(TEST_BATCH_IMAGES), labels.split(TEST_BATCH_IMAGES), strict=True))
    model.train()
    return right / len(labels)


class Fresh:
    """Counts the fresh samples among those that were read."""

    def __init__(self, stats):
        self.stats = stats  # of the mount, where the folder is an echo view; None: every read is fresh
        self.before = self.counted() if stats else 0
        self.reads = 0

    def counted(self):
        with open(self.stats, encoding="utf-8") as file:
            return json.load(file)["echo_fresh"]

    def count(self, read):
        """Fresh samples so far, now that so many more were read."""
        self.reads += read
        return self.counted() - self.before if self.stats else self.reads


def endless(loader):
    while True:
        yield from loader


def train(root, test, stats, seed, repeats, rate, fresh, check_every):
    """Trains until so many fresh samples were read, each batch used `repeats` times over,
    and measures the accuracy on the test folder at every multiple of check_every."""
    torch.manual_seed(seed)  # of the network, the order and the augmentation
    images, labels = whole(test)
    dataset = ImageFolder(root, transform=augmented(images.shape[-1]))
    model = network(len(dataset.classes))
    optimizer = torch.optim.SGD(model.parameters(), rate, MOMENTUM, weight_decay=WEIGHT_DECAY)
    loss_of = nn.CrossEntropyLoss()
    counter, curve, steps, started = Fresh(stats), [], 0, time.perf_counter()
    for x, y in endless(DataLoader(dataset, BATCH_IMAGES, shuffle=True, drop_last=True)):
        for _ in range(repeats):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
            steps += 1
        counted = counter.count(len(y))
        if counted >= check_every * (len(curve) + 1):
            curve.append({"fresh": counted, "reads": counter.reads, "steps": steps, "accuracy": accuracy(model, images, labels)})
            if counted >= fresh:
                return {"curve": curve, "seconds": time.perf_counter() - started}


def content(path):
    with Image.open(path) as image:
        return hashlib.blake2b(np.asarray(image.convert("RGB")).tobytes(), digest_size=16).hexdigest()


def served(source, root, stats, passes, seed):
    """Reads a folder in random order and recognizes every image by its pixels in the tree
    that it was packed from: how often each name was asked for, how often each source
    was served, how many were served under a label that is not theirs, and how many
    were fresh."""
    origin, labels = {}, {}
    for path, label in ImageFolder(source).samples:
        origin[content(path)] = name = os.path.relpath(path, source)
        labels[name] = label
    dataset = ImageFolder(root)
    counter, times, wrong = Fresh(stats), {}, []
    order = np.random.default_rng(seed)
    for _ in range(passes):
        for index in order.permutation(len(dataset)):
            path, label = dataset.samples[index]
            name = origin.get(content(path))
            if name is None or labels[name] != label:
                wrong.append(path)
            times[name] = times.get(name, 0) + 1
    reads = passes * len(dataset)
    return {"reads": reads, "fresh": counter.count(reads), "images": len(dataset), "served": len(times),
            "most": max(times.values()), "wrong": wrong}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        reader.serve((train, served, reader.text))
