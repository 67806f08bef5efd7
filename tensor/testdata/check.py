"""Judges the files that TestAgainstNumPyAndPIL wrote into a folder.

What a form should hold is said here once more, in NumPy's terms. Ends with
status 1 at the first file that is wrong.
"""

import io
import json
import os
import sys
import zlib

import numpy as np
from PIL import Image


def expected(case, image):
    """The array that a reader should see of an image H×W×C."""
    terms, form = case["Terms"], case["Form"]
    if "rgb" in terms:
        if image.dtype == np.uint16:
            image = (image >> 8).astype(np.uint8)
        colours = image[:, :, :1] if image.shape[2] < 3 else image[:, :, :3]
        image = np.broadcast_to(colours, colours.shape[:2] + (3,))
    elif form == "ppm" and case["Alpha"]:
        image = image[:, :, :-1]
    if "chw" in terms:
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    if image.shape[2] == 1:
        image = image[:, :, 0]
    return np.ascontiguousarray(image)


def read_ppm(data):
    """Reads P5 and P6 as their manual pages describe them."""
    magic, size, largest, samples = data.split(b"\n", 3)
    width, height = map(int, size.split())
    dtype = ">u2" if int(largest) > 255 else "u1"
    array = np.frombuffer(samples, dtype)
    return array.reshape((height, width) if magic == b"P5" else (height, width, 3))


def read_png(data):
    """Reads a PNG file without filters; zlib checks its Adler-32."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, stream = 8, b""
    while at < len(data):
        n = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + n]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + n : at + 12 + n], "big")
        if kind == b"IHDR":
            width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            depth, colour = body[8], body[9]
            assert body[10:] == b"\0\0\0"
        elif kind == b"IDAT":
            stream += body
        else:
            assert kind == b"IEND" and at + 12 == len(data)
        at += 12 + n
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(stream), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    samples = np.ascontiguousarray(rows[:, 1:]).view({8: "u1", 16: ">u2"}[depth])
    return samples.reshape((height, width) if channels == 1 else (height, width, channels))


def check(case, folder):
    with open(os.path.join(folder, case["Name"]), "rb") as file:
        data = file.read()
    samples = np.fromfile(os.path.join(folder, case["Samples"]), case["DType"])
    want = expected(case, samples.reshape(case["Height"], case["Width"], case["C"]))
    assert list(want.shape) == case["Shape"], "shape"
    assert want.dtype.str == case["Array"], "dtype"

    form = case["Form"]
    if form == "npy":
        saved = io.BytesIO()
        np.save(saved, want)
        assert data == saved.getvalue(), "not what numpy.save writes"
        return
    if form == "raw":
        assert data == want.tobytes(), "samples"
        return
    read = read_ppm if form == "ppm" else read_png
    assert np.array_equal(read(data), want), "samples"
    # PIL keeps 16 bits of grey alone. verify() is what reads all checksums.
    picture = Image.open(io.BytesIO(data))
    assert picture.size == (case["Width"], case["Height"]), "size"
    if want.dtype == np.uint8 or want.ndim == 2:
        assert np.array_equal(np.asarray(picture), want), "samples, as PIL reads them"
    if form != "ppm":
        Image.open(io.BytesIO(data)).verify()


def main(folder):
    with open(os.path.join(folder, "cases.json")) as file:
        cases = json.load(file)
    for case in cases:
        try:
            check(case, folder)
        except Exception as error:
            sys.exit(f"{case}: {error!r}")
    print(f"{len(cases)} files are right")


main(sys.argv[1])
