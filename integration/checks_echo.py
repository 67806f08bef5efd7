"""The checks of echo views: what is served is of the right class, as often as it should be."""

import collections
import errno
import hashlib
import io
import multiprocessing
import os
import random
import subprocess

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, DistributedSampler, Subset, random_split
from torchvision.datasets import DatasetFolder, ImageFolder

from reading import expect, expect_errno, files_below, forked, read, stats

CYCLES = {"1": (1, 1), "1.5": (3, 2), "2": (2, 1), "3": (3, 1)}  # requests, of which so many are fresh


def digest(pixels):
    pixels = np.ascontiguousarray(pixels)
    return hashlib.sha256(str((pixels.shape, pixels.dtype.str)).encode() + pixels.tobytes()).hexdigest()


def picture(file):
    with Image.open(file) as image:
        return np.asarray(image)


def known(source):
    """The images of a source tree, CLASS/STEM, by their pixels."""
    table = {digest(picture(os.path.join(source, name))): os.path.splitext(name)[0] for name in files_below(source)}
    expect(len(table) == len(files_below(source)), "two images of the source are the same")
    return table


class Served:
    """Samples of a dataset folder, each as the path of its name and the image that it is."""

    def __init__(self, dataset, table):
        self.dataset, self.table = dataset, table

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        pixels, label = self.dataset[index]
        name = os.path.splitext(os.path.relpath(self.dataset.samples[index][0], self.dataset.root))[0]
        image = self.table.get(digest(np.asarray(pixels)))
        expect(image is not None, f"{name} has pixels that no image has")
        expect(self.dataset.classes[label] == os.path.dirname(image), f"{name} of class {self.dataset.classes[label]} is {image}")
        return name, image


def tree(mount, view, table, form="npy"):
    root = os.path.join(mount, view)
    if form == "png":
        return Served(ImageFolder(root + "+png"), table)
    return Served(DatasetFolder(root, loader=np.load, extensions=(".npy",)), table)


def passes(dataset, count, workers=0, **options):
    """What each of so many passes in random order serves: pairs of a name and the image that it got."""
    loader = DataLoader(dataset, batch_size=None, shuffle="sampler" not in options, num_workers=workers, **options)
    for number in range(count):
        if "sampler" in options and hasattr(options["sampler"], "set_epoch"):
            options["sampler"].set_epoch(number)
        yield list(loader)


def counts(mount):
    """Requests that were fresh, and all; images that were decoded; errors."""
    now = stats(mount)
    return collections.Counter(fresh=now["echo_fresh"], requests=now["echo_fresh"] + now["echo_echoes"], forced=now["echo_forced"],
                               decoded=now["decoded"], errors=now["errors"])


def check_echo_loader(mount, source, folder, factor, workers, form, seed):
    """Decodes for each read are 1/e, and every name is fresh as often as it must be in every e passes."""
    table = known(source)
    dataset = tree(mount, f"{folder}+echo{factor}+seed{seed}", table, form)
    expect(len(dataset) == len(table), f"{len(dataset)} samples, want {len(table)}")
    requests, fresh = CYCLES[factor]
    for cycle in range(2):
        before = counts(mount)
        own = collections.Counter()
        serves = collections.Counter()
        for served in passes(dataset, requests, workers):
            own.update(name for name, image in served if name == image)
            serves.update(image for _, image in served)
        what = f"echo{factor}, cycle {cycle}"
        change = counts(mount) - before
        expect(change["requests"] == requests * len(table), f"{what}: {change['requests']} requests of {requests * len(table)} reads")
        expect(change["fresh"] == fresh * len(table) and change["forced"] == 0, f"{what}: {dict(change)}")
        few = [name for name in table.values() if own[name] < fresh]
        expect(not few, f"{what}: {len(few)} names were fresh less than {fresh} times, such as {few[:3]}")
        expect(set(serves) == set(table.values()), f"{what}: {len(serves)} of {len(table)} images were served")
        # An image can be in the cache by another view, and then it is not decoded.
        expect(change["decoded"] <= change["fresh"], f"{what}: {dict(change)}")
        expect(sum(serves.values()) / len(serves) == requests, f"{what}: an image is served {sum(serves.values()) / len(serves)} times")
    expect(factor == "1" or max(serves.values()) > 1, "no image was served twice")


def check_echo_decodes(mount, source, folder):
    """Of images that are in no cache, those that are decoded are 1/e of the reads within 2 %."""
    for factor in ("2", "3"):
        requests, fresh = CYCLES[factor]
        # A form that nothing else reads: its images cannot be in the cache.
        form = {"2": "raw", "3": "raw+chw"}[factor]
        root = os.path.join(mount, f"{folder}+echo{factor}+{form}")
        names = files_below(root)
        before = counts(mount)
        for number in range(requests):
            for name in random.Random(number).sample(names, len(names)):
                read(os.path.join(root, name))
        change = counts(mount) - before
        share, want = change["decoded"] / (requests * len(names)), fresh / requests
        expect(abs(share - want) <= 0.02 * want, f"echo{factor}: {share:.4f} images decoded for each read, want {want:.4f}")


def check_echo_split(mount, source, folder):
    """Of a random split of one tree, not one image of the other part is served."""
    table = known(source)
    dataset = tree(mount, folder + "+echo2+seed21", table)
    ours, others = random_split(dataset, [0.9, 0.1], generator=torch.Generator().manual_seed(5))
    plain = Subset(tree(mount, folder, table), others.indices)
    allowed = {dataset.dataset.samples[i][0] for i in ours.indices}
    allowed = {os.path.splitext(os.path.relpath(path, dataset.dataset.root))[0] for path in allowed}
    for served, validation in zip(passes(ours, 4, 2), passes(plain, 4)):
        strangers = {image for _, image in served} - allowed
        expect(not strangers, f"{len(strangers)} images of the other part were served, such as {sorted(strangers)[:3]}")
        expect(all(name == image for name, image in validation), "a name of the plain view is another image")


def check_echo_ranks(mount, source, folder):
    """Four ranks with a seed each get images of their own share alone, and all of it."""
    table = known(source)

    def rank(number):
        dataset = tree(mount, f"{folder}+echo2+seed{31 + number}", table)
        share = Subset(dataset, range(number, len(dataset), 4))
        names = {sorted(table.values())[i] for i in share.indices}
        for cycle in range(2):
            got = {image for served in passes(share, 2) for _, image in served}
            expect(got == names, f"rank {number}: {len(got)} images, of which {len(got - names)} are not of its share of {len(names)}")

    forked([lambda number=number: rank(number) for number in range(4)])


def check_echo_shared(mount, source, folder):
    """Four ranks of one view, whose shares change with the epoch, read all images together."""
    table = known(source)
    out = os.path.join(os.path.dirname(source), "shared")
    os.makedirs(out, exist_ok=True)
    before = counts(mount)
    epoch = multiprocessing.get_context("fork").Barrier(4)

    def rank(number):
        dataset = tree(mount, folder + "+echo3+seed41", table)
        sampler = DistributedSampler(dataset, num_replicas=4, rank=number, seed=9)
        with open(os.path.join(out, str(number)), "w") as file:
            for served in passes(dataset, 3, sampler=sampler):
                file.writelines(image + "\n" for _, image in served)
                epoch.wait(60)  # as ranks of a job do, by their gradients

    forked([lambda number=number: rank(number) for number in range(4)])
    got = {line.strip() for number in range(4) for line in open(os.path.join(out, str(number)))}
    change = counts(mount) - before
    expect(got == set(table.values()), f"{len(got)} of {len(table)} images were served")
    expect(change["fresh"] == len(table) and change["requests"] == 3 * len(table), f"{dict(change)}, want {len(table)} fresh")


def check_echo_readers(mount, source, folder):
    """Eight readers of one view at once."""
    table = known(source)
    before = counts(mount)

    def reader(number):
        dataset = tree(mount, folder + "+echo2+seed51+buffer8", table)
        order = random.Random(number)
        for _ in range(2):
            for index in order.sample(range(len(dataset)), len(dataset)):
                dataset[index]

    forked([lambda number=number: reader(number) for number in range(8)])
    change = counts(mount) - before
    expect(change["requests"] == 8 * 2 * len(table), f"{change['requests']} requests of {8 * 2 * len(table)} reads")
    share = change["fresh"] / change["requests"]
    expect(abs(share - 1 / 2) <= 0.02 / 2, f"{share:.4f} of the requests were fresh, want a half")
    expect(change["errors"] == 0, f"{change['errors']} errors")


def check_echo_source(mount, source, folder):
    """The attribute of an open file names the image that it is."""
    table = known(source)
    root = os.path.join(mount, folder + "+echo2+seed61")
    echoes = 0
    for number in range(4):
        names = files_below(root)
        for name in random.Random(number).sample(names, len(names)):
            with open(os.path.join(root, name), "rb") as file:
                image = table[digest(np.load(file))]
                said = os.getxattr(file.fileno(), "user.prismfs.source").decode()
            expect(said == f"{folder}/{image}.l3", f"{name} is {image} and says {said}")
            echoes += said != f"{folder}/{os.path.splitext(name)[0]}.l3"
    expect(echoes > len(table), f"{echoes} of {4 * len(table)} reads were of another image")


def check_echo_mixed(mount, source, folder):
    """Sizes, headers and pixels of one open are of one image, whatever the shapes."""
    table = known(source)
    root = os.path.join(mount, folder + "+echo2")
    names = files_below(root)
    order = random.Random(1)

    def right(name, pixels, how):
        image = table.get(digest(pixels))
        expect(image is not None, f"{name} {how}: no image has these pixels")
        expect(os.path.dirname(image) == os.path.dirname(name), f"{name} {how}: it is {image}")
        return image

    def whole(path, name):
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            held = os.fstat(file.fileno()).st_size
            data = file.read()
        expect(size == held == len(data), f"{name}: stat says {size} bytes, fstat {held}, and {len(data)} were read")
        right(name, np.load(io.BytesIO(data)), "read")

    def mapped(path, name):
        right(name, np.array(np.load(path, mmap_mode="r")), 'by np.load with mmap_mode="r"')

    def twice(path, name):  # as OpenCV does: the signature first
        with open(path, "rb") as file:
            head = file.read(128)
        data = read(path)
        expect(data[:128] == head, f"{name}: two opens in a row are of two images")
        right(name, np.load(io.BytesIO(data)), "opened twice")

    def several(path, name):
        array = np.load(path, mmap_mode="r")
        expect(right(name, np.array(array), "held") == right(name, np.array(array), "held"), f"{name} has changed while it was mapped")

    before = counts(mount)
    for number, way in enumerate((whole, mapped, whole, several)):
        for name in order.sample(names, len(names)):
            way(os.path.join(root, name), name)
    change = counts(mount) - before
    reads = 4 * len(names)
    # A thread that opens the name again at the end of a pass is taken to go on.
    expect(abs(change["requests"] - reads) <= 4, f"{change['requests']} requests of {reads} reads")
    expect(abs(change["fresh"] - reads / 2) <= 4, f"{change['fresh']} of {reads} reads were fresh")

    def opens_twice():
        for name in order.sample(names, len(names)):
            twice(os.path.join(root, name), name)

    root = os.path.join(mount, folder + "+echo2+seed1")
    before = counts(mount)
    forked([opens_twice])
    change = counts(mount) - before
    expect(change["requests"] == len(names), f"{change['requests']} requests of {len(names)} names that were opened twice each")
    # Maps that stay while the names are read again keep what they have.
    held = [(name, np.load(os.path.join(root, name), mmap_mode="r")) for name in names[:40]]
    images = [right(name, np.array(array), "held") for name, array in held]
    for number in range(2):
        for name in order.sample(names, len(names)):
            whole(os.path.join(root, name), name)
    expect(images == [right(name, np.array(array), "held") for name, array in held], "a map has changed")
    expect(change["errors"] == 0, f"{change['errors']} errors")


def check_echo_small_cache(mount, source, folder, one_of_each):
    """Pools stay within half of the budget; everything served is right."""
    table = known(source)
    before = counts(mount)
    dataset = tree(mount, folder + "+echo2", table)
    for _ in passes(dataset, 4, 2):
        now = stats(mount)
        expect(now["echo_bytes"] <= now["cache_budget_bytes"] // 2, f"pools hold {now['echo_bytes']} of {now['cache_budget_bytes']} bytes")
        expect(now["pinned_bytes"] <= now["cache_limit_bytes"], f"{now['pinned_bytes']} of {now['cache_limit_bytes']} bytes are pinned")
    forked([lambda: list(passes(dataset, 2))] * 4)
    change = counts(mount) - before
    expect(change["requests"] == 12 * len(table), f"{change['requests']} requests of {12 * len(table)} reads")
    expect(change["errors"] == 0, f"{change['errors']} errors")
    if one_of_each:
        share = change["fresh"] / change["requests"]
        expect(abs(share - 1 / 2) <= 0.02 / 2, f"{share:.4f} of the requests were fresh, want a half")


def check_echo_refusals(mount):
    """Where labels would be wrong nothing is served, and the log says why; where they are right it is."""
    unsupported = errno.EOPNOTSUPP
    expect_errno(unsupported, "an echo view of a folder without classes", lambda: read(f"{mount}/flat+echo2/a.npy"))
    expect_errno(unsupported, "an echo view of images with a text beside them", lambda: read(f"{mount}/sides+echo2/c/a.npy"))
    expect_errno(unsupported, "a list of images without classes", lambda: os.listdir(f"{mount}/flat+echo2"))
    expect_errno(unsupported, "a list of images with a text beside them", lambda: os.listdir(f"{mount}/sides+echo2/c"))
    try:  # os.walk, by which torchvision lists, takes a folder that it cannot list for an empty one
        DatasetFolder(f"{mount}/sides+echo2", loader=np.load, extensions=(".npy",))
        raise AssertionError("a dataset of a folder that is refused can be made")
    except FileNotFoundError as error:
        expect("for the classes c" in str(error), f"a dataset of a folder that is refused: {error}")
    expect(os.listdir(f"{mount}/sides+echo2") == ["c"], "the class folders of the refused one are not listed")
    expect(np.load(f"{mount}/sides/c/a.npy").shape == (20, 30, 3), "the plain view is wrong")
    expect_errno(errno.ENOENT, "an echo view of stored files", lambda: os.stat(f"{mount}/uniform+echo2+l3"))
    expect_errno(errno.ENOENT, "a seed without echoes", lambda: os.stat(f"{mount}/uniform+seed2"))
    expect_errno(errno.ENOENT, "echoes of one file", lambda: os.stat(f"{mount}/uniform/class-0/00+echo2.npy"))
    wrong = {
        "echo0": "from 1 to 100", "echo101": "from 1 to 100", "echo1.234": "two decimals", "echo": "from 1 to 100",
        "echo2+buffer0": "from 1 to 1000000", "echo2+seed9223372036854775808": "from 0 to", "echo2+seed01": "without zeros",
        "buffer5": "belong to echoE", "shard5": "belong to stream", "stream+shard0": "from 1 to", "stream+shard1000001": "from 1 to",
        "stream+rank2of2": "R from 0 to W-1", "stream+rank0": "R from 0 to W-1", "stream+strem": "no view term",
    }
    for terms in wrong:
        expect_errno(errno.ENOENT, terms, lambda: os.stat(f"{mount}/uniform+{terms}"))
        expect_errno(errno.ENOENT, terms, lambda: os.listdir(f"{mount}/uniform+{terms}"))
    log = read(f"{mount}/.prismfs/log").decode()
    for terms, why in wrong.items():
        told = [line for line in log.splitlines() if f"path=uniform+{terms} " in line]
        expect(len(told) == 1 and why in told[0], f"the log of {terms} is {told}, want one line with {why!r}")
    for why in ("folder above", "b.txt", "l3 shows what is stored", "terms of folders"):
        expect(why in log, f"the log does not say {why!r}:\n{log[-2000:]}")


def check_echo_pcr(mount, binary, source):
    """Echoes of PCR: at a fidelity, of all classes, and of an auto view whose fidelity is set in between."""
    plain = DatasetFolder(mount, loader=np.load, extensions=(".npy",))
    names = [os.path.relpath(path, mount) for path, _ in plain.samples]
    expect(len(names) == len(files_below(source)), f"{len(names)} images, want {len(files_below(source))}")
    tables = {k: {digest(np.load(os.path.join(mount, f"+{k}", name))): os.path.dirname(name) for name in names} for k in (1, 2, 4)}

    def read_all(root, k, count=2):
        for number in range(count):
            for name in random.Random(number).sample(names, len(names)):
                with open(os.path.join(root, name), "rb") as file:
                    pixels = np.load(file)
                    said = int(os.getxattr(file.fileno(), "user.prismfs.fidelity"))
                where = tables[k].get(digest(pixels))
                expect(where == os.path.dirname(name), f"{name} at fidelity {k}: its class is {where}")
                expect(said == k, f"{name} at fidelity {k} says {said}")

    before = counts(mount)
    read_all(f"{mount}/+2+echo2", 2)
    change = counts(mount) - before
    expect(change["fresh"] == len(names) and change["requests"] == 2 * len(names), f"{dict(change)}, want {len(names)} fresh")
    for k in (4, 1, 2):
        subprocess.run([binary, "fidelity", f"{mount}/+auto", str(k)], check=True, capture_output=True)
        read_all(f"{mount}/+auto+echo1.5", k, 3)
    # A folder of a PCR dataset carries its label, so the terms may stand there.
    label = os.path.dirname(names[0])
    got = np.load(f"{mount}/{label}+2+echo2/{os.path.basename(names[0])}")
    expect(tables[2][digest(got)] == label, "a view of one class is wrong")
    expect(stats(mount)["errors"] == 0, "there were errors")
