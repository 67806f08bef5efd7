"""The checks of PCR datasets and of views whose fidelity is set while they are read."""

import errno
import hashlib
import http.client
import io
import json
import mmap
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import urllib.parse

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

from reading import expect, expect_errno, files_below, forked, read, same, same_pixels, stats


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def attribute(path, name):
    return os.getxattr(path, "user.prismfs." + name).decode()


# Datasets of the reference programs.


class Fixture:
    """A dataset of the reference converters, and what must come out of it."""

    def __init__(self, path):
        with open(os.path.join(path, "expected.json")) as file:
            self.records = json.load(file)["records"]
        self.records.sort(key=lambda record: int(re.search(r"\d+", record["name"])[0]))
        labels = [image["label"] for record in self.records for image in record["images"]]
        self.width = len(str(max(labels)))
        self.levels = max(record["progressive_levels"] for record in self.records)
        self.repeated = self.count_repeated()

    def count_repeated(self):
        """The images that the last record has from the one before, at its beginning."""
        if len(self.records) < 2:
            return 0
        before, last = (record["images"] for record in self.records[-2:])
        whole = [image["levels"][-1]["jpeg_sha256"] for image in before]
        begun = [image["levels"][-1]["jpeg_sha256"] for image in last[:len(before)]]
        return len(before) if begun == whole else 0

    def images(self, keep):
        """The images that a mount shows, each with its path without a suffix and its record."""
        for record in self.records:
            hidden = self.repeated if record is self.records[-1] and not keep else 0
            for index, image in enumerate(record["images"]):
                if index >= hidden:
                    stem = f"{record['name'].removesuffix('.pcr')}-{index:05d}"
                    yield f"{image['label']:0{self.width}d}/{stem}", image, record

    def hidden(self, keep):
        """The paths of the images that it does not show."""
        shown = {path for path, _, _ in self.images(keep)}
        return [path for path, _, _ in self.images(True) if path not in shown]


def check_pcr_fixture(mount, fixture, keep=False, processes=2, levels=None):
    """Every image at every fidelity: the JPEG and its pixels, by their SHA-256."""
    expected = Fixture(fixture)
    images = list(expected.images(keep))
    expect(len(images) > 0, "the fixture has no images")
    levels = levels or range(1, expected.levels + 1)

    def compare(share):
        for path, image, record in images[share::processes]:
            for k in levels:
                check_pcr_image(mount, expected, path, image, record, k)

    forked([lambda share=share: compare(share) for share in range(processes)])
    return {"images": len(images), "files": 2 * len(images) * len(levels)}


def check_pcr_until_gone(mount, fixture):
    """Images are right until the daemon is killed, which is soon."""
    expected = Fixture(fixture)
    images = list(expected.images(False))
    for count in range(1 << 20):
        path, image, record = images[count % len(images)]
        try:
            check_pcr_image(mount, expected, path, image, record, 1 + count % expected.levels)
        except OSError as error:
            expect(error.errno in (errno.ENOTCONN, errno.ECONNABORTED), f"{error}")
            return count


def check_pcr_image(mount, expected, path, image, record, k):
    # A fidelity above the record's last one is all of them.
    want = image["levels"][min(k, len(image["levels"])) - 1]
    what = f"{path} ({image['source']}) at fidelity {k}"
    jpeg = os.path.join(mount, f"+{k}+jpg", path + ".jpg")
    data = read(jpeg)
    expect(len(data) == want["jpeg_len"] == os.stat(jpeg).st_size, f"{what}: {len(data)} bytes of JPEG, want {want['jpeg_len']}")
    expect(sha256(data) == want["jpeg_sha256"], f"{what}: another JPEG")
    pixels = read(os.path.join(mount, f"+{k}+raw+rgb", path + ".raw"))
    height, width, channels = want["shape"]
    expect(len(pixels) == height * width * channels, f"{what}: {len(pixels)} bytes of pixels, want {height}×{width}×{channels}")
    expect(sha256(pixels) == want["rgb_sha256"], f"{what}: other pixels")
    if image["mode"] == "L":  # stays one channel where no three are asked for
        grey = read(os.path.join(mount, f"+{k}+raw", path + ".raw"))
        expect(sha256(grey) == want["native_sha256"], f"{what}: other pixels of its one channel")
    level = min(k, record["progressive_levels"])
    for name, value in (("label", image["label"]), ("fidelity", level), ("source", record["name"]),
                        ("encoded_bytes", want["jpeg_len"]), ("shape", f"{height},{width},{channels}")):
        got = attribute(os.path.join(mount, f"+{k}+raw+rgb", path + ".raw"), name)
        expect(got == str(value), f"{what}: attribute {name} is {got}, want {value}")


def check_pcr_tree(mount, fixture, keep=False, others=()):
    """The tree holds the images and nothing else, in every view; full fidelity is that of no number and of a large one."""
    expected = Fixture(fixture)
    images = list(expected.images(keep))
    paths = sorted(path for path, _, _ in images)
    for view, suffix in (("", ".npy"), ("+png", ".png"), ("+3+ppm", ".ppm"), ("+2+raw+chw", ".raw"), ("+jpg", ".jpg"), ("+1+orig", ".jpg")):
        listed = [name for name in files_below(os.path.join(mount, view)) if name not in others]
        expect(sorted(listed) == [path + suffix for path in paths], f"view {view!r} lists {len(listed)} files: {listed[:4]} …")
    expect(files_below(os.path.join(mount, "+l3")) == sorted(others), "there are L3 files of a PCR dataset")
    for path in expected.hidden(keep):
        expect(not os.path.exists(os.path.join(mount, path + ".npy")), f"{path} is repeated and is there")
    for path, image, _ in images[::max(1, len(images) // 8)]:
        full = read(os.path.join(mount, path + ".npy"))
        for view in ("+npy", f"+{expected.levels}", "+99", "+auto"):
            same(read(os.path.join(mount, view, path + ".npy")), full, f"{path} in view {view}")
        array = np.load(io.BytesIO(full))
        expect(sha256(Image.fromarray(array).convert("RGB").tobytes()) == image["levels"][-1]["rgb_sha256"], f"{path}: other pixels as .npy")
        with Image.open(os.path.join(mount, "+1+png", path + ".png")) as png:
            expect(sha256(png.convert("RGB").tobytes()) == image["levels"][0]["rgb_sha256"], f"{path}: other pixels as .png")
        same(read(os.path.join(mount, "+2+orig", path + ".jpg")), read(os.path.join(mount, "+2+jpg", path + ".jpg")), f"{path} as orig")
        single = os.path.join(mount, f"{path}+2+raw+rgb.raw")
        expect(sha256(read(single)) == image["levels"][min(2, len(image["levels"])) - 1]["rgb_sha256"], f"{single}: other pixels")
    for name in os.listdir(mount):
        expect(not name.endswith((".pcr", ".pb", ".db")), f"{name} is shown")
    return len(paths)


def check_pcr_bytes(mount, paths, k, limit):
    """What reading images in the given order costs: at most limit bytes for each that is needed."""
    before = stats(mount)
    size = 0
    for path in paths:
        read(os.path.join(mount, f"+{k}+raw", path + ".raw"))
        size += int(attribute(os.path.join(mount, f"+{k}+raw", path + ".raw"), "encoded_bytes"))
    after = stats(mount)
    cost = {key: after[key] - before[key] for key in ("store_bytes_read", "store_bytes_needed", "store_bytes_index")}
    needed, got = cost["store_bytes_needed"], cost["store_bytes_read"]
    # EOI is never stored.
    expect(size - 2 * len(paths) <= needed <= size, f"{needed} bytes were needed for {size} bytes of JPEGs")
    expect(needed <= got <= limit * needed, f"{got} bytes were read for {needed} that were needed")
    return cost


def check_pcr_some_paths(mount, count):
    """Some images of a mount, in random order."""
    paths = check_pcr_paths(mount)
    return random.Random(5).sample(paths, min(count, len(paths)))


def check_pcr_bytes_of_a_pass(mount, k, limit):
    """What a pass over all images in order costs, folder by folder."""
    return check_pcr_bytes(mount, check_pcr_paths(mount), k, limit)


def check_pcr_partly(mount, whole):
    """Of a damaged dataset: each file is that of the whole one, or an error. Returns how many are what."""
    told = {"Right": 0, "Wrong": 0, "Refused": 0}
    for path in check_pcr_paths(whole):
        for name in (f"+1+jpg/{path}.jpg", f"+jpg/{path}.jpg", f"+2+raw/{path}.raw", f"{path}.npy"):
            try:
                data = read(os.path.join(mount, name))
            except OSError as error:
                expect(error.errno in (errno.EIO, errno.ENOENT), f"{name}: {error}")
                told["Refused"] += 1
                continue
            told["Right" if data == read(os.path.join(whole, name)) else "Wrong"] += 1
    os.listdir(mount)
    return told


def check_pcr_against_pil(mount):
    """Each image is what PIL makes of its JPEG, or an error. Returns how many are what."""
    told = {"Right": 0, "Refused": 0}
    for folder in sorted(os.listdir(mount)):
        for name in sorted(os.listdir(os.path.join(mount, folder))):
            stem = os.path.join(folder, os.path.splitext(name)[0])
            for k in (1, 4, 99):
                try:
                    pixels = read(os.path.join(mount, f"+{k}+raw+rgb", stem + ".raw"))
                except OSError as error:
                    expect(error.errno == errno.EIO, f"{stem} at {k}: {error}")
                    told["Refused"] += 1
                    continue
                with Image.open(os.path.join(mount, f"+{k}+jpg", stem + ".jpg")) as image:
                    same(pixels, image.convert("RGB").tobytes(), f"{stem} at {k}")
                told["Right"] += 1
    return told


def check_text(path):
    return read(path).decode()


def check_config(mount):
    return json.loads(read(os.path.join(mount, ".prismfs", "config")))


def check_auto_by_default(mount, binary):
    """The default view can be one that is set; the mount point is its folder."""
    paths = [path.removesuffix(".png") for path in files_below(mount)]
    folder = Auto(binary, mount, "+auto")
    for k in (0, 2, 5):
        folder.set(k)
        for path in paths:
            with open(os.path.join(mount, path + ".png"), "rb") as file:
                same(file.read(), read(os.path.join(mount, f"+{k}+png" if k else "+png+99", path + ".png")), f"{path} at {k}")
    expect(folder.get() == 5, "the default view is another one than +auto")


def check_pcr_paths(mount):
    """The images of a mount without their suffix, in the order of a sorted walk."""
    return [path.removesuffix(".npy") for path in files_below(mount) if path.endswith(".npy")]


def check_pcr_by_pil(mount, source):
    """Whatever PIL makes of the JPEG of a fidelity is what the mount gives; at full fidelity, of the source too."""
    paths = check_pcr_paths(mount)
    expect(len(paths) > 0, "no images")
    compared = 0
    for path in paths:
        levels = 0
        while True:
            levels += 1
            data = read(os.path.join(mount, f"+{levels}+jpg", path + ".jpg"))
            with Image.open(io.BytesIO(data)) as image:
                want = np.asarray(image.convert("RGB"))
            with Image.open(os.path.join(mount, f"+{levels}+png+rgb", path + ".png")) as image:
                same_pixels(np.asarray(image), want, f"{path} at fidelity {levels}")
            compared += 1
            if attribute(os.path.join(mount, f"+{levels + 1}+raw", path + ".raw"), "fidelity") == str(levels):
                break
        expect(levels > 1, f"{path} has one fidelity")
        original = [name for name in os.listdir(os.path.join(source, os.path.dirname(path))) if os.path.splitext(name)[0] == os.path.basename(path)]
        expect(len(original) == 1, f"{path} stems from {original}")
        if original[0].lower().endswith((".jpg", ".jpeg")):
            with Image.open(os.path.join(source, os.path.dirname(path), original[0])) as image:
                same_pixels(want, np.asarray(image.convert("RGB")), f"{path} against its source")
        same(read(os.path.join(mount, "+orig", os.path.dirname(path), original[0])), data, f"{path} under its original name")
    return compared


def check_pcr_image_folder(mount, source, workers):
    """ImageFolder over a packed dataset: classes, indices and pixels are those of ImageFolder over its source."""
    originals = ImageFolder(source, transform=pil_to_tensor)
    for view in ("+png", "+jpg", "+ppm"):
        pictures = ImageFolder(os.path.join(mount, view), transform=pil_to_tensor)
        expect(pictures.class_to_idx == originals.class_to_idx, f"{view}: indices {pictures.class_to_idx}")
        expect(len(pictures) == len(originals), f"{view}: {len(pictures)} images, want {len(originals)}")
        loaded = DataLoader(pictures, batch_size=None, num_workers=workers)
        for (got, label), (want, want_label), (path, _) in zip(loaded, originals, originals.samples):
            expect(label == want_label, f"{view}, {path}: label {label}, want {want_label}")
            if path.lower().endswith((".jpg", ".jpeg")):
                same_pixels(np.asarray(got), np.asarray(want), f"{view}, {path}")


def check_pcr_damage(mount, bad, good):
    """Paths that must fail with EIO, and paths with the SHA-256 of what they hold."""
    for _ in range(2):
        for path in bad:
            expect_errno(errno.EIO, f"{path}, which is damaged,", lambda: read(os.path.join(mount, path)))
        for path, want in good.items():
            expect(sha256(read(os.path.join(mount, path))) == want, f"{path}: another content")
    expect(len(files_below(mount)) > 0, "nothing is listed")
    return stats(mount)["errors"]


def check_absent(mount, paths):
    """Names that must not be there, in listings and otherwise."""
    listed = set(files_below(mount))
    for path in paths:
        expect(path not in listed, f"{path} is listed")
        expect(not os.path.exists(os.path.join(mount, path)), f"{path} is there")


# Auto views.


class Auto:
    """An auto view, set and asked for with the command, as a person would, or by the socket, as a program would."""

    def __init__(self, binary, mount, view, by_socket=False):
        self.binary, self.path, self.view = binary, os.path.join(mount, view), view
        self.socket = json.loads(read(os.path.join(mount, ".prismfs", "config")))["socket"] if by_socket else None

    def set(self, k):
        if self.socket:
            self.ask("PUT", "/fidelity", json.dumps({"view": self.view, "fidelity": k}))
        else:
            self.run(str(k) if k else "full")

    def get(self):
        if self.socket:
            return self.ask("GET", "/fidelity?view=" + urllib.parse.quote_plus(self.view))["fidelity"]
        name, value = self.run().rstrip("\n").split("\t")
        expect(name == self.view, f"{self.path} is called {name}")
        return 0 if value == "full" else int(value)

    def run(self, *more):
        done = subprocess.run([self.binary, "fidelity", self.path, *more], capture_output=True, text=True)
        expect(done.returncode == 0, f"prismfs fidelity {self.path} {more}: {done.stderr}")
        return done.stdout

    def ask(self, method, target, body=None):
        connection = http.client.HTTPConnection("prismfs")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.socket)
        connection.request(method, target, body)
        answer = connection.getresponse()
        text = json.loads(answer.read())
        connection.close()
        expect(answer.status == 200, f"{method} {target} {body}: {answer.status} {text}")
        return text


def contents(mount, paths, levels, terms, suffix):
    """What each path holds at each fidelity, by views with a number; 0 is full."""
    return {(path, k): read(os.path.join(mount, f"+{k}{terms}" if k else terms, path + suffix))
            for path in paths for k in (0, *levels)}


def check_auto(mount, binary):
    """What is opened later has the fidelity that was set; what is open or mapped keeps its own."""
    paths = check_pcr_paths(mount)[:6]
    for terms, suffix in (("+png", ".png"), ("+raw+rgb", ".raw"), ("+jpg", ".jpg"), ("+npy", ".npy")):
        name = f"+auto-{suffix[1:]}"
        by_socket = suffix != ".png"
        auto, other = Auto(binary, mount, name, by_socket), Auto(binary, mount, name + "-other", by_socket)
        held, mapped, kept = [], [], []
        want = contents(mount, paths, (1, 2, 3, 5), terms, suffix)
        expect(len({sha256(want[paths[0], k]) for k in (0, 1, 2, 3, 5)}) == 5, "fidelities do not differ")
        expect(auto.get() == 0, "a view that was never set has not full fidelity")
        for step, k in enumerate((0, 3, 1, 0, 5, 5, 2, 3)):
            if step:
                auto.set(k)
            expect(auto.get() == k, f"{name} is {auto.get()}, was set to {k}")
            for path in paths:
                file = os.path.join(mount, name + terms, path + suffix)
                expect(os.stat(file).st_size == len(want[path, k]), f"{file} at {k}: st_size {os.stat(file).st_size}")
                handle = open(file, "rb")
                same(handle.read(), want[path, k], f"{file} at {k}")
                expect(os.fstat(handle.fileno()).st_size == len(want[path, k]), f"{file} at {k}: st_size of the handle")
                held.append((handle, path, k))
                mapped.append((mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ), path, k))
                same(read(os.path.join(mount, name + "-other" + terms, path + suffix)), want[path, 0], f"{name}-other beside {name}")
                level = attribute(file, "fidelity")
                expect(k == 0 or level == str(k), f"{file} at {k}: attribute {level}")
            for handle, path, k in held:
                handle.seek(0)
                same(handle.read(), want[path, k], f"{path}{suffix}, held since {k}")
            for view, path, k in mapped:
                same(bytes(view), want[path, k], f"{path}{suffix}, mapped since {k}")
        expect(other.get() == 0, f"{other.view} was changed by another")
        for handle, _, _ in held:
            handle.close()
    log = read(os.path.join(mount, ".prismfs", "log")).decode()
    changes = re.findall(r"time=\S+ level=INFO msg=\"the fidelity of a view was set\" view=\+auto-png fidelity=(\d+) before=(\d+)", log)
    expect(changes == [("3", "0"), ("1", "3"), ("0", "1"), ("5", "0"), ("5", "5"), ("2", "5"), ("3", "2")], f"the log says {changes}")


def check_auto_names(mount, binary):
    """What can be set and what cannot, with the exit statuses of the command."""
    def run(*words):
        return subprocess.run([binary, "fidelity", *words], capture_output=True, text=True)

    folder = os.path.dirname(check_pcr_paths(mount)[0])
    for words, status in (((mount + "/+auto", "3"), 0), ((mount + "/+auto+png", "4"), 0), ((mount + f"/{folder}+auto-a", "2"), 0),
                          ((mount + "/+auto", "full"), 0), ((mount + "/+auto", "x"), 2), ((mount + "/+auto", "-1"), 2),
                          ((mount + "/+3", "3"), 2), ((mount + f"/{folder}", "3"), 2), ((mount + f"/+auto/{folder}", "3"), 2),
                          ((mount + "/nothing+auto", "3"), 4), ((mount + "/+auto-", "3"), 4), (("/proc", "3"), 15),
                          ((mount + "/+auto+3", "3"), 4), ((mount, "3"), 2), ((mount + "/+auto", "9999999"), 2)):
        done = run(*words)
        expect(done.returncode == status, f"prismfs fidelity {words}: status {done.returncode}, want {status}: {done.stderr}")
        expect((done.stderr == "") == (status == 0), f"prismfs fidelity {words} says {done.stderr!r}")
    done = run(mount + "/+auto", "99")
    expect(done.returncode == 0 and re.search(r"warning: .*no image has fidelity 99, \d+ is the largest: all are shown at full", done.stderr), f"more than there is: status {done.returncode}, {done.stderr!r}")
    run(mount + "/+auto", "full")
    # Form and order of the terms do not matter, the name does.
    expect(run(mount + "/+png+auto").stdout == "+auto\tfull\n", run(mount + "/+png+auto").stdout)
    expect(run(mount).stdout == f"+auto\tfull\n{folder}+auto-a\t2\n", run(mount).stdout)
    expect(run(mount + f"/{folder}+auto-a+jpg").stdout == f"{folder}+auto-a\t2\n", "a view of a folder")
    image = check_pcr_paths(mount)[0]
    stem = os.path.basename(image)
    # Terms of a file are those of its folder.
    same(read(os.path.join(mount, folder, stem + "+auto-a+raw.raw")), read(os.path.join(mount, "+2+raw", image + ".raw")), "a file with an auto term")
    config = json.loads(read(os.path.join(mount, ".prismfs", "config")))
    mode = os.stat(config["socket"])
    expect(mode.st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(config["socket"])).st_mode & 0o777 == 0o700,
           f"{config['socket']} is open to others")
    return config["socket"]


class Settings:
    """The settings of one view over time, seen by several processes: numbers begun and done say which can be in force."""

    def __init__(self, length):
        self.history = multiprocessing.RawArray("i", length)
        self.begun, self.done = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)

    def set(self, auto, k):
        self.history[self.begun.value + 1] = k
        self.begun.value += 1
        auto.set(k)
        self.done.value += 1

    def possible(self, done):
        """Those in force since done was read."""
        return set(self.history[done:self.begun.value + 1])


class Watched:
    """A dataset for workers: each item is right if it has one of the fidelities that were set while it was opened."""

    def __init__(self, mount, view, suffix, paths, want, settings):
        self.mount, self.view, self.suffix = mount, view, suffix
        self.paths, self.want, self.settings = paths, want, settings
        self.held = []

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        name = os.path.join(self.mount, self.view, path + self.suffix)
        done = self.settings.done.value
        file = open(name, "rb")
        possible = self.settings.possible(done)
        data = file.read()
        right = [k for k in possible if self.want[path, k] == sha256(data)]
        expect(len(right) > 0, f"{name}: not the content of any of the fidelities {possible}")
        self.hold(file, data)
        return index, right[0]

    def hold(self, file, data):
        """Keeps files open over changes and looks at them again when they are closed."""
        self.held.append((file, sha256(data)))
        if len(self.held) > 16:
            old, want = self.held.pop(random.randrange(8))
            old.seek(0)
            expect(sha256(old.read()) == want, f"{old.name}: an open file changed")
            old.close()


def check_auto_jobs(mount, binary, changes):
    """Two jobs with their own views, workers and epochs; each has its fidelity changed in mid-epoch again and again."""
    paths = check_pcr_paths(mount)
    levels = (1, 2, 3, 5)
    jobs = []
    for view, terms, suffix in (("+auto-a", "+png", ".png"), ("+auto-b", "+raw+rgb", ".raw")):
        want = {key: sha256(data) for key, data in contents(mount, paths, levels, terms, suffix).items()}
        settings = Settings(changes + 2)
        jobs.append((Auto(binary, mount, view, by_socket=True), Watched(mount, view + terms, suffix, paths, want, settings), settings))

    def load(auto, dataset, settings):
        seen, epochs, rng = set(), 0, random.Random(7)
        while settings.done.value < changes or epochs < 2:
            loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)
            for number, (_, fidelities) in enumerate(loader):
                seen |= set(fidelities.tolist())
                if number % 3 == 1 and settings.done.value < changes:
                    settings.set(auto, rng.choice((0, *levels)))
            epochs += 1
        expect(len(seen) > 2, f"{auto.view}: only fidelities {seen} were seen in {epochs} epochs")

    forked([lambda job=job: load(*job) for job in jobs])
    return stats(mount)["served"]


def check_autotune(mount, binary, script, folder):
    """The example, as a user runs it: it must set the fidelity that it prints."""
    done = subprocess.run([sys.executable, script, "--prismfs", binary, "--batches", "2", "--batch-size", "8", "--size", "64",
                           "--model", "small", "--all", os.path.join(mount, folder + "+auto-tune")], capture_output=True, text=True)
    expect(done.returncode == 0, f"{script}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    chosen = re.search(r"fidelity (\d+|full) is set", done.stdout)
    expect(chosen is not None, f"{script} says {done.stdout}")
    cosines = {int(k): float(c) for k, c in re.findall(r"^ +(\d+)  +(-?[\d.]+)  +[\d.]+$", done.stdout, re.M)}
    expect(len(cosines) > 2, f"{script} says {done.stdout}")
    good = [k for k in sorted(cosines) if cosines[k] > 0.8]
    expect(chosen[1] == (str(good[0]) if good else "full"), f"{chosen[1]} was chosen of {cosines}")
    got = subprocess.run([binary, "fidelity", os.path.join(mount, folder + "+auto-tune")], capture_output=True, text=True).stdout
    expect(got == f"{folder}+auto-tune\t{chosen[1]}\n", f"{got!r} is set, {chosen[1]} was printed")
    return chosen[1]
