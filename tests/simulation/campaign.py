"""Many seeds: which fail, and what is the least that makes one fail."""

import logging
import traceback
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec
import structlog

from harness.simulation.choices import Deviation, Fails, shrink
from tests.simulation import fleet_bugs  # noqa: F401  # its bugs can be injected, too
from tests.simulation.injected_bugs import injected
from tests.simulation.invariants import faults_of, undisturbed
from tests.simulation.simulated_run import simulate

EPISODES = 50
FEW = 10  # deviations; a failure that needs no more can be understood
_BATCH = 10  # seeds that a process takes at once
_MOST_SHRUNK = 5  # failures of one bug


class Failure(msgspec.Struct, frozen=True):
    """A seed that fails."""

    seed: int
    faults: tuple[str, ...]
    deviations: tuple[Deviation, ...]  # those that it took; after shrinking those that it needs


def fault_in(
    seed: int, *, episodes: int = EPISODES, allowed: Collection[Deviation] | None = None
) -> Failure | None:
    """Run one simulation; None: it keeps every promise."""
    _be_quiet()
    undisturbed(episodes)
    taken: list[Deviation] = []
    try:
        outcome = simulate(seed, episodes=episodes, allowed=allowed, taken=taken)
        faults = faults_of(outcome, episodes=episodes)
    except Exception as exc:
        where = traceback.extract_tb(exc.__traceback__)[-1]
        faults = [f"{type(exc).__name__}: {exc} ({where.name})"]
    return Failure(seed, tuple(faults), tuple(taken)) if faults else None


def shrunk(failure: Failure, *, episodes: int = EPISODES) -> Failure:
    """The same failure with the deviations that it needs."""

    def fails(allowed: Collection[Deviation]) -> bool:
        return fault_in(failure.seed, episodes=episodes, allowed=allowed) is not None

    left = shrink(Fails(fails), failure.deviations)
    found = fault_in(failure.seed, episodes=episodes, allowed=left)
    if found is None:  # a bug with a memory of its own fails in another way each time
        return failure
    return msgspec.structs.replace(found, deviations=tuple(left))


def failing(
    seeds: Sequence[int], *, jobs: int, episodes: int = EPISODES
) -> Iterator[tuple[int, list[Failure]]]:
    """Run all seeds in so many processes; yields the number of seeds that are done, with their
    failures."""
    batches = list(batches_of(seeds))
    with ProcessPoolExecutor(jobs) as pool:
        results = pool.map(_failures, batches, [episodes] * len(batches))
        done = 0
        for batch, found in zip(batches, results, strict=True):
            done += len(batch)
            yield done, found


def batches_of(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """The seeds in batches."""
    for start in range(0, len(seeds), _BATCH):
        yield seeds[start : start + _BATCH]


def _failures(seeds: Sequence[int], episodes: int) -> list[Failure]:
    found = (fault_in(seed, episodes=episodes) for seed in seeds)
    return [one for one in found if one is not None]


def hunt(bug: str, *, seeds: int = 1_000, episodes: int = EPISODES) -> tuple[int, Failure | None]:
    """Inject a bug and look for it: the number of seeds that it took, and the shrunk failure (None:
    it was not found). Where that still needs many deviations, a few other failures are tried."""
    _be_quiet()
    undisturbed(episodes)
    found: list[Failure] = []
    first = seeds
    with injected(bug):
        for seed in range(seeds):
            failure = fault_in(seed, episodes=episodes)
            if failure is None:
                continue
            first = min(first, seed + 1)
            found.append(shrunk(failure, episodes=episodes))
            if len(found[-1].deviations) <= FEW or len(found) == _MOST_SHRUNK:
                break
    return first, min(found, key=lambda one: len(one.deviations), default=None)


def _be_quiet() -> None:
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
