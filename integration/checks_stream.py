"""The checks of streams: epochs as tar shards."""

import errno
import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
import tempfile
import time

import numpy as np
from PIL import Image
from torchvision.datasets import ImageFolder

from reading import expect, expect_errno, files_below, forked, read, same, stats

# The order of an epoch, as docs/streams.md describes it.

MASK = 2**64 - 1


class SplitMix64:
    def __init__(self, *words):
        self.state = 0
        for word in words:
            self.state ^= word
            self.state = self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        while True:
            product = self.next() * n
            if product & MASK >= 2**64 % n:
                return product >> 64


def order(samples, seed, epoch, percent=100, buffer=1000, rank=0, ranks=1):
    """The numbers of the samples in the order of an epoch."""
    numbers, random = list(range(samples)), SplitMix64(1, seed, epoch)
    for i in range(samples - 1, 0, -1):
        j = random.below(i + 1)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    mine = [numbers[(rank + i * ranks) % samples] for i in range(-(-samples // ranks))]
    if percent == 100:
        return mine
    items, waiting, random = [], [], SplitMix64(2, seed, epoch, rank)
    for i, sample in enumerate(mine):
        for _ in range((i + 1) * percent // 100 - i * percent // 100):
            if len(waiting) < buffer:
                waiting.append(sample)
                continue
            k = random.below(buffer)
            items.append(waiting[k])
            waiting[k] = sample
    while waiting:
        k = random.below(len(waiting))
        items.append(waiting[k])
        waiting[k] = waiting[-1]
        waiting.pop()
    return items


# Reading as others do.


def groups(members):
    """WebDataset's grouping: consecutive members whose names are equal up to the first dot of the last part are a sample."""
    sample = None
    for name, data in members:
        match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
        expect(match, f"{name} is no name of WebDataset's")
        key, suffix = match.groups()
        if sample is None or sample["__key__"] != key:
            if sample is not None:
                yield sample
            sample = {"__key__": key}
        expect(suffix not in sample, f"{name} stands twice")
        sample[suffix] = data
    if sample is not None:
        yield sample


def members(shard, mode="r:"):
    """Names and bytes of a shard, by Python's tarfile."""
    with open(shard, "rb") as file, tarfile.open(fileobj=file, mode=mode) as archive:
        for member in archive:
            expect(member.isfile() and member.mtime == 0 and member.mode == 0o444 and member.uid == member.gid == 0, f"{member.get_info()}")
            yield member.name, archive.extractfile(member).read()


def shards(epoch):
    names = sorted(os.listdir(epoch))
    tars = [name for name in names if name.endswith(".tar")]
    expect(names == sorted(tars + [name[:-3] + "tsv" for name in tars]), f"{epoch} lists {names}")
    expect(tars == [f"{number:06d}.tar" for number in range(len(tars))], f"{epoch} lists {tars}")
    return [os.path.join(epoch, name) for name in tars]


def samples(epoch, mode="r:"):
    for shard in shards(epoch):
        yield from groups(members(shard, mode))


def table(shard):
    """The lines of a shard's table."""
    lines = read(shard[:-3] + "tsv").decode("utf-8", "surrogateescape").split("\n")
    names = ["key", "source", "label", "kind", "offset", "data", "bytes"]
    expect(lines[0].split("\t") == names and lines[-1] == "", f"the table begins with {lines[0]!r}")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:-1]]


def tables(epoch):
    return [line for shard in shards(epoch) for line in table(shard)]


def digest(epoch):
    """The hash of all shards of an epoch, read in order."""
    return hashlib.sha256(b"".join(read(shard) for shard in shards(epoch))).hexdigest()


def packed_samples(packed, folder):
    """Paths of the samples below a folder of the source, sorted by their bytes, with the folder."""
    names = [os.path.join(folder, name) for name in files_below(os.path.join(packed, folder)) if name.endswith(".l3")]
    return sorted(names, key=os.fsencode)


# The checks.


def check_stream_whole(mount, packed, folder, form, suffix, terms, shard, seed, epoch, percent=100, buffer=1000):
    """All of an epoch: order, names, keys, labels, sizes, offsets and the very bytes of the plain view."""
    at = os.path.join(mount, f"{folder}{form}+stream+seed{seed}+shard{shard}{terms}")
    expect(os.listdir(at) == ["epoch-0000"], f"the stream lists {os.listdir(at)}")
    at = os.path.join(at, f"epoch-{epoch:04d}")
    sources = packed_samples(packed, folder)
    want = [sources[number] for number in order(len(sources), seed, epoch, percent, buffer)]
    lines = tables(at)
    expect([line["source"] for line in lines] == want, f"the order is {[line['source'] for line in lines]}, want {want}")
    classes = sorted(entry.name for entry in os.scandir(os.path.join(packed, folder)) if entry.is_dir())
    seen, position, stream = set(), 0, b""
    for number, path in enumerate(shards(at)):
        data, lines = read(path), table(path)
        same(data, read(path), f"{path} read once more")
        expect(os.stat(path).st_size == len(data), f"{path} has {len(data)} bytes, stat says {os.stat(path).st_size}")
        expect(len(lines) == min(shard, len(want) - number * shard), f"{path} has {len(lines)} samples")
        for mode in ("r:", "r|"):
            got = list(groups(members(path, mode)))
            expect([sample["__key__"] for sample in got] == [line["key"] for line in lines], f"{path}: keys")
        with tarfile.open(path) as archive:
            headers = {member.name: (member.offset, member.offset_data, member.size) for member in archive}
        for line, sample in zip(lines, got, strict=True):
            what = f"{path}, {line}"
            expect(line["key"] == f"{position:09d}", f"{what}: the key is no. {position}")
            position += 1
            stem = os.path.splitext(line["source"][len(folder) + 1:])[0]
            plain = read(os.path.join(mount, folder + form, stem + suffix))
            same(sample[suffix[1:]], plain, what)
            label = str(classes.index(stem.split("/")[0]))
            expect(sample["cls"] == label.encode() == line["label"].encode(), f"{what}: class {sample['cls']}, want {label}")
            expect(set(sample) == {"__key__", suffix[1:], "cls"}, f"{what}: {set(sample)}")
            expect(headers[line["key"] + suffix] == tuple(int(line[name]) for name in ("offset", "data", "bytes")), f"{what}: offsets")
            expect((line["kind"] == "echo") == (line["source"] in seen), f"{what}: {line['kind']}")
            seen.add(line["source"])
            from_table = data[int(line["data"]):][:int(line["bytes"])]
            same(from_table, plain, what)
    expect(position == len(want), f"{position} of {len(want)} samples")
    expect(os.stat(at).st_mode & 0o222 == 0 or stat.S_ISDIR(os.stat(at).st_mode), "the epoch is no folder")


class AllClasses(ImageFolder):
    """ImageFolder that lets classes have no images, as later versions do with allow_empty."""

    @staticmethod
    def make_dataset(directory, class_to_idx, *args, **kwargs):
        filled = {name: label for name, label in class_to_idx.items() if any(file.endswith(".png") for file in files_below(os.path.join(directory, name)))}
        return ImageFolder.make_dataset(directory, filled, *args, **kwargs)


def check_stream_labels(mount, folder, labels):
    """Labels are those that ImageFolder gives to the plain view; an image in no class folder has none, and no .cls."""
    plain, epoch = (os.path.join(mount, folder + terms) for terms in ("+png", "+png+stream+echo2+shard5/epoch-0001"))
    want = {}
    if any(entry.is_dir() for entry in os.scandir(plain)):
        want = {os.path.relpath(path, plain): str(label) for path, label in AllClasses(plain).samples}
    got, lines = {}, tables(epoch)
    for line, sample in zip(lines, samples(epoch), strict=True):
        name = os.path.splitext(os.path.relpath(line["source"], folder))[0] + ".png"
        expect(sample.get("cls", b"").decode() == line["label"], f"{line}: class {sample.get('cls')}")
        expect(line["label"] == want.get(name, ""), f"{line}: ImageFolder gives {want.get(name)}")
        expect(("cls" in sample) == ("/" in name), f"{line}: {sample.keys()}")
        got[name] = line["label"]
    expect(set(want) <= set(got), f"{set(want) - set(got)} are not in the stream")
    expect(sorted(set(got.values())) == labels, f"{folder} has the labels {sorted(set(got.values()))}, want {labels}")


def check_stream_tar(mount, folder, work):
    """GNU tar lists the sizes that are there, and extracts what the plain view gives."""
    epoch = os.path.join(mount, folder + "+png+stream+shard7", "epoch-0012")
    with tempfile.TemporaryDirectory(dir=work) as target:
        for path in shards(epoch):
            listing = subprocess.run(["tar", "-tvf", path], check=True, capture_output=True, text=True)
            expect(listing.stderr == "", f"tar -t says {listing.stderr}")
            listed = {line.split()[-1]: int(line.split()[2]) for line in listing.stdout.splitlines()}
            extracted = subprocess.run(["tar", "-xf", path, "-C", target], check=True, capture_output=True, text=True)
            expect(extracted.stderr == "", f"tar -x says {extracted.stderr}")
            for name, size in listed.items():
                expect(os.path.getsize(os.path.join(target, name)) == size, f"{name} has another size than tar -tv lists")
            for line in table(path):
                stem = os.path.splitext(line["source"])[0][len(folder) + 1:]
                same(read(os.path.join(target, line["key"] + ".png")), read(os.path.join(mount, folder + "+png", stem + ".png")), f"{path}, {line}")
                with Image.open(os.path.join(target, line["key"] + ".png")) as image:
                    image.load()
        shard = shards(epoch)[0]
        with open(shard, "rb") as file:
            subprocess.run(["tar", "-xf", "-", "-C", target], check=True, stdin=file)


def check_stream_names(mount, folder):
    """What is no name of an epoch or a shard does not exist; numbers of any size do."""
    at = os.path.join(mount, folder + "+stream+shard5")
    for name in ("epoch-0", "epoch-00001", "epoch--001", "epoch-0001x", "train", "epoch-9223372036854775808", "README.txt", "epoch-0001+png"):
        expect_errno(errno.ENOENT, name, lambda: os.stat(os.path.join(at, name)))
    for name in ("epoch-0001", "epoch-10000", "epoch-9223372036854775807"):
        expect(shards(os.path.join(at, name)), f"{name} is empty")
        for wrong in ("0.tar", "0000000.tar", "000000.tgz", "999999.tar", "000000.tar+png", "x"):
            expect_errno(errno.ENOENT, f"{name}/{wrong}", lambda: os.stat(os.path.join(at, name, wrong)))
    shard = shards(os.path.join(at, "epoch-0001"))[0]
    expect_errno(errno.ENOTDIR, "a folder below a shard", lambda: os.stat(os.path.join(shard, "x")))
    expect_errno((errno.EROFS, errno.EACCES, errno.EPERM), "writing a shard", lambda: open(shard, "r+b"))
    expect_errno(errno.EROFS, "removing a shard", lambda: os.unlink(shard))
    for wrong in ("+shard5", "+rank0of2", "+stream+shard0", "+stream+rank2of2", "+stream+stream"):
        expect_errno(errno.ENOENT, wrong, lambda: os.stat(os.path.join(mount, folder + wrong)))


def check_stream_digest(mount, view, epoch, readers=1):
    """The hashes of an epoch that several processes read at the same time."""
    at = os.path.join(mount, view, f"epoch-{epoch:04d}")
    answers = [os.pipe() for _ in range(readers)]
    forked([lambda out=out: os.write(out, digest(at).encode()) for _, out in answers])
    found = {os.read(ready, 100).decode() for ready, _ in answers}
    for ends in answers:
        for end in ends:
            os.close(end)
    expect(len(found) == 1, f"{readers} readers of {at} got {found}")
    return found.pop()


def check_stream_ranks(mount, packed, folder, ranks, terms, percent=100):
    """All ranks together have each sample once, and the padding once more; keys are unique, counts equal."""
    sources = packed_samples(packed, folder)
    fresh, keys, counts = [], [], set()
    for rank in range(ranks):
        at = os.path.join(mount, f"{folder}+stream+seed3+shard4{terms}+rank{rank}of{ranks}", "epoch-0002")
        lines = tables(at)
        want = [sources[number] for number in order(len(sources), 3, 2, percent, 1000, rank, ranks)]
        expect([line["source"] for line in lines] == want, f"rank {rank} has {lines}, want {want}")
        expect([sample["__key__"] for sample in samples(at)] == [line["key"] for line in lines], f"rank {rank}: keys")
        fresh += [line["source"] for line in lines if line["kind"] == "fresh"]
        keys += [line["key"] for line in lines]
        counts.add(len(lines))
    expect(len(counts) == 1, f"ranks have {counts} samples")
    expect(len(set(keys)) == len(keys), "two ranks have one key")
    padding = -len(sources) % ranks
    expect(set(fresh) == set(sources) and len(fresh) == len(sources) + padding, f"{len(fresh)} fresh samples of {len(set(fresh))}, {padding} for padding")


def decoded(mount):
    return stats(mount)["decoded"]


def check_stream_echoes(mount, packed, folder, percent):
    """Echoes are served from the cache: each sample is decoded once in an epoch."""
    sources = packed_samples(packed, folder)
    at = os.path.join(mount, f"{folder}+stream+echo{percent / 100:g}+buffer8+shard10", "epoch-0001")
    before = decoded(mount)
    got = list(samples(at))
    expect(len(got) == len(sources) * percent // 100, f"{len(got)} samples of {len(sources)}")
    expect(decoded(mount) - before == len(sources), f"{decoded(mount) - before} decodes of {len(sources)} samples, echo {percent}")
    pixels = {}
    waiting, most = {}, 0
    lines = tables(at)
    last = {line["source"]: number for number, line in enumerate(lines)}
    for number, (line, sample) in enumerate(zip(lines, got, strict=True)):
        if line["kind"] == "fresh":
            expect(line["source"] not in pixels, f"{line['source']} is fresh twice")
            pixels[line["source"]] = sample["npy"]
        same(sample["npy"], pixels[line["source"]], f"{line}")
        waiting[line["source"]] = last[line["source"]] > number
        most = max(most, sum(waiting.values()))
    expect(most <= 8, f"echoes of {most} samples are to come at a time, the buffer has 8")
    return most


def check_stream_resume(mount, folder, skip):
    """A reader that begins in the middle, by shard and by seeking, gets the rest; what it skips is not decoded."""
    at = os.path.join(mount, folder + "+stream+seed11+shard12", "epoch-0000")
    before = decoded(mount)
    paths = shards(at)
    lines = [table(path) for path in paths]
    for path in paths:
        os.stat(path)
    expect(decoded(mount) == before, f"stat and tables decode {decoded(mount) - before} images")
    with open(paths[1], "rb") as file:
        file.seek(int(lines[1][skip]["offset"]))
        with tarfile.open(fileobj=file, mode="r|") as archive:
            rest = list(groups((member.name, archive.extractfile(member).read()) for member in archive))
    for path in paths[2:]:
        rest += groups(members(path))
    want = lines[1][skip:] + [line for more in lines[2:] for line in more]
    expect([sample["__key__"] for sample in rest] == [line["key"] for line in want], "another rest comes")
    # The page in which the first header stands has bytes of the image before.
    count = decoded(mount) - before
    expect(len(want) <= count <= len(want) + 1, f"{count} images were decoded for {len(want)}")
    for sample, line in zip(rest, want, strict=True):
        same(sample["npy"], read(os.path.join(mount, os.path.splitext(line["source"])[0] + ".npy")), f"{line}")


def check_stream_listing(mount, folder, samples):
    """What tar -t decodes: images whose blocks it reads with headers, no more than there are."""
    path = os.path.join(mount, folder + "+stream+seed23+shard1000", "epoch-0000", "000000.tar")
    before = decoded(mount)
    listing = subprocess.run(["tar", "-tf", path], check=True, capture_output=True, text=True).stdout
    expect(len(listing.split()) == samples, f"tar lists {listing}")
    return decoded(mount) - before


def check_stream_walk(mount, view, files):
    """find and du over a stream come to an end and decode nothing."""
    before = decoded(mount)
    at = os.path.join(mount, view)
    found = subprocess.run(["find", at, "-type", "f"], check=True, capture_output=True, text=True).stdout.split()
    expect(len(found) == files, f"find comes upon {len(found)} files, want {files}")
    used = subprocess.run(["du", "-s", "--apparent-size", "-B1", at], check=True, capture_output=True, text=True).stdout
    expect(int(used.split()[0]) >= sum(os.path.getsize(path) for path in found), f"du says {used}")
    subprocess.run(["ls", "-lR", at], check=True, stdout=subprocess.DEVNULL)
    expect(decoded(mount) == before, f"{decoded(mount) - before} images were decoded")


def check_stream_none(mount, folder):
    """A folder without samples has epochs without shards."""
    at = os.path.join(mount, folder + "+stream", "epoch-0005")
    expect(os.listdir(at) == [], f"an epoch of nothing lists {os.listdir(at)}")
    expect_errno(errno.ENOENT, "a shard of nothing", lambda: os.stat(os.path.join(at, "000000.tar")))


def check_stream_one(mount, folder, shape):
    """One sample, in a shard that could hold many."""
    for view, count in ((folder + "+stream", 1), (folder + "+stream+echo3+shard2", 3)):
        got = list(samples(os.path.join(mount, view, "epoch-0000")))
        expect(len(got) == count, f"{view}: {len(got)} samples")
        for sample in got:
            expect(np.load(io.BytesIO(sample["npy"])).shape == tuple(shape), f"{view}: {sample['__key__']}")


def check_stream_damaged(mount, folder, damaged, count):
    """A damaged sample costs its own member: a line of text and zeros, of the announced size."""
    for form, suffix in (("", "npy"), ("+png", "png"), ("+ppm", "ppm")):
        at = os.path.join(mount, folder + form + "+stream+shard6", "epoch-0001")
        lines = {line["key"]: line for line in tables(at)}
        expect(len(lines) == count, f"{len(lines)} samples, want {count}: one without a header is left out")
        bad = 0
        for mode in ("r:", "r|"):
            for sample in samples(at, mode):
                line = lines[sample["__key__"]]
                data = sample[suffix]
                expect(len(data) == int(line["bytes"]), f"{line}: {len(data)} bytes")
                if line["source"] != damaged:
                    same(data, read(os.path.join(mount, folder + form, os.path.splitext(line["source"][len(folder) + 1:])[0] + "." + suffix)), f"{line}")
                    continue
                bad += 1
                text, zeros = data.split(b"\n", 1)
                expect(text.startswith(b"prismfs: ") and damaged.encode() in text and not any(zeros), f"{line}: {data[:200]}")
                try:
                    np.load(io.BytesIO(data)) if suffix == "npy" else Image.open(io.BytesIO(data)).load()
                except (ValueError, OSError):
                    continue
                raise AssertionError(f"{line} was read as an image")
        expect(bad == 2, f"{form}: the damaged sample came {bad} times in two readings")
    # Bare samples would be taken for pixels whatever they are.
    at = os.path.join(mount, folder + "+raw+stream+shard6", "epoch-0001")
    failed = 0
    for path in shards(at):
        for line in table(path):
            with open(path, "rb", buffering=0) as file:
                file.seek(int(line["data"]))
                if line["source"] == damaged:
                    expect_errno(errno.EIO, f"{line}", lambda: file.read(int(line["bytes"])))
                    failed += 1
    expect(failed == 1, f"{failed} reads failed")
    expect(stats(mount)["stream_damaged"] >= 3, f"{stats(mount)['stream_damaged']} damaged images are counted")


def check_stream_replaced(mount, packed, folder, replaced, version):
    """A file is replaced in mid-read: an open shard gives the old bytes or an error, the next open the new ones."""
    at = os.path.join(mount, folder + "+stream+seed4+shard100", "epoch-0000", "000000.tar")
    before, lines = read(at), table(at)
    old = os.stat(at)
    check_drop = f"{at}"
    with open(at, "rb", buffering=0) as file:
        first = file.read(4096)
        same(first, before[:4096], check_drop)
        target = os.path.join(packed, folder, replaced)
        with open(target + ".new", "wb") as new:
            new.write(read(version))
        os.rename(target + ".new", target)
        errors = 0
        for offset in range(0, len(before), 65536):
            file.seek(offset)
            try:
                got = file.read(65536)
            except OSError as error:
                expect(error.errno == errno.ESTALE, f"at {offset}: {error}")
                errors += 1
                continue
            same(got, before[offset:offset + len(got)], f"{at} at {offset}, after the file was replaced")
    deadline = time.monotonic() + 10
    while os.stat(at).st_ino == old.st_ino and os.stat(at).st_size == old.st_size and read(at) == before:
        expect(time.monotonic() < deadline, "the new file does not show")
        time.sleep(0.1)
    after = list(groups(members(at)))
    path = os.path.join(folder, replaced)
    for line, sample in zip(table(at), after, strict=True):
        same(sample["npy"], read(os.path.join(mount, os.path.splitext(line["source"])[0] + ".npy")), f"{line}")
    expect(path in [line["source"] for line in lines], f"{path} was not in the epoch")
    expect(read(at) != before, "the shard has the old bytes")
    return errors


def check_stream_grown(mount, packed, folder, source):
    """A sample that is added is part of the epochs that are opened from then on."""
    epoch = os.path.join(mount, folder + "+stream+seed5", "epoch-0000")
    before = tables(epoch)
    os.link(os.path.join(packed, folder, source), os.path.join(packed, folder, "added.l3"))
    deadline = time.monotonic() + 10
    while len(tables(epoch)) == len(before):
        expect(time.monotonic() < deadline, "the new file does not show")
        time.sleep(0.1)
    expect(len(list(samples(epoch))) == len(before) + 1, "the shard has not all samples of its table")
    os.unlink(os.path.join(packed, folder, "added.l3"))


def check_stream_offsets(mount, view, seed):
    """Pieces at random places, by several readers at the same time, are those of the whole."""
    path = shards(os.path.join(mount, view, "epoch-0000"))[0]
    whole = read(path)

    def pieces(number):
        random = np.random.default_rng([seed, number])
        with open(path, "rb", buffering=0) as file:
            for _ in range(60):
                offset, length = int(random.integers(0, len(whole) + 5000)), int(2 ** random.uniform(0, 21))
                same(os.pread(file.fileno(), length, offset), whole[offset:offset + length], f"{path} at {offset}")

    forked([lambda number=number: pieces(number) for number in range(4)])


def check_stream_ahead(mount, view):
    """One who reads in order has images decoded ahead; they are used, and nothing is decoded twice."""
    before = stats(mount)
    at = os.path.join(mount, view, "epoch-0000")
    count = sum(1 for _ in samples(at, "r|"))
    after = stats(mount)
    expect(after["decoded"] - before["decoded"] == count, f"{after['decoded'] - before['decoded']} decodes of {count} images")
    made, useful = (after[key] - before[key] for key in ("stream_ahead_made", "stream_ahead_useful"))
    expect(made >= count / 2, f"{made} of {count} images were made ahead")
    # On a busy machine requests overtake one another, and what is ahead is counted anew then.
    expect(useful >= made * 0.75, f"{useful} of {made} images made ahead were used")
    return after


def check_stream_pcr(mount, folder):
    """Streams of records: any fidelity, decoded or as the stored JPEG."""
    for form, suffix in (("", "npy"), ("+3", "npy"), ("+1+png", "png"), ("+jpg", "jpg"), ("+2+jpg", "jpg"), ("+orig", "jpg"), ("+auto", "npy")):
        at = os.path.join(mount, folder + form + "+stream+echo2+buffer4+shard9", "epoch-0003")
        lines = tables(at)
        expect(lines, f"{at} is empty")
        view = os.path.join(mount, folder + form)
        for line, sample in zip(lines, samples(at), strict=True):
            stem = os.path.splitext(line["source"][len(folder) + 1:] if folder else line["source"])[0]
            plain = os.path.join(view if folder else view + "", stem + "." + suffix)
            if form != "+orig":
                same(sample[suffix], read(plain), f"{form}: {line}")
            else:
                with Image.open(io.BytesIO(sample[suffix])) as image:
                    image.load()
            label = os.getxattr(plain, "user.prismfs.label") if form != "+orig" else sample["cls"]
            expect(sample["cls"] == label, f"{form}: {line} has class {sample['cls']}, want {label}")


def check_stream_example(mount, view, script, workers, count):
    """The example reads an epoch with workers of PyTorch and says how many samples came."""
    said = subprocess.run([os.environ.get("PYTHON", "/usr/bin/python3"), script, os.path.join(mount, view), "--epochs", "2", "--workers", str(workers)],
                          check=True, capture_output=True, text=True).stdout
    expect(re.findall(r"epoch \d+: (\d+) samples", said) == [str(count)] * 2, f"the example says {said!r}")


def check_stream_example_refuses(mount, view, script):
    """A form that the example cannot read is named."""
    run = subprocess.run([os.environ.get("PYTHON", "/usr/bin/python3"), script, os.path.join(mount, view), "--epochs", "1", "--workers", "0"],
                         capture_output=True, text=True)
    expect(run.returncode == 1 and re.search(r"000000000\.raw .*\.npy", run.stderr), f"the example says {run.stderr!r}, {run.returncode}")
    expect("Traceback" not in run.stderr, f"the example says {run.stderr!r}")


def check_stream_many(mount, view, samples):
    """An epoch of many samples opens, and its shards have all of them."""
    began = time.monotonic()
    at = os.path.join(mount, view, "epoch-0000")
    count = len(shards(at))
    opened = time.monotonic() - began
    sources = [line["source"] for line in tables(at)]
    expect(len(sources) == samples and len(set(sources)) == samples, f"{len(set(sources))} of {samples} samples")
    return {"shards": count, "seconds_to_open": opened}
