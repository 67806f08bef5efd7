#!/usr/bin/python3
"""Reads a stream of prismfs in PyTorch: shards of tar by the standard library, pictures by PIL.

    read_stream.py MOUNT/train+stream+seed7 [--epochs 2] [--workers 2]

Each worker reads every so manieth shard of an epoch, so that all of them together
have each sample once; with several processes, give each a view of its own that
ends in +rank0of8, +rank1of8 and so on. The order is another one in each epoch and
the same in each run: to resume, begin with the epoch and the shard where it ended.
"""

import argparse
import io
import os
import tarfile

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def decode(name, data):
    """The array of a member that is an image."""
    suffix = os.path.splitext(name)[1]
    if suffix == ".npy":
        return torch.from_numpy(np.load(io.BytesIO(data)))
    if suffix in (".png", ".jpg", ".ppm"):
        with Image.open(io.BytesIO(data)) as image:
            return torch.from_numpy(np.array(image))
    raise SystemExit(f"{name} is none of .npy, .png, .jpg and .ppm: give a view of another form, such as train+stream or train+png+stream")


class Stream(IterableDataset):
    """The samples of one epoch of a stream: arrays and labels, -1 where a sample has none."""

    def __init__(self, stream, epoch, first_shard=0):
        folder = os.path.join(stream, f"epoch-{epoch:04d}")
        self.shards = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".tar")][first_shard:]

    def __iter__(self):
        worker = get_worker_info()
        for shard in self.shards[worker.id::worker.num_workers] if worker else self.shards:
            with tarfile.open(shard, "r|") as archive:
                pixels = None
                for member in archive:
                    data = archive.extractfile(member).read()
                    if member.name.endswith(".cls"):
                        yield pixels, int(data)
                        pixels = None
                        continue
                    if pixels is not None:
                        yield pixels, -1
                    pixels = decode(member.name, data)
                if pixels is not None:
                    yield pixels, -1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stream")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    for epoch in range(args.epochs):
        # batch_size=None: the images may differ in size. Crop them, then let the loader make batches.
        samples = list(DataLoader(Stream(args.stream, epoch), batch_size=None, num_workers=args.workers))
        labels = sorted({label for _, label in samples})
        print(f"epoch {epoch}: {len(samples)} samples, labels {labels}")


if __name__ == "__main__":
    main()
