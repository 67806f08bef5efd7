"""The files whose names and sizes benchmarks/names looks at."""

import os
import subprocess
import tempfile

import numpy as np
from PIL import Image

KINDS = 64          # of images; each file of L3 is a copy of one of them, with pages and inode of its own
NPY_HEAD_BYTES = 128
SMALLEST = 8        # pixels along an edge


def size_of(kind):
    return SMALLEST + kind % 8, SMALLEST + kind // 8


class Data:
    """What was made in a folder, for layouts by name."""

    def __init__(self, root, prismfs, files, classes):
        self.root, self.prismfs, self.files, self.classes = root, prismfs, files, classes

    def source(self, layout):
        return os.path.join(self.root, "pcr" if layout == "pcr" else "l3-" + layout)

    def plain(self, layout):
        return os.path.join(self.root, "plain-" + ("flat" if layout == "flat" else "classes"))

    def class_of(self, number):
        return f"n{number * self.classes // self.files:05d}"

    def make(self, layout):
        """Makes what is not there yet."""
        os.makedirs(self.root, exist_ok=True)
        self.once("l3-flat", self.make_l3)
        self.once("plain-flat", self.make_plain)
        if layout != "flat":
            self.once("plain-classes", lambda path: self.link(os.path.join(self.root, "plain-flat"), path))
        if layout == "classes":
            self.once("l3-classes", lambda path: self.link(os.path.join(self.root, "l3-flat"), path))
        if layout == "pcr":
            self.once("pcr", self.make_pcr)

    def once(self, name, make):
        path = os.path.join(self.root, name)
        if not os.path.exists(path):
            make(path + ".part")
            os.rename(path + ".part", path)

    def pictures(self, folder, suffix):
        """One image of each kind, noise, so that no two are alike."""
        rng = np.random.default_rng(1)
        for kind in range(KINDS):
            width, height = size_of(kind)
            Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(f"{folder}/{kind}{suffix}")

    def make_l3(self, path):
        os.makedirs(path)
        with tempfile.TemporaryDirectory() as work:
            os.mkdir(f"{work}/png")
            self.pictures(f"{work}/png", ".png")
            self.pack("l3", f"{work}/png", f"{work}/l3")
            contents = [open(f"{work}/l3/{kind}.l3", "rb").read() for kind in range(KINDS)]
        for number in range(self.files):
            file = os.open(f"{path}/img_{number:07d}.l3", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(file, contents[number % KINDS])
            os.close(file)

    def make_plain(self, path):
        os.makedirs(path)
        for number in range(self.files):
            width, height = size_of(number % KINDS)
            file = os.open(f"{path}/img_{number:07d}.npy", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.ftruncate(file, NPY_HEAD_BYTES + width * height * 3)
            os.close(file)

    def link(self, flat, path):
        for number in range(self.classes):
            os.makedirs(f"{path}/n{number:05d}")
        suffix = os.listdir(flat)[0].rpartition(".")[2]
        for number in range(self.files):
            name = f"img_{number:07d}.{suffix}"
            os.link(f"{flat}/{name}", f"{path}/{self.class_of(number)}/{name}")

    def make_pcr(self, path):
        """Packs links to KINDS JPEGs, which records hold as images of their own."""
        with tempfile.TemporaryDirectory(dir=self.root) as work:
            os.mkdir(f"{work}/jpeg")
            self.pictures(f"{work}/jpeg", ".jpg")
            for number in range(self.files):
                folder = f"{work}/tree/{self.class_of(number)}"
                if number == 0 or self.class_of(number) != self.class_of(number - 1):
                    os.makedirs(folder)
                os.link(f"{work}/jpeg/{number % KINDS}.jpg", f"{folder}/img_{number:07d}.jpg")
            self.pack("pcr", f"{work}/tree", path)

    def pack(self, to, source, destination):
        subprocess.run([self.prismfs, "pack", "--to", to, source, destination], check=True, stdout=subprocess.DEVNULL)

    def warm(self, layout):
        """Has the packed bytes in the page cache, and the plain names in the kernel's."""
        for path in (self.source(layout), self.plain(layout)):
            subprocess.run(["find", path, "-type", "f", "-size", "+1000G"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["find", self.source(layout), "-type", "f", "-exec", "cat", "{}", "+"], check=True, stdout=subprocess.DEVNULL)
