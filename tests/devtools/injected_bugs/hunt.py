"""Bugs are injected, and the simulation looks for them."""

from rehearsal_room.learner.data.trained_content import trained_content
from tests.devtools.injected_bugs import fleet_bugs  # noqa: F401  # its bugs can be injected, too
from tests.devtools.injected_bugs.injected_bugs import injected
from tests.devtools.simulation.campaign import Failure, be_quiet, fault_in, shrunk
from tests.devtools.simulation.invariants import undisturbed
from tests.devtools.simulation.simulated_run import Subject
from tests.support.paths import LIBRARY

LIBRARY_RUN = Subject(LIBRARY, 50, trained_content)
FEW = 10  # deviations; a failure that needs no more can be understood
_MOST_SHRUNK = 5  # failures of one bug


def hunt(
    bug: str, *, seeds: int = 1_000, subject: Subject = LIBRARY_RUN
) -> tuple[int, Failure | None]:
    """Inject a bug and look for it: the number of seeds that it took, and the shrunk failure (None:
    it was not found). Where that still needs many deviations, a few other failures are tried."""
    be_quiet()
    undisturbed(subject)
    found: list[Failure] = []
    first = seeds
    with injected(bug):
        for seed in range(seeds):
            failure = fault_in(seed, subject)
            if failure is None:
                continue
            first = min(first, seed + 1)
            found.append(shrunk(failure, subject))
            if len(found[-1].deviations) <= FEW or len(found) == _MOST_SHRUNK:
                break
    return first, min(found, key=lambda one: len(one.deviations), default=None)
