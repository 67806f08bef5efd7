#!/usr/bin/python3
"""Writes an ImageFolder tree of JPEGs of every kind, for records to be packed from.

    jpegs.py DIRECTORY

Everything is computed from fixed seeds.
"""

import os
import sys

from PIL import Image

from fixtures import photo


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = sys.argv[1]

    def path(name):
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        return os.path.join(root, name)

    image = Image.fromarray
    for number in range(9):
        picture = image(photo(40 + number, 150 + 17 * number, 200 - 11 * number))
        picture.save(path(f"Brassica/{number:02d}.jpg"), quality=92, subsampling=number % 3, progressive=number % 2 == 1)
    for number in range(7):
        picture = image(photo(60 + number, 90 + 9 * number, 130))
        picture.save(path(f"avis/bird-{number}.JPEG"), quality=70 + 4 * number, subsampling=2)
    image(photo(70, 111, 77)[..., 0]).save(path("avis/grey.jpg"))
    image(photo(71, 67, 45, 4), "CMYK").save(path("canis/cmyk.jpg"), quality=92)
    image(photo(72, 1, 1)).save(path("canis/one.jpg"))
    image(photo(73, 9, 17)).save(path("canis/odd.jpg"), subsampling=2)
    image(photo(74, 120, 160)).save(path("canis/packed-as-a.png"))


if __name__ == "__main__":
    main()
