"""Makes the data of a benchmark run: photographs, and larger files of the same content.

Photographs are 768×512 RGB, drawn as examples/make_images.py draws the sample
images, or taken from a folder of PNGs. Few are drawn, since drawing is slow;
each is then shifted around its edges and mirrored, which gives files of
different content that compress alike.
"""

import concurrent.futures
import functools
import os
import shutil
import sys

import numpy as np
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
import make_images

WIDTH, HEIGHT = 768, 512
# A decoded file of 1728×1152 pixels has 5.97 MB.
LARGE_WIDTH, LARGE_HEIGHT = 1728, 1152
# The JPEGs that are made are about as those of ImageNet are: 500×375 pixels, 0.4 bytes a pixel.
JPEG_WIDTH, JPEG_HEIGHT = 500, 375
JPEG_QUALITY = 94
PICTURES_A_CLASS = 2  # drawn; the others are made of them
CLASSES = 4           # folders of the tree that a loader reads


def draw(which, number):
    """One picture of the generator, uint8 of shape (HEIGHT, WIDTH, 3)."""
    name = sorted(make_images.CLASSES)[which]
    rng = np.random.default_rng([7, which, number])
    picture = make_images.developed(rng, make_images.CLASSES[name](rng, HEIGHT, WIDTH))
    return np.rint(picture * 255).astype(np.uint8)


def load(folder):
    """The PNGs below a folder as uint8 (H, W, 3), all lying, all of the smallest one's size."""
    pictures = []
    for below, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.lower().endswith(".png"):
                with Image.open(os.path.join(below, name)) as image:
                    pixels = np.asarray(image.convert("RGB"))
                pictures.append(pixels if pixels.shape[1] >= pixels.shape[0] else np.rot90(pixels))
    if not pictures:
        raise SystemExit(f"bench: there is no PNG file below {folder}")
    height, width = (min(p.shape[axis] for p in pictures) for axis in (0, 1))
    return [np.ascontiguousarray(p[:height, :width]) for p in pictures]


def variant(pictures, number):
    """The picture of this number: the first ones as they are, the rest shifted and mirrored."""
    pixels = pictures[number % len(pictures)]
    turn = number // len(pictures)
    if turn % 2:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(np.roll(pixels, (37 * turn, 53 * turn), axis=(0, 1)))


def mosaic(pictures, number):
    """Pictures side by side, cut to LARGE_HEIGHT × LARGE_WIDTH."""
    height, width = pictures[0].shape[:2]
    down, across = -(-LARGE_HEIGHT // height), -(-LARGE_WIDTH // width)
    rows = [np.hstack([variant(pictures, number * 11 + row * across + column) for column in range(across)])
            for row in range(down)]
    return np.ascontiguousarray(np.vstack(rows)[:LARGE_HEIGHT, :LARGE_WIDTH])


def write_photo(pictures, folder, number):
    """Writes a photograph as Pillow does by default, compressed."""
    path = os.path.join(folder, f"class{number % CLASSES}", f"{number:04d}.png")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.fromarray(variant(pictures, number)).save(path)


def write(folder, photos, large, source=None):
    """Writes folder/photos/CLASS/NAME.png and folder/large/NAME.npy.

    Returns what a reader of the report should know of the content."""
    if source is None:
        pictures = drawn()
        content = f"{len(pictures)} drawn pictures"
    else:
        pictures = load(source)
        content = f"{len(pictures)} PNG files of {source}"
    with concurrent.futures.ProcessPoolExecutor() as pool:
        list(pool.map(functools.partial(write_photo, pictures, os.path.join(folder, "photos")), range(photos),
                      chunksize=8))
    os.makedirs(os.path.join(folder, "large"))
    for number in range(large):
        np.save(os.path.join(folder, "large", f"{number:02d}.npy"), mosaic(pictures, number))
    height, width = pictures[0].shape[:2]
    return f"{photos} photographs of {width}×{height}, made of {content} by shifting and mirroring"


def drawn():
    """Pictures of the generator, PICTURES_A_CLASS of each of its classes."""
    cells = [(which, number) for which in range(len(make_images.CLASSES)) for number in range(PICTURES_A_CLASS)]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        return list(pool.map(draw, *zip(*cells)))


def write_trees(folder, photos, jpegs, large, data):
    """Writes folder/photos and folder/large, of arrays, and folder/jpegs, all with class
    folders. data is None, or a folder with kodak and hires, PNG files, and photos, JPEGs:
    what is not there is drawn. Returns what a reader of the report should know."""
    def found(name):
        return os.path.join(data, name) if data and os.path.isdir(os.path.join(data, name)) else None

    pictures = drawn() if None in (found("kodak"), found("hires")) else None
    content = {}
    for name, source, count, make in (("photos", found("kodak"), photos, variant), ("large", found("hires"), large, mosaic)):
        chosen = load(source) if source else pictures
        for number in range(count):
            pixels = make(chosen, number)
            path = os.path.join(folder, name, f"class{number % CLASSES}", f"{number:04d}.npy")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            np.save(path, pixels)  # which takes less time than writing a PNG file
        height, width = pixels.shape[:2]
        content[name] = f"{count} of {width}×{height}, made of {len(chosen)} " + (f"PNG files of {source}" if source else "drawn pictures")
    content["jpegs"] = write_jpegs(os.path.join(folder, "jpegs"), jpegs, found("photos"))
    return content


def write_jpegs(folder, images, data):
    """The source as JPEGs in class folders; returns what a reader should know of it."""
    if data:
        return link_jpegs(folder, images, data)
    pictures = [picture[:JPEG_HEIGHT, :JPEG_WIDTH] for picture in drawn()]
    for number in range(images):
        path = os.path.join(folder, f"class{number % CLASSES}", f"{number:04d}.jpg")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(variant(pictures, number)).save(path, quality=JPEG_QUALITY)
    return f"{images} photographs of {JPEG_WIDTH}×{JPEG_HEIGHT}, made of {len(pictures)} drawn pictures, JPEG quality {JPEG_QUALITY}"


def link_jpegs(folder, images, data):
    """Copies JPEGs of a folder in class folders, some of each again under other names
    where there are too few."""
    found = sorted(os.path.join(below, name) for below, _, names in os.walk(data) for name in names
                   if name.lower().endswith((".jpg", ".jpeg")))
    if not found:
        raise SystemExit(f"bench: there is no JPEG file below {data}")
    for number in range(images):
        original = found[number % len(found)]
        group = os.path.join(folder, os.path.basename(os.path.dirname(original)))
        os.makedirs(group, exist_ok=True)
        shutil.copyfile(original, os.path.join(group, f"{number:05d}.jpg"))
    return f"{images} JPEGs, {min(images, len(found))} of them different, of {data}"


def link_copies(folder, copies):
    """Gives every file of every class folder further names: a long epoch from little data."""
    for name in sorted(os.listdir(folder)):
        group = os.path.join(folder, name)
        if not os.path.isdir(group):
            continue
        for file in sorted(os.listdir(group)):
            for copy in range(1, copies):
                os.link(os.path.join(group, file), os.path.join(group, f"copy{copy}-{file}"))
