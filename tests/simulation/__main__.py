"""python -m tests.simulation: many seeds of the simulation, or the bugs that are injected in it.

--seeds N     so many seeds (default 500), from --first S (0)
--seed S      one seed; a failing one is shrunk, and every deviation that it needs is printed
--injected     inject every bug and look for it
-j N          processes (default: one a processor)
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import msgspec

from tests.simulation.campaign import Failure, failing, fault_in, hunt, shrunk
from tests.simulation.injected_bugs import BUGS


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--injected", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if asked.injected:
        return _hunt_all(asked.seeds, asked.jobs)
    if asked.seed is not None:
        return _one(asked.seed)
    return _many(range(asked.first, asked.first + asked.seeds), asked.jobs)


def _many(seeds: range, jobs: int) -> int:
    began = time.monotonic()
    failures: list[Failure] = []
    for done, found in failing(seeds, jobs=jobs):
        failures += found
        for failure in found:
            _say(f"seed {failure.seed}: {failure.faults[0]}")
        if done % 500 == 0:
            _say(f"{done:,} of {len(seeds):,} seeds, {len(failures)} failures")
    _say(f"{len(seeds):,} seeds, {len(failures)} failures, {time.monotonic() - began:.0f} s")
    if failures:
        _say(f"python -m tests.simulation --seed {failures[0].seed}")
    return min(len(failures), 1)


def _one(seed: int) -> int:
    failure = fault_in(seed)
    if failure is None:
        _say(f"seed {seed} keeps every promise")
        return 0
    _say(msgspec.json.format(msgspec.json.encode(shrunk(failure))).decode())
    return 1


def _hunt_all(seeds: int, jobs: int) -> int:
    missed = 0
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(partial(hunt, seeds=seeds), BUGS))
    for bug, (tried, failure) in zip(BUGS, found, strict=True):
        missed += failure is None
        if failure is None:
            _say(f"NOT FOUND {bug} in {tried} seeds")
        else:
            size = len(failure.deviations)
            _say(f"{bug}: seed {tried - 1}, {size} deviations: {failure.faults[0]}")
    _say(f"{len(BUGS) - missed} of {len(BUGS)} bugs found")
    return min(missed, 1)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
