"""Measure procedural worlds: making a thousand of them, checking and describing them.

    python -m benchmarks.generating                    # make and describe all, check a sample
    python -m benchmarks.generating --whole            # check all, which takes minutes
    python -m benchmarks.generating --worlds 100 --sample 10

The commands run as processes, with two jobs. CPU is that of these processes and of their children;
wall time is of little use on a machine that does other work. Times are for a thousand worlds,
scaled when fewer are made.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option

_JOBS = ("--jobs", "2")
_MINUTES = 60.0  # seconds
_MB = 1024 * 1024


class Result(msgspec.Struct, frozen=True):
    """A command that ended with exit status 0 or 1."""

    wall: float  # seconds
    cpu: float  # seconds
    report: Any  # its JSON


def rehearse(*arguments: object) -> Result:
    """Run a command of `rehearse`. Exits when it does not give a report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "rehearsal_room.cli.main",
            *map(str, arguments),
            "--json",
            str(path),
        ]
        wall, before = time.perf_counter(), os.times()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wall, after = time.perf_counter() - wall, os.times()
        if done.returncode not in (0, 1):
            line = f"{' '.join(command)} failed with exit status {done.returncode}"
            raise SystemExit(f"{line}: {done.stderr}")
        used = after.children_user + after.children_system
        cpu = used - before.children_user - before.children_system
        return Result(wall, cpu, msgspec.json.decode(path.read_bytes()))


def make_worlds(folder: Path, count: int) -> list[Figure]:
    """Make the worlds; return what making them took."""
    made = rehearse("worlds", "generate", "--count", count, "--seed", 7, "-o", folder, *_JOBS)
    report, scale = made.report, 1000 / count
    size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*")) / _MB
    return [
        figure("1,000 worlds made, 2 jobs", "s", [scale * made.wall], reach=5 * _MINUTES, aim=60),
        figure("  CPU of one world", "ms", [1000 * made.cpu / count]),
        figure("  on disk", "MB", [scale * size], reach=2048),
        figure("  worlds that could not be made", "", [len(report["faults"])], reach=0),
        figure(
            "  dropped drafts of each task", "", [made.report["dropped"] / made.report["tasks"]]
        ),
    ]


def describe_worlds(folder: Path, count: int) -> list[Figure]:
    """Describe them as a page and a picture; return what that took and what it found."""
    with tempfile.TemporaryDirectory() as output:
        files = ("-o", Path(output) / "page.html", "--png", Path(output) / "charts.png")
        described = rehearse("worlds", "report", folder, *files)
    scale = 1000 / count
    found = described.report
    similar = found["similarity"]["share"]
    deviations = {
        name: 100 * abs(spread["median"] / found["awm"][name] - 1)
        for name, spread in found["spreads"].items()
    }
    return [
        figure("tasks of 1,000 worlds", "", [scale * found["tasks"]]),
        figure("tools of 1,000 worlds", "", [scale * found["tools"]]),
        *(
            figure(f"median of {name}, deviation from AWM's", "%", [percent], reach=15)
            for name, percent in deviations.items()
        ),
        figure("near-duplicates among all pairs", "%", [100 * similar], reach=1),
        figure("1,000 worlds described", "s", [scale * described.wall]),
        figure("  CPU", "s", [scale * described.cpu]),
    ]


def check_worlds(worlds: Sequence[Path]) -> list[Figure]:
    """Check worlds by the gate; return what that took and what it found."""
    checked = rehearse("worlds", "check", *worlds, *_JOBS)
    scale = 1000 / len(worlds)
    found = checked.report
    missed = found["mutants"] - found["mutants_caught"]
    return [
        figure("worlds checked", "", [found["worlds"]]),
        figure("  1,000, 2 jobs", "s", [scale * checked.wall], reach=15 * _MINUTES),
        figure("  CPU of one world", "ms", [1000 * checked.cpu / len(worlds)]),
        figure("  failures", "", [len(found["failures"])], reach=0),
        figure("  mutants that were missed", "%", [100 * missed / found["mutants"]], reach=1),
    ]


@benchmark(__doc__)
@count_option("--worlds", 1000, "Worlds that are made and described.")
@count_option("--sample", 100, "Worlds that are checked.")
@click.option("--whole", is_flag=True, help="Check all worlds instead of a sample.")
def main(worlds: int, sample: int, whole: bool) -> list[Figure]:
    """The command line."""
    with tempfile.TemporaryDirectory() as output:
        folder = Path(output) / "worlds"
        found = make_worlds(folder, worlds)
        found += describe_worlds(folder, worlds)
        made = sorted(path.parent for path in folder.glob("*/scenario.toml"))
        step = 1 if whole else max(1, len(made) // sample)
        found += check_worlds(made[::step])
    return found


if __name__ == "__main__":
    main()
