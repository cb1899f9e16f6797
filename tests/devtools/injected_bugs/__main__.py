"""python -m tests.devtools.injected_bugs SEEDS: inject every bug, and look for it in so many seeds
(1,000)."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.devtools.injected_bugs.hunt import hunt
from tests.devtools.injected_bugs.injected_bugs import BUGS


def main() -> int:
    seeds, missed = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, 0
    jobs, spawn = os.cpu_count() or 1, get_context("spawn")
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1, mp_context=spawn) as pool:
        results = pool.map(partial(hunt, seeds=seeds), BUGS)
        for bug, (tried, failure) in zip(BUGS, results, strict=True):
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
