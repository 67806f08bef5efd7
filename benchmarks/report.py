"""The machine that a run was made on, and the table that it prints."""

import contextlib
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def machine(prismfs):
    """What the figures depend on, as a dictionary for people and for --json."""
    import numpy
    import PIL
    import torch
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_gib(), 1),
        "kernel": platform.release(),
        "prismfs": first_line(prismfs, "version"),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pillow": PIL.__version__,
        "torch": torch.__version__,
        "fio": first_line("fio", "--version") if shutil.which("fio") else None,  # which benchmarks/run alone needs
    }


class Row:
    """A row of the table: what is read where, in turns, and what is asked of it.

    The baseline is the place that the mounts are compared with. A rate is
    better when it is higher; micros when they are lower."""

    def __init__(self, name, unit, baseline, target=None, target_for=()):
        self.name, self.unit, self.baseline = name, unit, baseline
        self.target, self.target_for = target, target_for
        self.turns = []  # one dictionary a repetition: place → figure

    def median(self, place):
        figures = [turn[place] for turn in self.turns if place in turn]
        return statistics.median(figures) if figures else None

    def ratio(self, place):
        """Speed against the baseline, above 1 is faster: the median over the
        repetitions of the ratio within each, since load changes between them."""
        pairs = [(turn[place], turn[self.baseline]) for turn in self.turns if place in turn and self.baseline in turn]
        if not pairs:
            return None
        return statistics.median(base / figure if self.unit == "µs" else figure / base for figure, base in pairs)

    def verdict(self, place):
        if self.target is None or place not in self.target_for or self.ratio(place) is None:
            return ""
        return "met" if self.ratio(place) >= self.target else "MISSED"

    def as_json(self, places):
        return {"name": self.name, "unit": self.unit, "baseline": self.baseline, "target": self.target,
                "median": {p: self.median(p) for p in [self.baseline, *places] if self.median(p) is not None},
                "ratio": {p: self.ratio(p) for p in places if self.ratio(p) is not None},
                "verdict": {p: self.verdict(p) for p in places if self.verdict(p)},
                "turns": self.turns}


def figure(value, unit):
    if value is None:
        return "-"
    if unit == "µs":
        return f"{value:.1f}"
    return f"{value:.2f}" if unit == "GB/s" else f"{value:.0f}"


def table(rows, places):
    """The rows as text; places are the speed classes."""
    head = f"{'':<54}{'unit':<7}{'baseline':>15}"
    for place in places:
        head += f" |{place:>12} {'ratio':>6} {'target':<13}"
    lines = [head.rstrip(), "-" * len(head)]
    for row in rows:
        line = f"{row.name:<54}{row.unit:<7}{row.baseline + ' ' + figure(row.median(row.baseline), row.unit):>15}"
        for place in places:
            ratio = row.ratio(place)
            asked = f"≥ {row.target:g} {row.verdict(place)}" if row.verdict(place) else ""
            line += f" |{figure(row.median(place), row.unit):>12} {'-' if ratio is None else f'{ratio:.2f}':>6} {asked:<13}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def targets(rows, places):
    """One line for each target."""
    lines = []
    for row in rows:
        for place in places:
            if row.verdict(place):
                lines.append(f"  {row.verdict(place):<7}{row.name}, {place}: {row.ratio(place):.2f}, target {row.target:g}")
    return lines


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def one_line_errors():
    """Ends the program with one line, and status 1, where a command, a file or a reader fails."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip()
        sys.exit(f"bench: {' '.join(error.cmd)}: exit status {error.returncode}{': ' + said if said else ''}")
    except (RuntimeError, OSError) as error:
        sys.exit(f"bench: {error}")
