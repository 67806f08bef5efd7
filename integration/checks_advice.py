"""The checks of the cache's policy, of warming up, and of advice: what a job finds, and what it is told."""

import json
import os
import random
import subprocess
import time

from reading import expect, files_below, forked, read, stats


def prismfs(binary, *arguments):
    """The JSON that the command prints."""
    return json.loads(subprocess.run([binary, *arguments], check=True, capture_output=True).stdout)


def pass_over(mount, names, choose):
    """Reads the files in a new order, or in theirs, and returns the share that was in the cache."""
    order = list(names)
    if choose is not None:
        choose.shuffle(order)
    before = stats(mount)
    for name in order:
        read(os.path.join(mount, name))
    after = stats(mount)
    hits, misses = (after[key] - before[key] for key in ("cache_hits", "cache_misses"))
    expect(hits + misses == len(order), f"{hits} hits and {misses} misses of {len(order)} files")
    return hits / len(order)


def check_shuffled_epochs(mount, names, epochs, seed):
    """The share of hits of each epoch but the first."""
    choose = random.Random(seed)
    pass_over(mount, names, choose)
    return [pass_over(mount, names, choose) for _ in range(epochs)]


def check_planned_epochs(binary, mount, names, epochs, seed):
    """Reads along plans, and returns of each epoch but the first what was decoded, and what of that ahead."""
    choose = random.Random(seed)
    order, figures = list(names), []
    for _ in range(epochs + 1):
        choose.shuffle(order)
        before = stats(mount)
        subprocess.run([binary, "plan", mount, "-"], input="\n".join(order).encode(), check=True, capture_output=True)
        for name in order:
            read(os.path.join(mount, name))
        after = stats(mount)
        figures.append({key: after[key] - before[key] for key in ("decoded", "cache_misses", "plan_made", "plan_useful")})
    return figures[1:]


def read_all(folder, names, pause):
    for name in names:
        read(os.path.join(folder, name))
        time.sleep(pause)


def check_advice(binary, mount, view, reads, pause, seed, readers=1):
    """Reads a view in random order, as a job does that takes a while for each image, and asks for advice on it."""
    names = files_below(os.path.join(mount, view))
    chosen = [random.Random(seed + i).sample(names, reads) for i in range(readers)]
    forked([lambda chosen=chosen: read_all(os.path.join(mount, view), chosen, pause) for chosen in chosen])
    advised = prismfs(binary, "advise", "--json", mount)
    said = subprocess.run([binary, "advise", mount], check=True, capture_output=True, text=True).stdout
    mine = [a for a in advised["views"] if a["seen"]["view"] == view]
    expect(len(mine) == 1, f"advice on {view!r} among {[a['seen']['view'] for a in advised['views']]}")
    seen = mine[0]["seen"]
    expect(seen["opens"] == reads * readers and seen["readers"] == readers, f"{reads} reads of {readers} threads were seen as {seen}")
    own = seen["own_ns"] / 1e9 / seen["opens"]
    expect(own >= 0.9 * pause, f"readers that take {pause} s for themselves were seen to take {own}")
    expect(mine[0]["text"] in said, f"{mine[0]['text']!r} is not in {said!r}")
    return mine[0]


def check_echo_frees(mount, plain, echo, passes, seed):
    """Seconds of a read, and bytes of the source for it, through a view and its echo view."""
    choose = random.Random(seed)
    figures = {}
    for view, times in (plain, 1), (echo, passes):
        folder = os.path.join(mount, view)
        names = files_below(folder)
        before, begun = stats(mount), time.monotonic()
        for _ in range(times):
            choose.shuffle(names)
            read_all(folder, names if view == echo else names[:40], 0)
        n = times * (len(names) if view == echo else 40)
        figures[view] = {"seconds": (time.monotonic() - begun) / n, "bytes": (stats(mount)["store_bytes_needed"] - before["store_bytes_needed"]) / n}
    return {"plain": figures[plain], "echo": figures[echo]}


def check_warmup(binary, mount, names):
    """Warms up, and then finds of the files as many as it was told."""
    told = prismfs(binary, "warmup", "--json", mount)
    held = sum(os.getxattr(os.path.join(mount, name), "user.prismfs.cached") == b"1" for name in names)
    expect(held == told["held"], f"{held} files are in the cache, warmup said {told['held']}")
    return {"told": told, "share": pass_over(mount, names, None)}
