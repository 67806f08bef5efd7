#!/usr/bin/python3 -B
"""Draws the labelled images of the training experiment: ten kinds of things that a small
network learns to tell apart in some thousand steps, the easy ones first.

    training_images.py DIRECTORY [--train N] [--test N] [--seed N]

writes DIRECTORY/train/CLASS/NUMBER.png and DIRECTORY/test/CLASS/NUMBER.png. Each class
has an outline of its own. Its colour and its pattern are hints that mislead now and
then: the hue varies as widely as the classes are apart, and three classes share each
pattern. Size, place, turn, background, contrast and noise are drawn by lot for every
image, and lines and fragments lie behind and before the thing. Mirroring an image
leaves its class as it is. The same seed gives the same images; no two are the same.
"""

import argparse
import colorsys
import concurrent.futures
import functools
import math
import os
import zlib

import numpy as np
from PIL import Image, ImageDraw

SIDE = 32
OVERSAMPLING = 4  # things are drawn so much larger, and then scaled down, for smooth edges


def regular(corners, turn=0.0):
    return [(math.sin(turn + 2 * math.pi * i / corners), -math.cos(turn + 2 * math.pi * i / corners)) for i in range(corners)]


def crescent():
    outer = [(math.sin(a), -math.cos(a)) for a in np.linspace(0.75, 2 * math.pi - 0.75, 30)]
    inner = [(0.45 + 0.78 * math.sin(a), -0.86 * math.cos(a)) for a in np.linspace(2 * math.pi - 0.95, 0.95, 30)]
    return outer + inner


def star():
    return [((1, 0.45)[i % 2] * x, (1, 0.45)[i % 2] * y) for i, (x, y) in enumerate(regular(10))]


def plus(a=0.32):
    return [(-a, -1), (a, -1), (a, -a), (1, -a), (1, a), (a, a), (a, 1), (-a, 1), (-a, a), (-1, a), (-1, -a), (-a, -a)]


# Outlines in a circle of radius 1, y downwards. None is another one's mirror image or turn.
SHAPES = {
    "arrow": [(0, -1), (0.75, -0.1), (0.28, -0.1), (0.28, 0.95), (-0.28, 0.95), (-0.28, -0.1), (-0.75, -0.1)],
    "crescent": crescent(),
    "disc": regular(40),
    "hourglass": [(-0.75, -0.9), (0.75, -0.9), (0.16, 0), (0.75, 0.9), (-0.75, 0.9), (-0.16, 0)],
    "house": [(0, -1), (0.85, -0.2), (0.6, -0.2), (0.6, 0.8), (-0.6, 0.8), (-0.6, -0.2), (-0.85, -0.2)],
    "pentagon": regular(5),
    "plus": plus(),
    "square": regular(4, math.pi / 4),
    "star": star(),
    "triangle": regular(3),
}
CLASSES = sorted(SHAPES)

HUE_DEVIATION = 0.10       # of the circle of hues, on which the classes are 0.1 apart
PATTERN_CHANCE = 0.75      # that a thing has the pattern of its class, and not any other
LARGEST_TURN = 0.5         # radians to either side
RADIUS = (7.0, 13.0)       # pixels of the finished image
STRETCH = (0.8, 1.25)      # of width against height
LEAST_CONTRAST = 0.3       # between the colours of thing and background, in some channel
FRAGMENTS = (1, 5)         # behind it
LINES_BEFORE = (0, 3)      # thin ones across it
NOISE = (0.02, 0.10)       # standard deviation


def placed(outline, rng, radius, x, y):
    """The outline as pixels of the oversampled image."""
    stretch, turn = rng.uniform(*STRETCH), rng.uniform(-LARGEST_TURN, LARGEST_TURN)
    sine, cosine = math.sin(turn), math.cos(turn)
    return [(OVERSAMPLING * (x + radius * (px * stretch * cosine - py * sine)),
             OVERSAMPLING * (y + radius * (px * stretch * sine + py * cosine))) for px, py in outline]


def colours(rng, which):
    """The colour of a thing of a class and one of a background that it is seen on."""
    while True:
        hue = (which / len(CLASSES) + rng.normal(0, HUE_DEVIATION)) % 1
        thing = np.array(colorsys.hsv_to_rgb(hue, rng.uniform(0.3, 1), rng.uniform(0.4, 1)))
        background = rng.uniform(0.05, 0.95, 3)
        if np.abs(thing - background).max() >= LEAST_CONTRAST:
            return thing, background


def as_bytes(colour):
    return tuple(int(round(255 * c)) for c in colour)


def gradient(rng, colour):
    """A background that changes a little from one side to the other."""
    rows, columns = np.mgrid[-0.5:0.5:SIDE * 1j, -0.5:0.5:SIDE * 1j]
    slope = np.cos(rng.uniform(0, 2 * math.pi)) * rows + np.sin(rng.uniform(0, 2 * math.pi)) * columns
    shaded = colour + slope[..., None] * rng.normal(0, 0.25, 3)
    smooth = Image.fromarray(np.rint(255 * np.clip(shaded, 0, 1)).astype(np.uint8))
    return smooth.resize((SIDE * OVERSAMPLING, SIDE * OVERSAMPLING), Image.BILINEAR)


def fragments(rng, canvas):
    """Pieces of arbitrary polygons and lines: edges that belong to nothing."""
    side = SIDE * OVERSAMPLING
    for _ in range(rng.integers(*FRAGMENTS)):
        colour = as_bytes(rng.uniform(0, 1, 3))
        x, y = rng.uniform(0, side, 2)
        if rng.random() < 0.5:
            away = rng.uniform(-0.3, 0.3, 2) * side
            canvas.line([(x, y), (x + away[0], y + away[1])], colour, int(rng.integers(2, 2 * OVERSAMPLING)))
        else:
            reach = rng.uniform(0.05, 0.14) * side
            canvas.polygon([(x + reach * dx, y + reach * dy) for dx, dy in rng.uniform(-1, 1, (3, 2))], colour)


def plain(rows, columns):
    return np.zeros(np.broadcast(rows, columns).shape, bool)


def stripes(rows, columns):
    return (rows + columns) % 6 < 3


def checks(rows, columns):
    return (rows % 8 < 4) != (columns % 8 < 4)


def dots(rows, columns):
    return (rows % 5 - 2.5) ** 2 + (columns % 5 - 2.5) ** 2 < 2.5


PATTERNS = (plain, stripes, checks, dots)  # in pixels of the finished image


def filling(rng, which, colour):
    """What a thing is filled with: a colour, and a pattern of a darker one."""
    side = SIDE * OVERSAMPLING
    own = rng.random() < PATTERN_CHANCE
    pattern = PATTERNS[which % len(PATTERNS) if own else rng.integers(len(PATTERNS))]
    start, size = rng.uniform(0, 8, 2), rng.uniform(0.8, 1.25)
    rows, columns = ((np.arange(side) / OVERSAMPLING / size + first) for first in start)
    filled = Image.new("RGB", (side, side), as_bytes(colour))
    mask = pattern(rows[:, None], columns[None, :])
    filled.paste(as_bytes(colour * rng.uniform(0.3, 0.7)), mask=Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)))
    return filled


def draw(seed, part, kind, number):
    """One image as uint8 (SIDE, SIDE, 3): the given one of its class and part."""
    which = CLASSES.index(kind)
    rng = np.random.default_rng([seed, zlib.crc32(part.encode()), which, number])
    side = SIDE * OVERSAMPLING
    colour, background = colours(rng, which)
    picture = gradient(rng, background)
    fragments(rng, ImageDraw.Draw(picture))
    radius = rng.uniform(*RADIUS)
    x, y = rng.uniform(0.8 * radius, SIDE - 0.8 * radius, 2)  # it may reach over the edge a little
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon(placed(SHAPES[kind], rng, radius, x, y), 255)
    picture.paste(filling(rng, which, colour), mask=mask)
    before = ImageDraw.Draw(picture)
    for _ in range(rng.integers(*LINES_BEFORE)):
        ends = rng.uniform(0, side, (2, 2))
        before.line([tuple(ends[0]), tuple(ends[1])], as_bytes(rng.uniform(0, 1, 3)), OVERSAMPLING)
    small = np.asarray(picture.resize((SIDE, SIDE), Image.BOX)) / 255
    small = small + rng.normal(0, rng.uniform(*NOISE), small.shape)
    return np.rint(255 * np.clip(small, 0, 1)).astype(np.uint8)


def write_class(folder, seed, counts, kind):
    for part, count in counts.items():
        below = os.path.join(folder, part, kind)
        os.makedirs(below)
        for number in range(count):
            Image.fromarray(draw(seed, part, kind, number)).save(os.path.join(below, f"{number:04d}.png"))


def write(folder, train, test, seed):
    """Writes so many images of each class for training and for the test."""
    with concurrent.futures.ProcessPoolExecutor() as pool:
        list(pool.map(functools.partial(write_class, folder, seed, {"train": train, "test": test}), CLASSES))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", help="where to write: a folder that is not there yet, or empty")
    parser.add_argument("--train", type=int, default=400, help="images of each class to train with (%(default)s)")
    parser.add_argument("--test", type=int, default=100, help="images of each class for the test (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another one gives other images (%(default)s)")
    options = parser.parse_args()
    write(options.directory, options.train, options.test, options.seed)


if __name__ == "__main__":
    main()
