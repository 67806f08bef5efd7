"""Checks of what a mount does when its source goes wrong, and that nothing but the sample decides what a reader sees."""

import errno
import io
import os
import random

import numpy as np
from PIL import Image

from reading import expect, files_below, forked, read, same, same_pixels, stats


def check_faulty_reads(mount, expected, errors, broken=(), readers=4, tries=40, seed=1):
    """
    Readers that try again: every try gives the right bytes or one of the errors, nothing else.

    Files named in broken never come, all others do. Returns how often the daemon counted an error.
    """
    names = files_below(expected)
    want = {name: read(os.path.join(expected, name)) for name in names}
    allowed = {getattr(errno, name) for name in errors}

    def reader(number):
        choose = random.Random(seed * 1000 + number)
        for name in choose.sample(names, len(names)):
            came = False
            for _ in range(tries):
                try:
                    same(read(os.path.join(mount, name)), want[name], name)
                    came = True
                    break
                except OSError as error:
                    expect(error.errno in allowed, f"{name}: {error}, allowed are {errors}")
            expect(came != (name in broken), f"{name} {'came' if came else 'did not come'} in {tries} tries")

    forked([lambda number=number: reader(number) for number in range(readers)])
    return stats(mount)["errors"]


def pixels_of(path):
    """What NumPy or PIL, as the suffix has it, finds in a file."""
    if path.endswith(".npy"):
        return np.load(io.BytesIO(read(path)))
    with Image.open(io.BytesIO(read(path))) as image:
        return np.asarray(image)


def spelled(choose, name):
    """A path of the mount that shows a sample of a class folder, and what its form does to the pixels."""
    folder, file = os.path.split(name)
    stem = os.path.splitext(file)[0]
    suffix, terms, change = choose.choice([
        (".npy", ["npy"], lambda p: p), (".npy", [], lambda p: p), (".png", ["png"], lambda p: p),
        (".npy", ["chw"], lambda p: p[None] if p.ndim == 2 else p.transpose(2, 0, 1)),
        (".png", ["png", "rgb"], rgb), (".npy", ["rgb"], rgb), (".ppm", ["rgb", "ppm"], rgb),
    ])
    if choose.random() < 0.5 and terms:
        terms = terms + [str(choose.randint(1, 9))]  # L3 has one fidelity
    choose.shuffle(terms)
    plus = "".join("+" + term for term in terms)
    where = choose.choice(["root", "folder", "file"])
    if where == "file":
        return os.path.join(folder, stem + plus + suffix), change
    if where == "root" and plus:
        return os.path.join(plus, folder, stem + suffix), change
    return os.path.join(folder + plus, stem + suffix), change


def rgb(pixels):
    """Three channels whatever is stored, as the term rgb has it; of 8 bits."""
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.shape[2] < 3:
        pixels = np.repeat(pixels[..., :1], 3, axis=2)
    return pixels[..., :3]


def check_any_way(mount, expected, seed, readers=2, count=150):
    """Any spelling of a view, in any order, by several readers: the pixels of the sample."""
    names = [name for name in files_below(expected) if os.path.dirname(name)]
    want = {name: np.load(os.path.join(expected, name)) for name in names}
    names = [name for name in names if want[name].dtype == np.uint8 and (want[name].ndim == 2 or want[name].shape[2] != 2)]
    expect(len(names) > 10, f"only {len(names)} samples to choose from")

    def reader(number):
        choose = random.Random(f"{seed} {number}")
        for _ in range(count):
            name = choose.choice(names)
            path, change = spelled(choose, name)
            same_pixels(pixels_of(os.path.join(mount, path)), np.ascontiguousarray(change(want[name])), f"{path} (seed {seed})")

    forked([lambda number=number: reader(number) for number in range(readers)])
