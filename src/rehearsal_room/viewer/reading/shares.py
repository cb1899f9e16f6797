"""The share of completed episodes, with its interval."""

from collections.abc import Mapping

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.statistics.intervals import share_interval

Tries = Mapping[tuple[str, str], tuple[int, int]]  # by scenario and task: completed, in all


def completed_share(tries: Tries) -> Interval[float] | None:
    """The share that is completed, with its 95 % interval; tries at one task resemble each other.
    None: there is no try."""
    return share_interval(
        {key: [1.0] * hits + [0.0] * (total - hits) for key, (hits, total) in tries.items()}
    )
