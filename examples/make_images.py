#!/usr/bin/python3
"""Computes the sample images: pictures that behave as photographs do.

Smooth gradients, textures on every scale, out-of-focus blur, hard edges and the
noise of a sensor: what makes photographs hard to compress, without a
photograph. The same seed gives the same pictures.

    make_images.py DIRECTORY     writes DIRECTORY/CLASS/NAME.png and .jpg

The set has what folders of real images have: mostly RGB, a few JPEGs, a grey
picture, one with alpha, one of 16 bits.
"""

import os
import sys

import numpy as np
from PIL import Image, ImageFilter

# Small, so that the repository stays small; some are multiples of a coder's
# patches, most are not.
SIZES = [(400, 300), (427, 320), (384, 256), (320, 427), (500, 333), (512, 384)]


def fractal(rng, height, width, rough=0.55, base=3, stretch=1.0):
    """Value noise summed over octaves, 0 to 1, in the shape (height, width).

    stretch above 1 makes features wider than they are high."""
    total = np.zeros((height, width))
    weight, cells = 1.0, base
    while cells < max(height, width):
        across = max(2, int(round(cells * width / max(height, width) / stretch)) + 1)
        down = max(2, int(round(cells * height / max(height, width))) + 1)
        grid = Image.fromarray(rng.random((down, across)).astype(np.float32))
        total += weight * np.asarray(grid.resize((width, height), Image.BICUBIC))
        weight *= rough
        cells *= 2
    total -= total.min()
    return total / total.max()


def blurred(array, radius):
    """A Gaussian blur of floats in 0 to 1, shape (H, W), to 8 bits."""
    picture = Image.fromarray(np.rint(array * 255).astype(np.uint8))
    return np.asarray(picture.filter(ImageFilter.GaussianBlur(radius))) / 255


def mix(first, second, share):
    """first where share is 0, second where it is 1."""
    share = np.asarray(share)[..., None]
    return np.asarray(first) * (1 - share) + np.asarray(second) * share


def colour(rng, red, green, blue, spread=0.06):
    return np.clip(np.array([red, green, blue]) + rng.normal(0, spread, 3), 0.02, 1)


def sky(rng, height, width):
    """A gradient to the horizon with clouds in it."""
    down = np.linspace(0, 1, height)[:, None] * np.ones((1, width))
    picture = mix(colour(rng, 0.22, 0.42, 0.72), colour(rng, 0.86, 0.80, 0.72), down**1.4)
    clouds = np.clip((fractal(rng, height, width, 0.6, 3, 2.2) - 0.52) * 2.6, 0, 1)
    return mix(picture, colour(rng, 0.95, 0.94, 0.93, 0.02), clouds * 0.8)


def mountains(rng, height, width):
    """Ridges behind each other, paler with distance, lit from one side."""
    picture = sky(rng, height, width)
    rows = np.arange(height)[:, None]
    layers = 4
    for layer in range(layers):
        near = (layer + 1) / layers
        ridge = fractal(rng, 2, width, 0.62, 3 + layer)[0]
        top = height * (0.30 + 0.16 * layer) - ridge * height * (0.26 - 0.03 * layer)
        relief = fractal(rng, height, width, 0.72, 6 + 6 * layer)
        slope = np.gradient(relief, axis=1) * width / 12
        light = np.clip(0.58 + slope * 0.45, 0.12, 1.25)
        rock, grass = colour(rng, 0.44, 0.40, 0.36, 0.03), colour(rng, 0.26, 0.33, 0.17, 0.03)
        body = mix(rock, grass, np.clip(relief * 1.8 - 0.5 + 0.2 * layer, 0, 1)) * light[..., None]
        snow = (relief > 0.55) & (rows < top[None, :] + height * 0.10) & (layer < 2)
        body = mix(body, np.array([0.93, 0.94, 0.97]) * np.clip(light, 0.5, 1)[..., None], snow * 0.85)
        body = mix(body, colour(rng, 0.66, 0.72, 0.80, 0.02), np.full((height, width), 0.62 * (1 - near) ** 1.1))
        edge = np.clip(rows - top[None, :] + 0.5, 0, 1)
        picture = mix(picture, body, edge)
    return picture


def coast(rng, height, width):
    """The sea under a low sun: waves that grow towards the viewer."""
    horizon = int(height * rng.uniform(0.36, 0.5))
    picture = np.zeros((height, width, 3))
    picture[:horizon] = sky(rng, horizon, width)
    sun = width * rng.uniform(0.25, 0.75)
    depth = height - horizon
    swell = fractal(rng, depth * 2, width * 2, 0.68, 24, 3.0)
    # Perspective: a row of the picture shows the swell far away if it is near the horizon.
    reach = np.linspace(0.03, 1, depth)
    lines = (np.cumsum(1 / reach) / np.sum(1 / reach) * (depth * 2 - 1)).astype(int)[::-1]
    waves = np.stack([
        np.interp(np.linspace(width - width * r, width + width * r - 1, width), np.arange(width * 2), swell[line])
        for r, line in zip(0.25 + 0.75 * reach, lines)])
    slope = np.gradient(waves, axis=0) * 9 * (0.4 + reach[:, None])
    water = mix(colour(rng, 0.05, 0.20, 0.27, 0.03), colour(rng, 0.45, 0.58, 0.62, 0.03),
                np.clip(0.42 + slope, 0, 1))
    glitter = np.exp(-((np.arange(width)[None, :] - sun) / (width * (0.05 + 0.12 * reach[:, None]))) ** 2)
    water = mix(water, [1.0, 0.93, 0.76], np.clip(glitter * np.clip(slope * 3 - 0.1, 0, 1), 0, 1))
    foam = np.clip(waves * 4 - 3.0, 0, 1) * reach[:, None]
    picture[horizon:] = mix(water, [0.94, 0.96, 0.96], foam * 0.8)
    rows, columns = np.mgrid[0:horizon, 0:width]
    glow = np.exp(-(((columns - sun) / (width * 0.16)) ** 2 + ((rows - horizon * 0.72) / (height * 0.12)) ** 2))
    picture[:horizon] = mix(picture[:horizon], [1.0, 0.86, 0.58], glow * 0.85)
    return picture


def lights(rng, height, width):
    """Lights of a street at night, out of focus, with a sharp wet railing in front."""
    picture = mix(colour(rng, 0.03, 0.04, 0.08, 0.01), colour(rng, 0.18, 0.12, 0.10, 0.03),
                  fractal(rng, height, width, 0.5, 2))
    rows, columns = np.mgrid[0:height, 0:width]
    palette = [(1.0, 0.72, 0.30), (1.0, 0.42, 0.20), (0.95, 0.90, 0.75), (0.35, 0.65, 1.0), (0.30, 0.85, 0.45), (0.95, 0.25, 0.30)]
    for _ in range(46):
        radius = rng.uniform(0.02, 0.09) * max(height, width)
        x, y = rng.uniform(0, width), rng.normal(height * 0.42, height * 0.18)
        away = np.hypot(columns - x, rows - y) / radius
        disc = np.clip((1 - away) * radius / 1.6 + 0.5, 0, 1) * (0.72 + 0.28 * np.clip(away, 0, 1) ** 4)
        strength = rng.uniform(0.15, 0.65)
        picture = 1 - (1 - picture) * (1 - disc[..., None] * strength * np.array(palette[rng.integers(len(palette))]))
    grain = fractal(rng, height, width, 0.8, 40, 3.0)
    for x in rng.uniform(0.05, 0.95, 3) * width:
        thick = rng.uniform(0.02, 0.04) * width
        across = (columns - x - (rows - height) * rng.uniform(-0.06, 0.06)) / thick
        bar = np.clip((1 - np.abs(across)) * thick / 1.2, 0, 1)
        shade = np.clip(0.16 + 0.5 * np.clip(1 - np.abs(across + 0.4) * 1.6, 0, 1) ** 2 + 0.22 * (grain - 0.5), 0, 1)
        picture = mix(picture, shade[..., None] * colour(rng, 0.7, 0.68, 0.66, 0.03), bar)
    return picture


def pebbles(rng, height, width):
    """A beach of pebbles, each with its own colour and grain, in raking light."""
    count = 170
    centres = np.stack([rng.uniform(-0.05, 1.05, count) * height, rng.uniform(-0.05, 1.05, count) * width], axis=1)
    rows, columns = np.mgrid[0:height, 0:width]
    bend = (fractal(rng, height, width, 0.6, 8) - 0.5) * 22
    first = np.full((height, width), np.inf)
    second, owner = first.copy(), np.zeros((height, width), int)
    for index, (y, x) in enumerate(centres):
        away = np.hypot(rows - y + bend, (columns - x - bend) * 0.86)
        nearer = away < first
        second = np.where(nearer, first, np.minimum(second, away))
        owner = np.where(nearer, index, owner)
        first = np.minimum(first, away)
    gap = np.clip((second - first) / 14, 0, 1)
    dome = np.sqrt(1 - (1 - gap) ** 2)
    grain = fractal(rng, height, width, 0.85, 24)
    surface = blurred(dome, 1.2) * 16 + grain * 3.2
    slope = np.gradient(surface, axis=1) * -0.8 + np.gradient(surface, axis=0) * -0.6
    light = np.clip(0.62 + slope * 0.34, 0.05, 1.4)
    tones = np.clip(np.array([0.52, 0.48, 0.44]) + rng.normal(0, 0.13, (count, 1)) + rng.normal(0, 0.035, (count, 3)), 0.08, 0.92)
    vein = np.abs(fractal(rng, height, width, 0.55, 5) - 0.5) < 0.012
    body = tones[owner] * (0.78 + 0.44 * grain)[..., None]
    body = mix(body, [0.86, 0.84, 0.80], vein * (owner % 3 == 0) * 0.7)
    return body * light[..., None] * (0.18 + 0.82 * np.clip(gap * 2.2, 0, 1))[..., None]


CLASSES = {"coast": coast, "lights": lights, "mountains": mountains, "pebbles": pebbles}


def developed(rng, picture):
    """What a camera adds: lens softness, vignetting, shot and read noise, a tone curve."""
    height, width = picture.shape[:2]
    rows, columns = np.mgrid[-1:1:height * 1j, -1:1:width * 1j]
    picture = np.clip(picture, 0, 1) * (1 - 0.22 * (rows**2 + columns**2) / 2)[..., None]
    # The red and blue sites of a sensor are sparse: their noise is wider than one pixel.
    noise = rng.normal(0, 1, picture.shape)
    for channel in (0, 2):
        noise[..., channel] = 0.6 * noise[..., channel] + 0.4 * np.roll(noise[..., channel], 1, axis=1)
    picture = picture + noise * (0.004 + 0.012 * np.sqrt(np.clip(picture, 0, 1)))
    return np.clip(picture, 0, 1) ** 0.94


def save(picture, path, kind):
    """Writes floats 0 to 1 in the way that kind names."""
    whole = np.rint(picture * 255).astype(np.uint8)
    if kind == "jpg":
        Image.fromarray(whole).save(path + ".jpg", quality=91)
    elif kind == "grey":
        Image.fromarray(whole).convert("L").save(path + ".png", optimize=True)
    elif kind == "grey16":
        deep = np.rint(picture @ [0.299, 0.587, 0.114] * 4095).astype(np.uint16) << 4
        Image.fromarray(deep).save(path + ".png")
    elif kind == "alpha":
        height, width = whole.shape[:2]
        rows, columns = np.mgrid[-1:1:height * 1j, -1:1:width * 1j]
        cover = np.clip((1.05 - np.hypot(rows, columns)) * 3, 0, 1)
        rgba = np.dstack([whole, np.rint(cover * 255).astype(np.uint8)])
        Image.fromarray(rgba, "RGBA").save(path + ".png", optimize=True)
    else:
        Image.fromarray(whole).save(path + ".png", optimize=True)


# Everything that is not an RGB PNG, by class and number.
KINDS = {("coast", 2): "jpg", ("coast", 5): "jpg", ("lights", 1): "jpg", ("lights", 4): "alpha",
         ("mountains", 3): "jpg", ("mountains", 5): "grey16", ("pebbles", 0): "jpg", ("pebbles", 2): "grey"}


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for which, (name, draw) in enumerate(CLASSES.items()):
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        for number, (width, height) in enumerate(SIZES):
            rng = np.random.default_rng([which, number])
            kind = KINDS.get((name, number), "png")
            if kind == "jpg":
                width, height = 768, 512
            save(developed(rng, draw(rng, height, width)), os.path.join(folder, f"{name}-{number}"), kind)


if __name__ == "__main__":
    main()
