"""Measure adaptive admission against the best fixed limit, which a sweep finds.

    python -m benchmarks.admission
    python -m benchmarks.admission --every 6 --runs 1 --drawn 12

First on simulated servers, in virtual time (benchmarks/admission_cases.py): the replies of a whole
run, slow start included, against those of the best fixed limit with the same server and seed; an
episode that is lost because the server refused it too often costs its replies. A turnover is an
episode's time at the capacity, six replies in the mean; runs have at least 50. After a step of the
capacity, the rate in the fourth to eighth turnover counts, against the fixed limit that is best
there. A collapse would be three turnovers in a row with few replies; those of the slow start and
those after a step are left out. `--drawn` measures as many servers that were drawn at random, and
on which nothing was tuned.

Then with `rehearse bench` and a real server on the loopback, in a process of its own: with more
than 16 requests at once, all of them take longer by the square of their number.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import msgspec

from benchmarks.admission_cases import Case, drawn_cases, known_cases
from benchmarks.admission_simulation import Outcome, simulate, sweep
from benchmarks.figures import Figure, figure
from benchmarks.http_step import SCENARIO, model_server, scripts_of
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.scenarios.catalogue import find

CAPACITY, LATENCY = 16, 0.1  # of the server on the loopback: requests, seconds
FIXED = (8, 12, 14, 16, 18, 20, 24, 32)
_SEED_OF_DRAWN = 2024
_AFTER_STEP = 3, 8  # turnovers
_START = 5  # turnovers


class Measured(NamedTuple):
    """Adaptive admission on one server; shares of what the best fixed limit reached."""

    case: Case
    best: int  # the best fixed limit
    whole: float
    after_step: float | None  # None: the capacity stays the same
    worst_window: float  # of three turnovers


def measure(case: Case, seed: int) -> Measured:
    """Run a server with adaptive admission, and with every fixed limit of a sweep."""
    ours = simulate(case, AdmissionControl(), seed)
    after, windows = [], []

    def value(outcome: Outcome) -> float:
        after.append(_after_step(case, outcome))
        windows.append(_windows(case, outcome))
        return outcome.value

    swept = sweep(case, seed, value)
    best, limit = swept[0]
    best_windows = [max(rates) for rates in zip(*windows, strict=True)]
    return Measured(
        case,
        limit,
        ours.value / best,
        None if case.step_at is None else _after_step(case, ours) / max(after),
        min(map(float.__truediv__, _windows(case, ours), best_windows)),
    )


def _after_step(case: Case, outcome: Outcome) -> float:
    if case.step_at is None:
        return 0.0
    first, last = (case.step_at + turnovers * case.turnover_s for turnovers in _AFTER_STEP)
    return outcome.rate(first, last)


def _windows(case: Case, outcome: Outcome) -> list[float]:
    """The replies per second in every three turnovers after the slow start and not after a step."""
    length = 3 * case.turnover_s
    begins = (case.turnover_s * _START + index * length for index in range(100))
    step = case.step_at
    return [
        outcome.rate(begin, begin + length)
        for begin in begins
        if begin + length <= case.duration
        and (step is None or not step - length < begin < step + length)
    ]


def figures(name: str, cases: Sequence[Case], runs: int, *, promised: bool) -> Iterator[Figure]:
    """The figures of simulated servers; of each server the mean of the runs counts. `promised`:
    they are part of the contract."""
    found = []
    for case in cases:
        one = [measure(case, seed) for seed in range(1, runs + 1)]
        found.append(one)
        shares = ", ".join(f"{run.whole:.3f}" for run in one)
        print(f"{shares} of the best ({one[0].best}): {case.name}", file=sys.stderr, flush=True)
    whole = [100 * (1 - sum(run.whole for run in one) / runs) for one in found]
    after = [
        100 * (1 - sum(run.after_step or 0.0 for run in one) / runs)
        for one in found
        if one[0].after_step is not None
    ]
    low = [100 * (1 - min(run.worst_window for run in one)) for one in found]

    def reach(percent: float) -> float | None:
        return percent if promised else None

    yield figure(f"{name}: servers", "", [len(found)])
    yield figure(
        f"{name}: below the best fixed limit, median", "%", [median(whole)], reach=reach(3)
    )
    yield figure(f"{name}: below the best fixed limit, worst", "%", [max(whole)], reach=reach(10))
    if after:
        yield figure(f"{name}: after a step, median", "%", [median(after)], reach=reach(10))
        yield figure(f"{name}: after a step, worst", "%", [max(after)], reach=reach(10))
    yield figure(f"{name}: lowest three turnovers, worst", "%", [max(low)], reach=reach(50))


def loopback(runs: int, turnovers: int) -> Iterator[Figure]:
    """The figures of a real server with a hidden capacity."""
    scripts = scripts_of(find(SCENARIO))
    options = ("--latency", str(LATENCY), "--capacity", str(CAPACITY))
    below, settled = [], []
    for _ in range(runs):
        with model_server(scripts, *options) as url:
            fixed = {limit: replies_per_s(url, limit, turnovers // 4)[0] for limit in FIXED}
            rate, admitted = replies_per_s(url, "auto", turnovers)
        below.append(100 * (1 - rate / max(fixed.values())))
        settled.append(admitted)
        print(f"auto {rate:.1f}/s ({admitted}), fixed {fixed}", file=sys.stderr, flush=True)
    yield figure("loopback: settled at", "episodes at once", settled)
    yield figure("loopback: below the best fixed limit", "%", below, reach=10)


def replies_per_s(url: str, concurrency: int | str, turnovers: int) -> tuple[float, int]:
    """The replies per second of a run of `rehearse bench`, and the limit that it settled at."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "rehearsal_room.cli.main", "bench", SCENARIO, "-p", "openai"),
            *("-m", "instant", "--base-url", url, "-n", str(CAPACITY * turnovers)),
            *("-c", str(concurrency), "-o", str(Path(folder) / "run"), "--json", "-"),
        ]
        keyless = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        done = subprocess.run(command, capture_output=True, env=keyless)
        if done.returncode != 0:
            raise SystemExit(f"{done.stderr.decode()}\n{' '.join(command)} failed")
    report = msgspec.json.decode(done.stdout)
    return report["model"]["requests_per_s"], report["admission"]["settled"]


@benchmark(__doc__)
@click.option("--every", type=click.IntRange(min=1), default=1, help="Only every so many servers.")
@count_option("--drawn", 48, "Servers drawn at random (at least 6).")
@count_option("--turnovers", 50, "Turnovers of the run on the loopback.")
@runs_option(1)
def main(every: int, drawn: int, turnovers: int, runs: int) -> list[Figure]:
    """The command line."""
    return [
        *figures("known servers", known_cases()[::every], runs, promised=True),
        *figures("drawn servers", drawn_cases(_SEED_OF_DRAWN, drawn), runs, promised=False),
        *loopback(runs, turnovers),
    ]


if __name__ == "__main__":
    main()
