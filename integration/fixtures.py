#!/usr/bin/python3
"""Writes the source images that the tests pack and mount, and what must come out.

    fixtures.py DIRECTORY

makes in DIRECTORY

    source/photos/CLASS/   8-bit pictures of every kind that PIL and torchvision agree on
    source/deep/           16-bit pictures and arrays
    source/*.txt, *.json   files that are no images
    expected/              for each of them what np.save writes of PIL's pixels, CLASS/STEM.npy
    bulk/                  BULK arrays of about 1.4 MB each, to fill caches with
    small/                 a few small ones among larger ones
    replace/               versions of one picture: the same shape, another shape
    fio/                   arrays whose bytes are what fio wrote for its own verification
    device/MODE/           small arrays of many shapes for each mode of packing

Everything is computed from fixed seeds.
"""

import os
import subprocess
import sys

import numpy as np
from PIL import Image

BULK = 84  # × 1.39 MB: nearly twice a cache of 64 MiB
FIO_SHAPE = (1024, 2048, 3)  # 6 MiB
FIO_FILES = 8


def photo(seed, height, width, channels=3):
    """A picture with gradients, edges and noise, uint8, (H, W, C)."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:1:height * 1j, 0:1:width * 1j]
    planes = []
    for _ in range(channels):
        a, b, c, d = rng.uniform(-1, 1, 4)
        waves = np.sin(rows * 9 * a + columns * 7 * b + c * 3)
        edge = ((rows - 0.5) * a + (columns - 0.5) * d > 0) * 0.35
        planes.append(110 + 70 * waves + 60 * edge + rng.normal(0, 3, (height, width)))
    return np.clip(np.stack(planes, axis=-1), 0, 255).astype(np.uint8)


def deep(seed, height, width, channels=1):
    """A 16-bit picture that uses high and low bytes."""
    rng = np.random.default_rng(seed)
    wide = photo(seed, height, width, channels).astype(np.uint16) * 257
    return wide ^ rng.integers(0, 64, wide.shape, dtype=np.uint16)


def stored(path):
    """The samples of an image file as it stores them: palettes expanded, nothing else applied."""
    with Image.open(path) as image:
        if image.mode == "P":
            image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        elif image.mode == "1":
            image = image.convert("L")
        elif image.mode == "CMYK":
            image = image.convert("RGB")
        pixels = np.asarray(image)
    return pixels.astype(np.uint16) if pixels.dtype == np.int32 else pixels


def save_photos(folder):
    """Class folders whose order by bytes is not their order in a dictionary."""
    def path(name):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        return os.path.join(folder, name)

    image = Image.fromarray
    image(photo(1, 213, 320)).save(path("Brassica/rgb.png"))
    image(photo(2, 240, 321)).save(path("Brassica/baseline.jpg"), quality=90, subsampling=2)
    image(photo(3, 97, 65)).save(path("Brassica/progressive.JPEG"), quality=80, progressive=True)
    image(photo(4, 130, 128)[..., 0]).save(path("Brassica/grey.png"))
    image(photo(5, 128, 128)).save(path("Brassica/whole-patches.bmp"))
    image(photo(6, 64, 65)).save(path("avis/no-subsampling.jpg"), quality=95, subsampling=0)
    image(photo(7, 111, 77)[..., 0]).save(path("avis/grey.jpg"))
    image(photo(8, 90, 160, 4), "RGBA").save(path("avis/alpha.png"))
    image(photo(9, 61, 83, 2), "LA").save(path("avis/grey-alpha.png"))
    image(photo(10, 70, 50)).save(path("avis/picture.ppm"))
    image(photo(11, 100, 120)).quantize(37).save(path("canis/palette.png"))
    see_through = image(photo(12, 50, 60)).quantize(17)
    see_through.save(path("canis/palette-transparent.png"), transparency=bytes(range(0, 17 * 15, 15)))
    image((photo(13, 33, 31)[..., 0] > 128).astype(np.uint8) * 255).convert("1").save(path("canis/bits.png"))
    image(photo(14, 67, 45, 4), "CMYK").save(path("canis/cmyk.jpg"), quality=92)
    image(photo(15, 1, 1)).save(path("canis/one.png"))
    image(photo(16, 257, 1)).save(path("canis/tall.png"))
    image(photo(17, 1, 300)).save(path("canis/flat.png"))
    image(photo(18, 512, 768)).save(path("canis/large.png"), compress_level=1)


def save_deep(folder):
    os.makedirs(folder)
    Image.fromarray(deep(20, 120, 90)[..., 0]).save(os.path.join(folder, "grey.png"))
    np.save(os.path.join(folder, "plane.npy"), deep(21, 70, 131)[..., 0])
    np.save(os.path.join(folder, "colour.npy"), deep(22, 64, 50, 3))
    np.save(os.path.join(folder, "signed.npy"), (deep(23, 65, 40)[..., 0].astype(np.int32) - 32768).astype(np.int16))
    np.save(os.path.join(folder, "two.npy"), photo(24, 30, 40, 2))


def save_expected(source, expected):
    for folder, _, names in os.walk(source):
        for name in names:
            stem, suffix = os.path.splitext(name)
            path = os.path.join(folder, name)
            if suffix in (".txt", ".json"):
                continue
            pixels = np.load(path) if suffix == ".npy" else stored(path)
            target = os.path.join(expected, os.path.relpath(folder, source))
            os.makedirs(target, exist_ok=True)
            np.save(os.path.join(target, stem + ".npy"), pixels)


def save_arrays(folder, sizes):
    os.makedirs(folder)
    base, before = None, None
    for number, size in enumerate(sizes):
        if size != before:
            base, before = photo(30, *size), size
        # Rolled by other amounts each time: cheap to make, no two alike.
        np.save(os.path.join(folder, f"{number:03d}.npy"), np.roll(base, (number * 7, number * 13), axis=(0, 1)))


def save_fio(folder):
    """Half of the files hold random blocks, half a pattern, each block with fio's header and checksum."""
    os.makedirs(folder)
    for number in range(FIO_FILES):
        raw = os.path.join(folder, "raw")
        pattern = ["--verify_pattern=0x0102030405060708"] if number % 2 else []
        subprocess.run(["fio", "--name=write", f"--filename={raw}", "--rw=write", "--bs=64k", f"--size={np.prod(FIO_SHAPE)}",
                        "--verify=crc32c", "--verify_interval=4096", "--do_verify=0", "--verify_state_save=0",
                        f"--randseed={number + 1}", "--minimal", *pattern],
                       check=True, stdout=subprocess.DEVNULL, cwd=folder)
        np.save(os.path.join(folder, f"{number}.npy"), np.fromfile(raw, np.uint8).reshape(FIO_SHAPE))
        os.remove(raw)


def regions(seed, height, width):
    """A map of labels."""
    rows, columns = np.mgrid[0:height, 0:width]
    return (((rows + columns // 3) // 19 + columns // 23 + seed) % 5 * 40).astype(np.uint8)


def save_device(folder):
    """Every depth and number of channels, whole patches and narrow ones, for each mode of packing."""
    arrays = {mode: {} for mode in ("fast", "dense", "labels", "published")}
    for channels in (1, 2, 3, 4):
        for height, width in ((1, 1), (70, 131), (130, 128)):
            name = f"{channels}-{height}x{width}"
            picture = photo(40 + channels, height, width, channels)
            arrays["fast"][name] = arrays["dense"][name] = picture[..., 0] if channels == 1 else picture
    for channels in (1, 3):
        picture = deep(50 + channels, 67, 130, channels)
        arrays["fast"][f"deep-{channels}"] = arrays["dense"][f"deep-{channels}"] = picture[..., 0] if channels == 1 else picture
    signed = (deep(55, 130, 70)[..., 0].astype(np.int32) - 32768).astype(np.int16)
    arrays["fast"]["signed"] = arrays["dense"]["signed"] = signed
    for number, (height, width) in enumerate(((33, 70), (256, 256), (130, 300))):
        arrays["labels"][str(number)] = regions(number, height, width)
    for number, (height, width) in enumerate(((64, 64), (128, 192))):
        arrays["published"][str(number)] = photo(60 + number, height, width)
    for mode, named in arrays.items():
        os.makedirs(os.path.join(folder, mode))
        for name, array in named.items():
            np.save(os.path.join(folder, mode, name + ".npy"), array)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = sys.argv[1]
    source = os.path.join(root, "source")
    save_photos(os.path.join(source, "photos"))
    save_deep(os.path.join(source, "deep"))
    save_expected(source, os.path.join(root, "expected"))
    with open(os.path.join(source, "README.txt"), "w") as file:
        file.write("Not an image.\n")
    with open(os.path.join(source, "photos", "annotations.json"), "w") as file:
        file.write('{"also": "not an image"}\n')
    save_arrays(os.path.join(root, "bulk"), [(680, 680)] * BULK)
    save_arrays(os.path.join(root, "small"), [(200, 200)] * 4 + [(600, 700)] * 24)
    save_arrays(os.path.join(root, "replace"), [(300, 400), (300, 400), (310, 390)])
    save_fio(os.path.join(root, "fio"))
    save_device(os.path.join(root, "device"))


if __name__ == "__main__":
    main()
