"""Many seeds: which fail, and what is the least that makes one fail."""

import logging
import traceback
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec
import structlog

from tests.devtools.simulation.invariants import faults_of, undisturbed
from tests.devtools.simulation.parts.choices import Deviation, Fails, shrink
from tests.devtools.simulation.simulated_run import Subject, simulate

_BATCH = 10  # seeds that a process takes at once


class Failure(msgspec.Struct, frozen=True):
    """A seed that fails."""

    seed: int
    faults: tuple[str, ...]
    deviations: tuple[Deviation, ...]  # those that it took; after shrinking those that it needs


def fault_in(
    seed: int, subject: Subject, *, allowed: Collection[Deviation] | None = None
) -> Failure | None:
    """Run one simulation; None: it keeps every promise."""
    return _checked(seed, subject, allowed)[0]


def _checked(
    seed: int, subject: Subject, allowed: Collection[Deviation] | None
) -> tuple[Failure | None, int]:
    """How one simulation failed, and its steps."""
    be_quiet()
    undisturbed(subject)
    taken: list[Deviation] = []
    steps = 0
    try:
        outcome = simulate(seed, subject, allowed=allowed, taken=taken)
        steps = outcome.steps
        faults = faults_of(outcome, subject)
    except Exception as exc:
        where = traceback.extract_tb(exc.__traceback__)[-1]
        faults = [f"{type(exc).__name__}: {exc} ({where.name})"]
    return (Failure(seed, tuple(faults), tuple(taken)) if faults else None), steps


def shrunk(failure: Failure, subject: Subject) -> Failure:
    """The same failure with the deviations that it needs."""

    def fails(allowed: Collection[Deviation]) -> bool:
        return fault_in(failure.seed, subject, allowed=allowed) is not None

    left = shrink(Fails(fails), failure.deviations)
    found = fault_in(failure.seed, subject, allowed=left)
    if found is None:  # a bug with a memory of its own fails in another way each time
        return failure
    return msgspec.structs.replace(found, deviations=tuple(left))


def failing(
    seeds: Sequence[int], subject: Subject, *, jobs: int
) -> Iterator[tuple[int, int, list[Failure]]]:
    """Run all seeds in so many processes; yields the number of seeds that are done, their steps,
    and the failures of the latest."""
    batches = list(batches_of(seeds))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        results = pool.map(_failures, batches, [subject] * len(batches))
        done = num_steps = 0
        for batch, (steps, found) in zip(batches, results, strict=True):
            done, num_steps = done + len(batch), num_steps + steps
            yield done, num_steps, found


def batches_of(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """The seeds in batches."""
    for start in range(0, len(seeds), _BATCH):
        yield seeds[start : start + _BATCH]


def _failures(seeds: Sequence[int], subject: Subject) -> tuple[int, list[Failure]]:
    checked = [_checked(seed, subject, None) for seed in seeds]
    return sum(steps for _, steps in checked), [one for one, _ in checked if one is not None]


def be_quiet() -> None:
    """Log nothing: a simulated run is full of warnings."""
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
