#!/usr/bin/env python3
"""Makes the small image files beside this script, and expected.tsv.

    /usr/bin/python3 make.py       (Pillow 9.4 with libwebp 1.2.4, NumPy)

The writers here are independent of the decoders under test. expected.tsv has
for each file its shape (height, width, channels, type, colour) and the SHA-256
of its samples, row by row, 16 bits little-endian; or a part of the refusal.
What PIL opens without loss is checked here against PIL, too. The files are
kept as they are: a newer Pillow may write other bytes.
"""
import hashlib
import io
import os
import struct
import zlib

import numpy as np
from PIL import Image

H, W = 11, 13
HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
rows = []
COLOURS = {1: "grey", 2: "grey+alpha", 3: "RGB", 4: "RGBA"}


def smooth(channels, top=255, dtype=np.uint8, h=H, w=W):
    """A gradient with noise, from 0 to top."""
    y, x, c = np.mgrid[0:h, 0:w, 0:channels]
    a = (y * 7 + x * 5 + c * 60) / (7 * h + 5 * w + 60 * channels) * top
    a = np.clip(a + rng.normal(0, top / 20, a.shape), 0, top)
    a[0, 0], a[-1, -1] = 0, top
    return np.rint(a).astype(dtype)


def put(name, data, samples=None, colour=None, refusal=None, pil=None, bits=None):
    """Writes a file and its row. pil: what PIL's array of it must equal."""
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    if refusal is not None:
        rows.append([name, "refused", refusal])
        return
    if samples.ndim == 2:
        samples = samples[:, :, None]
    h, w, c = samples.shape
    if pil is not None:
        with Image.open(path) as im:
            got = np.array(im.convert(pil)) if isinstance(pil, str) else np.array(im)
        want = samples if got.ndim == 3 else samples[:, :, 0]
        assert np.array_equal(got, want), name
    little = samples.astype(samples.dtype.newbyteorder("<"))
    rows.append([name, f"{h}×{w}×{c} {samples.dtype.name} {colour or COLOURS[c]}",
                 hashlib.sha256(little.tobytes()).hexdigest(), str(bits or 8 * samples.dtype.itemsize)])


# --- PNG -------------------------------------------------------------------

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pack_bits(row, depth):
    """The samples of a row (1-D) as bytes, each of depth bits."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:]
    return np.packbits(bits.reshape(-1)).tobytes()


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def filtered(lines, bpp):
    """Filters each line with another of the five filters."""
    out, prior = b"", bytes(len(lines[0]) if lines else 0)
    for y, line in enumerate(lines):
        kind = y % 5
        cur = bytearray([kind])
        for i, v in enumerate(line):
            a = line[i - bpp] if i >= bpp else 0
            b = prior[i]
            c = prior[i - bpp] if i >= bpp else 0
            cur.append((v - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255)
        out += bytes(cur)
        prior = line
    return out


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(samples, colour_type, depth, interlace=False, extra=b"", idat=40):
    if samples.ndim == 2:
        samples = samples[:, :, None]
    h, w, c = samples.shape
    bpp = max(1, c * depth // 8)
    raw = b""
    for y0, x0, dy, dx in ADAM7 if interlace else [(0, 0, 1, 1)]:
        part = samples[y0::dy, x0::dx]
        if part.size:
            raw += filtered([pack_bits(r.reshape(-1), depth) for r in part], bpp)
    z = zlib.compress(raw)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour_type, 0, 0, interlace))
    out += extra
    for i in range(0, len(z), idat):
        out += chunk(b"IDAT", z[i:i + idat])
    return out + chunk(b"IEND", b"")


def make_png():
    kinds = [(0, d) for d in (1, 2, 4, 8, 16)] + [(2, 8), (2, 16), (4, 8), (4, 16), (6, 8), (6, 16)]
    channels = {0: 1, 2: 3, 4: 2, 6: 4}
    for colour_type, depth in kinds:
        n, top = channels[colour_type], 2 ** depth - 1
        stored = smooth(n, top, np.uint16 if depth == 16 else np.uint8)
        scaled = stored if depth >= 8 else stored * np.uint8(255 // top)
        for lace in (False, True):
            name = f"png/type{colour_type}-{depth}bit" + ("-interlaced" if lace else "")
            # PIL has no 16-bit colours: it drops their low bytes.
            pil = None if depth == 16 and colour_type else {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[n]
            if depth == 16 and not colour_type:
                pil = True
            put(name + ".png", png(stored, colour_type, depth, lace), scaled, pil=pil)
            if colour_type in (0, 2):
                key = stored[5, 6]
                alpha = np.where((stored == key).all(axis=2), 0, 255 if depth < 16 else 65535).astype(scaled.dtype)
                whole = np.concatenate([scaled, alpha[:, :, None]], axis=2)
                trns = chunk(b"tRNS", b"".join(struct.pack(">H", v) for v in key))
                put(name + "-key.png", png(stored, colour_type, depth, lace, trns), whole,
                    pil="RGBA" if depth == 8 and n == 3 else None)
    for depth in (1, 2, 4, 8):
        n = min(2 ** depth, 200)
        palette = rng.integers(0, 256, (n, 3)).astype(np.uint8)
        index = rng.integers(0, n, (H, W)).astype(np.uint8)
        alpha = rng.integers(0, 256, n // 2 + 1).astype(np.uint8)
        full = np.concatenate([palette, np.full((n, 1), 255, np.uint8)], axis=1)
        full[:len(alpha), 3] = alpha
        plte = chunk(b"PLTE", palette.tobytes())
        for lace in (False, True):
            name = f"png/type3-{depth}bit" + ("-interlaced" if lace else "")
            put(name + ".png", png(index, 3, depth, lace, plte), palette[index], pil="RGB")
            put(name + "-alpha.png", png(index, 3, depth, lace, plte + chunk(b"tRNS", alpha.tobytes())),
                full[index], pil="RGBA")
    # Sizes at which passes of an interlaced image are empty.
    for h, w in ((1, 1), (1, 5), (5, 1), (2, 3), (8, 8), (9, 33)):
        a = smooth(3, h=h, w=w)
        put(f"png/interlaced-{w}x{h}.png", png(a, 2, 8, True), a, pil="RGB")
    # A fully transparent picture keeps its colours.
    a = smooth(4)
    a[:, :, 3] = 0
    put("png/all-transparent.png", png(a, 6, 8), a, pil="RGBA")
    a[:, :, 3] = 255
    put("png/all-opaque.png", png(a, 6, 8), a, pil="RGBA")
    # Chunks that are not applied.
    a = smooth(3)
    icc = zlib.compress(b"no real profile" * 10)
    extra = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"iCCP", b"name\0\0" + icc)
    extra += chunk(b"sBIT", b"\5\6\5") + chunk(b"pHYs", struct.pack(">IIB", 1, 2, 0)) + chunk(b"zzZz", b"private")
    put("png/ancillary.png", png(a, 2, 8, extra=extra), a, pil="RGB")
    # An animated PNG: the picture in IDAT.
    first, second = Image.fromarray(smooth(3)), Image.fromarray(smooth(3))
    b = io.BytesIO()
    first.save(b, "PNG", save_all=True, append_images=[second])
    put("png/animated.png", b.getvalue(), np.array(first), pil="RGB")
    # What must be refused.
    good = png(a, 2, 8)
    # In the data: the kind of the first block becomes one that does not exist.
    for name, kind, at, flip, refusal in (("checksum", b"IDAT", -1, 1, "invalid checksum"), ("data", b"IDAT", 6, 2, "image data is damaged"),
                                          ("text", b"tEXt", 8, 1, "invalid checksum")):
        bad = bytearray(png(a, 2, 8, extra=chunk(b"tEXt", b"Title\0picture")))
        start = bad.index(kind)
        length = struct.unpack(">I", bad[start - 4:start])[0]
        bad[start + (at if at > 0 else 4 + length)] ^= flip
        put(f"png/bad-{name}.png", bytes(bad), refusal=refusal)
    put("png/no-end.png", good[:-12], refusal="ends before its end mark")
    put("png/cut.png", good[:len(good) * 2 // 3], refusal="image data ends early (line ")
    put("png/cut-interlaced.png", png(a, 2, 8, True)[:300], refusal="image data ends early")
    put("png/cut-header.png", good[:20], refusal="ends in its header")
    few = png(a[:5], 2, 8)
    few = few[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, 8, 2, 0, 0, 0)) + few[33:]
    put("png/few-lines.png", few, refusal="image data ends early (line 6 of 11)")
    index = np.full((H, W), 3, np.uint8)
    put("png/outside-palette.png", png(index, 3, 8, extra=chunk(b"PLTE", bytes(9))), refusal="outside the palette")
    tiny = png(a, 2, 8)
    tiny = tiny[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 10000, 10000, 16, 6, 0, 0, 0)) + tiny[33:]
    put("png/hollow.png", tiny, refusal="image data ends early")


# --- Netpbm ----------------------------------------------------------------

def make_netpbm():
    bits = rng.integers(0, 2, (H, W)).astype(np.uint8)
    black_is_1 = ((1 - bits) * 255).astype(np.uint8)
    text = b"\n".join(b"".join(b"%d" % v for v in r) for r in bits)
    put("netpbm/p1.pbm", b"P1 # plain\n13 # width\n11\n" + text[:40] + b"# within\n" + text[40:], black_is_1, pil="L")
    put("netpbm/p4.pbm", b"P4\n13 11\n" + b"".join(pack_bits(r, 1) for r in bits), black_is_1, pil="L")
    for n, plain, raw in ((1, b"P2", b"P5"), (3, b"P3", b"P6")):
        for maxval in (1, 15, 100, 255, 256, 1023, 40000, 65535):
            wide = maxval > 255
            a = smooth(n, maxval, np.uint16 if wide else np.uint8)
            want = a if wide else np.array([[[round(int(v) / maxval * 255) for v in p] for p in r] for r in a], np.uint8)
            depth = maxval.bit_length() if wide else 8
            head = b"\n# a comment\n13 11 # another\n%d\n" % maxval
            data = b"\n".join(b" ".join(b"%d" % v for v in r.reshape(-1)) for r in a)
            ending = "pgm" if n == 1 else "ppm"
            # PIL spreads 16-bit samples, and clips colours: it is not asked.
            pil = None if wide and maxval != 65535 or wide and n == 3 else True
            put(f"netpbm/p{plain[1:].decode()}-{maxval}.{ending}", plain + head + data, want, pil=pil, bits=depth)
            data = a.astype(">u2" if wide else np.uint8).tobytes()
            put(f"netpbm/p{raw[1:].decode()}-{maxval}.{ending}", raw + head + data, want, pil=pil, bits=depth)
    for kind, n, maxval in (("BLACKANDWHITE", 1, 1), ("BLACKANDWHITE_ALPHA", 2, 1), ("GRAYSCALE", 1, 255), ("GRAYSCALE", 1, 4095),
                            ("GRAYSCALE_ALPHA", 2, 255), ("RGB", 3, 255), ("RGB", 3, 65535), ("RGB_ALPHA", 4, 255), ("RGB_ALPHA", 4, 65535)):
        wide = maxval > 255
        a = smooth(n, maxval, np.uint16 if wide else np.uint8)
        want = a * np.uint8(255) if maxval == 1 else a
        head = f"P7\n# comment\nWIDTH {W}\nHEIGHT {H}\nDEPTH {n}\nMAXVAL {maxval}\nTUPLTYPE {kind}\nENDHDR\n"
        put(f"netpbm/p7-{kind.lower()}-{maxval}.pam", head.encode() + a.astype(">u2" if wide else np.uint8).tobytes(), want,
            bits=maxval.bit_length() if wide else 8)
    put("netpbm/p7-unknown.pam", b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nTUPLTYPE DEPTH\nENDHDR\nx", refusal='tuple type "DEPTH"')
    put("netpbm/p7-no-end.pam", b"P7\nWIDTH 1\nHEIGHT 1", refusal="header has no end")
    put("netpbm/cut.ppm", b"P6\n3 4\n255\n" + bytes(20), refusal="image data ends early (line 3 of 4)")
    put("netpbm/cut-plain.pgm", b"P2\n3 4\n255\n" + b"0 " * 11 + b" ", refusal="image data ends early (line 4 of 4)")
    put("netpbm/cut-header.pgm", b"P2\n3 4\n", refusal="ends in its header")
    put("netpbm/above.pgm", b"P5\n2 2\n100\n\x00\x00\x00\x65", refusal="value 101 in line 2 is above the maxval of 100")
    put("netpbm/above-plain.pgm", b"P2\n2 2\n100\n1 2 3 101", refusal="value 101 in line 2 is above the maxval of 100")
    put("netpbm/above-16.pgm", b"P5\n2 1\n1000\n\x00\x00\x03\xe9", refusal="value 1001 in line 1 is above the maxval of 1000")
    put("netpbm/maxval-0.pgm", b"P5\n2 2\n0\n" + bytes(4), refusal="maxval 0")
    put("netpbm/word.pgm", b"P2\n2 2\n255\n1 x 1 1", refusal="where a number should be")
    put("netpbm/two.pgm", b"P5\n2 2\n255\nabcdP5\n2 2\n255\nabcd", refusal="more than one picture")
    put("netpbm/large.pgm", b"P5\n2000000000 2000000000\n255\n", refusal="over the limit")


# --- BMP -------------------------------------------------------------------

def bmp(rows, w, h, bits, size=40, compression=0, palette=b"", masks=b"", colours=0, offset=None, tail=b""):
    """A BMP of rows of bytes, as they lie in the file."""
    pixels = b"".join(r + bytes(-len(r) % 4) for r in rows) if isinstance(rows, list) else rows
    if size == 12:
        info = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", size, w, h, 1, bits, compression, len(pixels), 0, 0, colours, 0)
        if size > 40:
            info += masks
            info += bytes(size - len(info))
        else:
            info += masks
    start = 14 + len(info) + len(palette)
    if offset is None:
        offset = start
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, offset) + info + palette + pixels + tail


def quads(palette, bytes_each=4):
    return b"".join(bytes([b, g, r]) + bytes(bytes_each - 3) for r, g, b in palette)


def make_bmp():
    for bits in (1, 4, 8):
        palette = rng.integers(0, 256, (2 ** bits, 3)).astype(np.uint8)
        index = rng.integers(0, 2 ** bits, (H, W)).astype(np.uint8)
        lines = [pack_bits(r, bits) for r in index]
        put(f"bmp/pal{bits}.bmp", bmp(lines[::-1], W, H, bits, palette=quads(palette)), palette[index], pil="RGB")
        put(f"bmp/pal{bits}-topdown.bmp", bmp(lines, W, -H, bits, palette=quads(palette)), palette[index], pil="RGB")
        put(f"bmp/pal{bits}-os2.bmp", bmp(lines[::-1], W, H, bits, 12, palette=quads(palette, 3)), palette[index], pil="RGB")
    index = rng.integers(0, 5, (H, W)).astype(np.uint8)
    palette = rng.integers(0, 256, (5, 3)).astype(np.uint8)
    lines = [pack_bits(r, 8) for r in index][::-1]
    put("bmp/pal8-5colours.bmp", bmp(lines, W, H, 8, palette=quads(palette), colours=5), palette[index], pil="RGB")
    put("bmp/pal8-no-offset.bmp", bmp(lines, W, H, 8, palette=quads(palette), colours=5, offset=0), palette[index], pil="RGB")
    put("bmp/pal8-offset-of-palette.bmp", bmp(lines, W, H, 8, palette=quads(palette), colours=5, offset=54), palette[index], pil="RGB")
    put("bmp/pal8-outside.bmp", bmp(lines, W, H, 8, palette=quads(palette[:4]), colours=4), refusal="outside the palette of 4 colours")
    grey = smooth(1)
    ramp = [(i, i, i) for i in range(256)]
    put("bmp/grey8.bmp", bmp([r.tobytes() for r in grey[::-1]], W, H, 8, palette=quads(ramp)), grey, pil=True)
    bits = rng.integers(0, 2, (H, W)).astype(np.uint8)
    lines = [pack_bits(r, 1) for r in bits][::-1]
    put("bmp/grey1.bmp", bmp(lines, W, H, 1, palette=quads([(0, 0, 0), (255, 255, 255)])), bits * np.uint8(255), pil="L")
    inverse = np.repeat(((1 - bits) * 255).astype(np.uint8)[:, :, None], 3, axis=2)
    put("bmp/inverse1.bmp", bmp(lines, W, H, 1, palette=quads([(255, 255, 255), (0, 0, 0)])), inverse, pil="RGB")
    a = smooth(3)
    bgr = [r[:, ::-1].tobytes() for r in a][::-1]
    for size in (12, 40, 64, 108, 124):
        put(f"bmp/rgb24-{size}.bmp", bmp(bgr, W, H, 24, size), a, pil="RGB")
    put("bmp/rgb24-gap.bmp", bmp(b"gap!" + b"".join(r + bytes(-len(r) % 4) for r in bgr), W, H, 24, offset=58), a, pil="RGB")
    put("bmp/rgb24-tail.bmp", bmp(bgr, W, H, 24, tail=b"more"), a, pil="RGB")
    for name, masks, top in (("555", (0x7C00, 0x3E0, 0x1F), (31, 31, 31)), ("565", (0xF800, 0x7E0, 0x1F), (31, 63, 31))):
        small = np.stack([rng.integers(0, t + 1, (H, W)) for t in top], axis=2)
        shifts = [(m & -m).bit_length() - 1 for m in masks]
        words = sum(small[:, :, c] << shifts[c] for c in range(3)).astype("<u2")
        want = (small * 255 // np.array(top)).astype(np.uint8)
        lines = [r.tobytes() for r in words[::-1]]
        m = struct.pack("<III", *masks)
        put(f"bmp/rgb{name}.bmp", bmp(lines, W, H, 16, compression=3, masks=m), want, pil="RGB")
        put(f"bmp/rgb{name}-124.bmp", bmp(lines, W, H, 16, 124, compression=3, masks=m), want, pil="RGB")
        if name == "555":
            put("bmp/rgb16.bmp", bmp(lines, W, H, 16), want, pil="RGB")
    put("bmp/masks444.bmp", bmp(lines, W, H, 16, compression=3, masks=struct.pack("<III", 0xF00, 0xF0, 0xF)), refusal="masks")
    a = smooth(4)
    bgra = [r[:, [2, 1, 0, 3]].tobytes() for r in a][::-1]
    put("bmp/rgb32.bmp", bmp(bgra, W, H, 32), a[:, :, :3], pil="RGB")
    put("bmp/rgb32-124.bmp", bmp(bgra, W, H, 32, 124), a[:, :, :3], pil="RGB")
    standard = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    put("bmp/rgbx32.bmp", bmp(bgra, W, H, 32, compression=3, masks=struct.pack("<III", *standard[:3])), a[:, :, :3], pil="RGB")
    for size in (56, 108, 124):
        put(f"bmp/rgba32-{size}.bmp", bmp(bgra, W, H, 32, size, 3, masks=struct.pack("<IIII", *standard)), a,
            pil="RGBA" if size > 56 else None)
    put("bmp/rgba32-no-masks.bmp", bmp(bgra, W, H, 32, 124, 3), a, pil="RGBA")
    straight = [r.tobytes() for r in a][::-1]
    put("bmp/rgba32-order.bmp", bmp(straight, W, H, 32, 124, 3, masks=struct.pack("<IIII", 0xFF, 0xFF00, 0xFF0000, 0xFF000000)), a, pil="RGBA")
    abgr = [r[:, ::-1].tobytes() for r in a][::-1]
    put("bmp/abgr32-order.bmp", bmp(abgr, W, H, 32, 124, 3, masks=struct.pack("<IIII", 0xFF000000, 0xFF0000, 0xFF00, 0xFF)), a, pil="RGBA")
    make_bmp_runs()
    put("bmp/cut.bmp", bmp(bgr[:4], W, H, 24), refusal="image data ends early (line 5 of 11)")
    put("bmp/cut-header.bmp", bmp(bgr, W, H, 24)[:30], refusal="ends in its header")
    put("bmp/png-inside.bmp", bmp(b"", W, H, 24, compression=5), refusal="compression 5")
    put("bmp/os2-16.bmp", b"BM" + bytes(12) + struct.pack("<Iii", 16, 2, 2) + bytes(20), refusal="headers of 16 bytes")
    put("bmp/no-width.bmp", bmp([], 0, 5, 24), refusal="no pixels")


def make_bmp_runs():
    palette = rng.integers(0, 256, (16, 3)).astype(np.uint8)
    index = np.zeros((4, 12), np.uint8)
    index[3] = [5] * 7 + [1, 2, 3, 4, 9]       # the file's first row
    index[2] = [0] * 12                        # an empty row
    index[1] = [6, 7] * 4 + [0] * 4            # ended early
    index[0] = [0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
    run8 = bytes([7, 5, 0, 5, 1, 2, 3, 4, 9, 0, 0, 0, 0, 0, 0, 8, 6, 7, 6, 7, 6, 7, 6, 7, 0, 0, 2, 0, 10, 8, 0, 1])
    run4 = bytes([7, 0x55, 0, 5, 0x12, 0x34, 0x90, 0, 0, 0, 0, 0, 8, 0x67, 0, 0, 2, 0x00, 10, 0x88, 0, 1])
    # PIL 9.4 loses empty rows, reads odd literal runs of 4 bits wrongly and
    # reads too much after a skip, so that it is asked for rle8-plain only.
    put("bmp/rle8.bmp", bmp(run8, 12, 4, 8, compression=1, palette=quads(palette), colours=16), palette[index])
    put("bmp/rle4.bmp", bmp(run4, 12, 4, 4, compression=2, palette=quads(palette), colours=16), palette[index])
    plain = smooth(1, 15)[:, :, 0]
    data = b"".join(b"".join(bytes([1, v]) for v in r) + b"\0\0" for r in plain[::-1])[:-2] + b"\0\1"
    put("bmp/rle8-plain.bmp", bmp(data, W, H, 8, compression=1, palette=quads(palette), colours=16), palette[plain], pil="RGB")
    skip = np.zeros((4, 12), np.uint8)
    skip[3, 0] = 3
    skip[1, 6:] = 4
    run = bytes([1, 3, 0, 2, 5, 2, 6, 4, 0, 0, 12, 0])
    put("bmp/rle8-skip.bmp", bmp(run, 12, 4, 8, compression=1, palette=quads(palette), colours=16), palette[skip])
    put("bmp/rle8-over.bmp", bmp(bytes([13, 1]), 12, 4, 8, compression=1, palette=quads(palette), colours=16), refusal="a run leaves the image in line 1")
    put("bmp/rle8-early.bmp", bmp(bytes([12, 1, 0, 1]), 12, 4, 8, compression=1, palette=quads(palette), colours=16), refusal="ends early (line 1 of 4)")
    put("bmp/rle8-cut.bmp", bmp(bytes([12, 1, 0, 0, 3]), 12, 4, 8, compression=1, palette=quads(palette), colours=16), refusal="ends early (line 2 of 4)")


# --- npy -------------------------------------------------------------------

def npy(a, version=(1, 0)):
    b = io.BytesIO()
    np.lib.format.write_array(b, a, version)
    return b.getvalue()


def make_npy():
    for dtype in ("|u1", "<u2", ">u2", "<i2", ">i2"):
        for shape in ((H, W), (H, W, 1), (H, W, 2), (H, W, 3), (H, W, 4)):
            low, high = (-32768, 32768) if "i" in dtype else (0, 65536) if "2" in dtype else (0, 256)
            a = rng.integers(low, high, shape).astype(dtype)
            colour = "other" if shape[2:] in ((2,), (4,)) else None
            want = a.astype(a.dtype.newbyteorder("="))
            for order in "CF":
                name = f"npy/{dtype.replace('|', '').replace('<', 'little-').replace('>', 'big-')}-{'x'.join(map(str, shape))}-{order}.npy"
                put(name, npy(np.asarray(a, order=order)), want, colour)
    a = smooth(3)
    put("npy/version2.npy", npy(a, (2, 0)), a)
    put("npy/version3.npy", npy(a, (3, 0)), a)
    def hand(text, data, head=b"\x93NUMPY\1\0"):
        return head + struct.pack("<H", len(text)) + text + data
    put("npy/hand.npy", hand(b'{"shape":(2L, 2L),"fortran_order":False,"descr":"|u1"}', b"abcd"), np.frombuffer(b"abcd", np.uint8).reshape(2, 2))
    for name, value, refusal in (
            ("float32", np.zeros((3, 3), "<f4"), 'floating-point samples ("<f4")'),
            ("bool", np.zeros((3, 3), bool), 'boolean samples ("|b1")'),
            ("int8", np.zeros((3, 3), np.int8), 'signed samples ("|i1")'),
            ("uint32", np.zeros((3, 3), "<u4"), 'unsigned samples ("<u4")'),
            ("structured", np.zeros((3, 3), [("a", "u1"), ("b", "<f4")]), "structured samples"),
            ("1d", np.zeros(9, np.uint8), "1 dimensions"),
            ("0d", np.zeros((), np.uint8), "0 dimensions"),
            ("4d", np.zeros((1, 3, 3, 3), np.uint8), "4 dimensions"),
            ("chw", np.zeros((3, 8, 9), np.uint8), "channels first"),
            ("5channels", np.zeros((8, 9, 5), np.uint8), "5 channels"),
            ("empty", np.zeros((0, 3), np.uint8), "has no samples")):
        put(f"npy/{name}.npy", npy(value), refusal=refusal)
    good = npy(a)
    put("npy/cut.npy", good[:-1], refusal="ends early (428 of 429 bytes)")
    put("npy/cut-header.npy", good[:50], refusal="ends in its header")
    put("npy/long.npy", good + b"x", refusal="1 bytes follow the array")
    put("npy/version4.npy", good[:6] + b"\4" + good[7:], refusal="format version 4.0")
    put("npy/huge.npy", hand(b"{'descr':'|u1','fortran_order':False,'shape':(100000,100000)}", b""), refusal="over the limit")
    put("npy/vast.npy", hand(b"{'descr':'|u1','fortran_order':False,'shape':(9000000000,9000000000)}", b""), refusal="over the limit")
    for name, text in (("twice", b"{'descr':'|u1','descr':'|u1','fortran_order':False,'shape':(1,1)}"),
                       ("missing", b"{'descr':'|u1','shape':(1,1)}"), ("code", b"{'descr':str(1),'fortran_order':False,'shape':(1,1)}"),
                       ("negative", b"{'descr':'|u1','fortran_order':False,'shape':(-1,1)}"), ("list", b"[]"),
                       ("after", b"{'descr':'|u1','fortran_order':False,'shape':(1,1)} 1"), ("open", b"{'descr':'|u1'")):
        put(f"npy/header-{name}.npy", hand(text, b"x"), refusal="the header is not understood")


# --- TIFF and WebP -----------------------------------------------------------

def tiff(tags, pixels, order="<", after=0):
    """A TIFF of one strip; tags: number → list of (type, numbers)."""
    tags = dict(tags)
    head, n = 8, len(tags) + 2
    extra_at = head + 2 + 12 * n + 4
    extra = b""
    def values(kind, v):
        return b"".join(struct.pack(order + {1: "B", 3: "H", 4: "I"}[kind], x) for x in v)
    body = b""
    tags[273], tags[279] = (4, [0]), (4, [len(pixels)])
    size = sum(len(values(*t)) for t in tags.values() if len(values(*t)) > 4)
    tags[273] = (4, [extra_at + size])
    for tag in sorted(tags):
        kind, v = tags[tag]
        raw = values(kind, v)
        body += struct.pack(order + "HHI", tag, kind, len(v))
        if len(raw) <= 4:
            body += raw + bytes(4 - len(raw))
        else:
            body += struct.pack(order + "I", extra_at + len(extra))
            extra += raw
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(order + "I", head) + struct.pack(order + "H", n) + body + struct.pack(order + "I", after) + extra + pixels


def tags(samples, bits, photometric, **more):
    t = {256: (3, [W]), 257: (3, [H]), 258: (3, [bits] * samples), 259: (3, [1]), 262: (3, [photometric]), 277: (3, [samples]), 278: (3, [H])}
    t.update({int(k[1:]): v for k, v in more.items()})
    return t


def make_tiff():
    def saved(a, mode=None, **kw):
        b = io.BytesIO()
        Image.fromarray(a, mode).save(b, "TIFF", **kw)
        return b.getvalue()
    grey, rgb, rgba = smooth(1)[:, :, 0], smooth(3), smooth(4)
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        name = (compression or "raw").replace("tiff_", "")
        put(f"tiff/grey8-{name}.tif", saved(grey, compression=compression), grey, pil="L")
        put(f"tiff/rgb8-{name}.tif", saved(rgb, compression=compression), rgb, pil="RGB")
        put(f"tiff/rgba8-{name}.tif", saved(rgba, compression=compression), rgba, pil="RGBA")
    put("tiff/rgb8-lzw-predictor.tif", saved(rgb, compression="tiff_lzw", tiffinfo={317: 2}), rgb, pil="RGB")
    for order in "<>":
        wide = smooth(1, 65535, np.uint16)[:, :, 0]
        end = {"<": "little", ">": "big"}[order]
        put(f"tiff/grey16-{end}.tif", tiff(tags(1, 16, 1), wide.astype(order + "u2").tobytes(), order), wide, pil=True)
        colours = smooth(3, 65535, np.uint16)
        put(f"tiff/rgb16-{end}.tif", tiff(tags(3, 16, 2), colours.astype(order + "u2").tobytes(), order), colours)
        colours = smooth(4, 65535, np.uint16)
        put(f"tiff/rgba16-{end}.tif", tiff(tags(4, 16, 2, t338=(3, [2])), colours.astype(order + "u2").tobytes(), order), colours)
    palette = rng.integers(0, 256, (256, 3)).astype(np.uint8)
    index = rng.integers(0, 256, (H, W)).astype(np.uint8)
    cmap = [int(v) * 257 for v in palette.T.reshape(-1)]
    put("tiff/palette8.tif", tiff(tags(1, 8, 3, t320=(3, cmap)), index.tobytes()), palette[index], pil="RGB")
    bits = rng.integers(0, 2, (H, W)).astype(np.uint8)
    packed = b"".join(pack_bits(r, 1) for r in bits)
    put("tiff/bits.tif", tiff(tags(1, 1, 1), packed), bits * np.uint8(255), pil="L")
    put("tiff/bits-white0.tif", tiff(tags(1, 1, 0), packed), (1 - bits) * np.uint8(255), pil="L")
    put("tiff/grey8-white0.tif", tiff(tags(1, 8, 0), grey.tobytes()), 255 - grey, pil="L")
    flat = rgb.tobytes()
    for name, data, refusal in (
            ("orientation", tiff(tags(3, 8, 2, t274=(3, [6])), flat), "orientation 6"),
            ("planes", tiff(tags(3, 8, 2, t284=(3, [2])), flat), "separate planes"),
            ("premultiplied", tiff(tags(4, 8, 2, t338=(3, [1])), rgba.tobytes()), "a fourth sample that is not plain alpha"),
            ("unspecified", tiff(tags(4, 8, 2), rgba.tobytes()), "a fourth sample that is not plain alpha"),
            ("signed", tiff(tags(1, 16, 1, t339=(3, [2])), bytes(2 * H * W)), "signed or floating-point"),
            ("grey16-white0", tiff(tags(1, 16, 0), bytes(2 * H * W)), "photometric interpretation 0"),
            ("cmyk", tiff(tags(4, 8, 5), rgba.tobytes()), "photometric interpretation 5"),
            ("pages", tiff(tags(3, 8, 2), flat, after=8), "several pages"),
            ("predictor", tiff(tags(3, 8, 2, t317=(3, [2])), flat), "predictor 2"),
            ("reversed", tiff(tags(1, 1, 1, t266=(3, [2])), packed), "reversed bits"),
            ("old-lzw", tiff(tags(1, 8, 1, t259=(3, [5])), b"\0\1" + bytes(40)), "order of bits of old libraries"),
            ("fax", tiff(tags(1, 1, 1, t259=(3, [4])), packed), "compression CCITT fax 4"),
            ("cut", tiff(tags(3, 8, 2), flat)[:-3], "ends early"),
            ("cut-header", tiff(tags(3, 8, 2), flat)[:40], "ends in its header"),
            ("big", b"II+\0\x08\0\0\0" + bytes(20), "BigTIFF"),
            ("jpeg", saved(rgb, compression="jpeg"), "compression JPEG")):
        put(f"tiff/refused-{name}.tif", data, refusal=refusal)


def make_webp():
    def saved(a, **kw):
        b = io.BytesIO()
        kw.setdefault("exact", True)
        Image.fromarray(a).save(b, "WEBP", **kw)
        return b.getvalue()
    rgb, rgba = smooth(3, h=37, w=41), smooth(4, h=37, w=41)
    put("webp/lossless-rgb.webp", saved(rgb, lossless=True), rgb, pil="RGB")
    put("webp/lossless-rgba.webp", saved(rgba, lossless=True), rgba, pil="RGBA")
    for name, a in (("rgb", rgb), ("rgba", rgba)):
        for quality in (10, 90):
            data = saved(a, quality=quality)
            want = np.array(Image.open(io.BytesIO(data)))
            put(f"webp/lossy-{name}-{quality}.webp", data, want, pil=name.upper())
    profile = saved(rgb, lossless=True, icc_profile=b"no real profile", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")
    put("webp/profile.webp", profile, rgb, pil="RGB")
    data = saved(rgb, lossless=True)
    put("webp/cut-lossless.webp", data[:len(data) // 2], refusal="ends early")
    data = saved(rgb)
    put("webp/cut-lossy.webp", data[:len(data) // 2], refusal="ends early")
    b = io.BytesIO()
    Image.fromarray(rgb).save(b, "WEBP", save_all=True, append_images=[Image.fromarray(255 - rgb)])
    put("webp/animated.webp", b.getvalue(), refusal="animations")


if __name__ == "__main__":
    make_png()
    make_netpbm()
    make_bmp()
    make_npy()
    make_tiff()
    make_webp()
    with open(os.path.join(HERE, "expected.tsv"), "w") as f:
        for row in rows:
            f.write("\t".join(row) + "\n")
    print(len(rows), "files")
