#!/usr/bin/python3
"""A job: reads all of a mounted dataset by PyTorch, with workers, and compares it with the source.

Usage: train_under_run.py EXPECTED STATUS. Exits with STATUS if all is right.
"""

import os
import sys

import numpy as np
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder

expected, status = sys.argv[1], int(sys.argv[2])
mount = os.environ["PRISMFS_MOUNT"]
dataset = DatasetFolder(mount, loader=np.load, extensions=(".npy",))
seen = 0
for (path, label), (array, got_label) in zip(dataset.samples, DataLoader(dataset, batch_size=None, num_workers=2)):
    want = np.load(os.path.join(expected, os.path.relpath(path, mount)))
    assert got_label == label, f"{path}: label {got_label}, want {label}"
    assert np.array_equal(np.asarray(array), want), f"{path} differs"
    seen += 1
assert seen > 0, "nothing to read"
assert os.getuid() == 65534, f"the user is {os.getuid()}"
print(f"{seen} images")
sys.exit(status)
