#!/usr/bin/python3 -B
"""A reader of PCR datasets with a PCR_index.pb that shares nothing with prismfs.

    pcr_reader.py [--pixels none|full|all] FOLDER

It knows what is published of the format and no more: fields that it does not know
it skips, and an image is what the readers of the format would make of it. It
prints JSON: the names in the index in their order, and of every record its labels
and levels, and of every image the length and SHA-256 of the JPEG at each fidelity
(a list, k = 1 first), and of the RGB pixels that PIL decodes (of full fidelity
alone, or of each). It stops with an error at whatever is not as published.
"""

import argparse
import hashlib
import io
import json
import os
import sys

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
EOI = b"\xff\xd9"


class Malformed(Exception):
    """The data is not as the format says."""


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed(f"no varint at {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def int32(value):
    """A protobuf int32: negative ones are 64-bit two's complement on the wire."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def fields(data):
    """The fields of a message: number, wire type, value (an integer or bytes)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise Malformed("field number 0")
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind in (BYTES, FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
            if kind == BYTES:
                size, at = varint(data, at)
            if at + size > len(data):
                raise Malformed(f"field {number} ends behind its message")
            value, at = data[at:at + size], at + size
        else:
            raise Malformed(f"wire type {kind}")
        yield number, kind, value


def repeated_int32(kind, value):
    """One element, or the packed form of several."""
    if kind == VARINT:
        return [int32(value)]
    numbers, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        numbers.append(int32(number))
    return numbers


def read_index(path):
    """The (name, lengths) entries of an index, in their order."""
    with open(path, "rb") as file:
        data = file.read()
    entries = []
    for number, kind, value in fields(data):
        if number != 1 or kind != BYTES:
            continue
        name, lengths = None, []
        for part, part_kind, part_value in fields(value):
            if part == 1:
                name = part_value.decode()
            elif part == 2:
                lengths += repeated_int32(part_kind, part_value)
        entries.append((name, lengths))
    return entries


def read_metadata(data):
    labels, levels, version = [], 0, 0
    for number, kind, value in fields(data):
        if number == 1:
            labels += repeated_int32(kind, value)
        elif number == 2:
            levels = int32(value)
        elif number == 3:
            version = int32(value)
    return labels, levels, version


def at_fidelities(groups):
    """The JPEG of an image at each fidelity, from its entries of the scan groups."""
    data, result = b"", []
    for part in groups:
        data += part
        result.append(data if data.endswith(EOI) else data + EOI)
    return result


def pixels(jpeg):
    from PIL import Image
    with Image.open(io.BytesIO(jpeg)) as image:
        rgb = image.convert("RGB")
        return {"mode": image.mode, "size": list(rgb.size), "sha256": hashlib.sha256(rgb.tobytes()).hexdigest()}


def read_record(path, lengths, wanted):
    with open(path, "rb") as file:
        data = file.read()
    if sum(lengths) != len(data):
        raise Malformed(f"{path}: {len(data)} bytes, the index says {sum(lengths)}")
    labels, levels, version = read_metadata(data[:lengths[0]])
    if levels != len(lengths) - 1:
        raise Malformed(f"{path}: {levels} levels, {len(lengths)} lengths")
    if version not in (0, 1):
        raise Malformed(f"{path}: version {version}")
    groups, at = [], lengths[0]
    for length in lengths[1:]:
        group = [value for number, _, value in fields(data[at:at + length]) if number == 1]
        if len(group) != len(labels):
            raise Malformed(f"{path}: {len(labels)} labels and {len(group)} images in group {len(groups) + 1}")
        groups.append(group)
        at += length
    images = []
    for number in range(len(labels)):
        jpegs = at_fidelities([group[number] for group in groups])
        image = {"bytes": [len(j) for j in jpegs], "sha256": [hashlib.sha256(j).hexdigest() for j in jpegs]}
        if wanted != "none":
            image["pixels"] = [pixels(j) for j in (jpegs if wanted == "all" else jpegs[-1:])]
        images.append(image)
    return {"labels": labels, "levels": levels, "version": version, "lengths": lengths, "images": images}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pixels", choices=("none", "full", "all"), default="full")
    parser.add_argument("folder")
    options = parser.parse_args()
    entries = read_index(os.path.join(options.folder, "PCR_index.pb"))
    records = {}
    for name, lengths in entries:
        if name not in records:
            records[name] = read_record(os.path.join(options.folder, name), lengths, options.pixels)
    json.dump({"index": [name for name, _ in entries], "records": records}, sys.stdout)


if __name__ == "__main__":
    main()
