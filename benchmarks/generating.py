"""Procedural worlds: making a thousand of them, proving them, and describing them.

    python -m benchmarks.generating                    # made and described; a sample is proved
    python -m benchmarks.generating --whole            # all are proved, which takes minutes
    python -m benchmarks.generating --worlds 100 --sample 10

The verbs run as processes, with two jobs. CPU is theirs and their processes'; wall time says little
beside other work. Times are for a thousand worlds, scaled where there are fewer.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.figures import Figure, figure, tell

_JOBS = ("--jobs", "2")
_MINUTES = 60.0  # seconds
_MB = 1024 * 1024


class Ran(msgspec.Struct, frozen=True):
    """A verb that ended with 0 or 1."""

    wall: float  # seconds
    cpu: float  # seconds
    report: Any  # its JSON


def ran(*arguments: object) -> Ran:
    """Run a verb. Exits when it does not give a report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "harness.cli", *map(str, arguments), "--json", str(path)]
        wall, before = time.perf_counter(), os.times()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wall, after = time.perf_counter() - wall, os.times()
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        used = after.children_user + after.children_system
        cpu = used - before.children_user - before.children_system
        return Ran(wall, cpu, msgspec.json.decode(path.read_bytes()))


def making(folder: Path, count: int) -> list[Figure]:
    """Make the worlds."""
    made = ran("generate", "--count", count, "--seed", 7, "-o", folder, *_JOBS)
    scale = 1000 / count
    size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*")) / _MB
    return [
        figure("1,000 worlds made, 2 jobs", "s", [scale * made.wall], reach=5 * _MINUTES, aim=60),
        figure("  CPU of one world", "ms", [1000 * made.cpu / count]),
        figure("  on disk", "MB", [scale * size], reach=2048),
        figure("  worlds that could not be made", "", [len(made.report["faults"])], reach=0),
        figure("  drafts in vain, a task", "", [made.report["dropped"] / made.report["tasks"]]),
    ]


def describing(folder: Path, count: int) -> list[Figure]:
    """Describe them, as a page and a picture."""
    with tempfile.TemporaryDirectory() as place:
        files = ("-o", Path(place) / "page.html", "--png", Path(place) / "charts.png")
        told = ran("scenarios", "report", folder, *files)
    scale = 1000 / count
    found = told.report
    apart = {
        name: 100 * abs(spread["median"] / found["awm"][name] - 1)
        for name, spread in found["spreads"].items()
    }
    return [
        figure("tasks of 1,000 worlds", "", [scale * found["tasks"]]),
        figure("tools of 1,000 worlds", "", [scale * found["tools"]]),
        *(
            figure(f"median of {name}, apart from AWM's", "%", [percent], reach=15)
            for name, percent in apart.items()
        ),
        figure("near-duplicates, of all pairs", "%", [100 * found["similarity"]["share"]], reach=1),
        figure("1,000 worlds described", "s", [scale * told.wall]),
        figure("  CPU", "s", [scale * told.cpu]),
    ]


def proving(worlds: Sequence[Path]) -> list[Figure]:
    """Put worlds through the gate."""
    checked = ran("scenarios", "check", *worlds, *_JOBS)
    scale = 1000 / len(worlds)
    found = checked.report
    missed = found["mutants"] - found["mutants_caught"]
    return [
        figure("worlds proved", "", [found["worlds"]]),
        figure("  1,000, 2 jobs", "s", [scale * checked.wall], reach=15 * _MINUTES),
        figure("  CPU of one world", "ms", [1000 * checked.cpu / len(worlds)]),
        figure("  failures", "", [len(found["failures"])], reach=0),
        figure("  mutants that were missed", "%", [100 * missed / found["mutants"]], reach=1),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=1000, help="so many are made")
    parser.add_argument("--sample", type=int, default=100, help="so many of them are proved")
    parser.add_argument("--whole", action="store_true", help="all of them are proved")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "worlds"
        found = making(folder, options.worlds)
        found += describing(folder, options.worlds)
        worlds = sorted(path.parent for path in folder.glob("*/scenario.toml"))
        step = 1 if options.whole else max(1, len(worlds) // options.sample)
        found += proving(worlds[::step])
    tell(found, options.json)


if __name__ == "__main__":
    main()
