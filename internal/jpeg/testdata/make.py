#!/usr/bin/env python3
"""Makes the JPEG files beside this script, and expected.tsv.

    /usr/bin/python3 make.py       (Pillow 9.4 with libjpeg-turbo 2.1.5, NumPy)

expected.tsv has for each file: components, whether it is progressive, and the
SHA-256 of the pixels that PIL gives, grey or convert("RGB"); or the kind of
error and a part of its text.
"""
import hashlib
import io
import os
import struct
import subprocess
import tempfile

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
H, W = 45, 67
rng = np.random.default_rng(3)
rows = []


def picture(channels):
    y, x, c = np.mgrid[0:H, 0:W, 0:channels]
    a = 120 + 90 * np.sin(y / 9 + c) * np.cos(x / 7 - c) + rng.normal(0, 8, (H, W, channels))
    return np.clip(a, 0, 255).astype(np.uint8)


def save(a, mode=None, **kw):
    b = io.BytesIO()
    Image.fromarray(a, mode).save(b, "JPEG", **kw)
    return b.getvalue()


def put(name, data, error=None):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(data)
    if error:
        rows.append((name, *error))
        return
    im = Image.open(io.BytesIO(data))
    components, progressive = im.layers, "progressive" in im.info
    if im.mode != "L":
        im = im.convert("RGB")
    rows.append((name, str(components), str(progressive).lower(), hashlib.sha256(im.tobytes()).hexdigest()))


def segments(data):
    """(marker, start, end) of each segment up to SOS."""
    at = 2
    while True:
        marker, n = struct.unpack(">HH", data[at:at + 4])
        yield marker, at, at + 2 + n
        if marker == 0xFFDA:
            return
        at += 2 + n


def without_app(data):
    for marker, start, end in reversed([s for s in segments(data) if 0xFFE0 <= s[0] <= 0xFFEF]):
        data = data[:start] + data[end:]
    return data


def adobe(data, transform):
    """The same components under an Adobe marker."""
    data = without_app(data)
    return data[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform]) + data[2:]


grey, rgb, cmyk = picture(1)[:, :, 0], picture(3), picture(4)
put("grey.jpg", save(grey))
put("grey-progressive.jpg", save(grey, progressive=True))
for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
    put(f"rgb-{name}.jpg", save(rgb, subsampling=subsampling, quality=80))
    put(f"rgb-{name}-progressive.jpg", save(rgb, subsampling=subsampling, quality=80, progressive=True))
put("rgb-coded.jpg", adobe(save(rgb, subsampling=0), 0))
put("cmyk.jpg", save(cmyk, "CMYK"))
put("cmyk-bare.jpg", without_app(save(cmyk, "CMYK")))
put("ycck.jpg", adobe(save(cmyk, "CMYK"), 2))
put("one.jpg", save(rgb[:1, :1]))
put("profile.jpg", save(rgb, icc_profile=b"no real profile" * 5000))
good = save(rgb, subsampling=2, quality=80)
progressive = save(rgb, subsampling=2, quality=80, progressive=True)
put("trailing.jpg", good + b"junk" * 10 + good)

# Progressive files that lack scans, ended by EOI: blocks are smoothed.
scans, at = [], 0
while (at := progressive.find(b"\xff\xda", at)) > 0:
    scans.append(at)
    at += 2
for k in (1, 2, 5):
    put(f"scans-{k}.jpg", progressive[:scans[k]] + b"\xff\xd9")

put("cut.jpg", good[:len(good) * 4 // 5], ("truncated", "image data ends early (line "))
put("cut-progressive.jpg", progressive[:len(progressive) // 2], ("truncated", "image data ends early"))
put("cut-header.jpg", good[:200], ("truncated", "image data ends early"))
put("no-eoi.jpg", good[:-2], ("truncated", "image data ends early"))
put("cut-eoi.jpg", good[:len(good) // 2] + b"\xff\xd9", ("damaged", "premature end of data segment"))
put("extra.jpg", good[:-2] + bytes(9) + good[-2:], ("damaged", "extraneous bytes before marker"))
sof = good.find(b"\xff\xc0")
put("lossless.jpg", good[:sof] + b"\xff\xc3" + good[sof + 2:], ("unsupported", "SOF type 0xc3"))
put("12bit.jpg", good[:sof + 4] + b"\x0c" + good[sof + 5:], ("unsupported", "precision 12"))
put("no-height.jpg", good[:sof + 5] + b"\0\0" + good[sof + 7:], ("damaged", "Empty JPEG image"))
two = bytearray(good)
sos = good.find(b"\xff\xda")
two[sos:sos + 14] = b"\xff\xda\0\x0a\2" + good[sos + 5:sos + 9] + good[sos + 11:sos + 14]
two[sof:sof + 19] = b"\xff\xc0\0\x0e" + good[sof + 4:sof + 9] + b"\2" + good[sof + 10:sof + 16]
put("two-components.jpg", bytes(two), ("unsupported", "2 components"))
put("no-scan.jpg", good[:good.find(b"\xff\xda")] + b"\xff\xd9", ("damaged", "missing SOS"))
put("tables.jpg", b"\xff\xd8\xff\xd9", ("damaged", "no image"))

# Other ways of writing the same coefficients, by jpegtran.
SEPARATE = """0: 0 0 0 1; 1: 0 0 0 1; 2: 0 0 0 1; 0: 0 0 1 0; 1: 0 0 1 0; 2: 0 0 1 0;
0: 1 63 0 0; 1: 1 63 0 0; 2: 1 63 0 0;"""


def jpegtran(data, *args):
    return subprocess.run(["jpegtran", *args], input=data, stdout=subprocess.PIPE, check=True).stdout


with tempfile.NamedTemporaryFile("w", suffix=".txt") as script:
    script.write(SEPARATE)
    script.flush()
    put("noninterleaved.jpg", jpegtran(save(rgb, subsampling=0, quality=80), "-scans", script.name))
put("restarts.jpg", jpegtran(good, "-restart", "2B"))
put("arithmetic.jpg", jpegtran(good, "-arithmetic"))
put("arithmetic-progressive.jpg", jpegtran(good, "-arithmetic", "-progressive"))

# What PIL writes at quality 90 of the pixels of two of the files.
for name, source in (("rgb", good), ("grey", save(grey))):
    im = Image.open(io.BytesIO(source))
    out = io.BytesIO()
    im.save(out, "JPEG", quality=90, progressive=True)
    with open(os.path.join(HERE, f"encoded-{name}-90.jpg"), "wb") as f:
        f.write(out.getvalue())

with open(os.path.join(HERE, "expected.tsv"), "w") as f:
    for row in rows:
        f.write("\t".join(row) + "\n")
print(len(rows), "files")
