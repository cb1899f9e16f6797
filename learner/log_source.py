"""Finished runs as a source of batches: the groups of their logs, in order."""

from collections.abc import Iterator, Sequence
from itertools import islice

import anyio.to_thread

from harness.events import Label
from learner.grouping import Grouping
from learner.lineup import Taken
from learner.samples import Group


class LogSource:
    """Gives the groups of logs in batches; the last batch may be smaller."""

    def __init__(
        self, groups: Iterator[Group], grouping: Grouping, *, size: int, first: int = 0
    ) -> None:
        """`groups` are read from logs by way of `grouping`; the first ones, so many, were in
        batches already."""
        self._groups = groups
        self._grouping = grouping
        self._size = size
        self._skip = first
        self._next = first

    async def take(self, version: int) -> Taken | None:
        """The next batch; None: the logs are over. Raises LogError and SampleError."""
        return await anyio.to_thread.run_sync(self._take)

    def _take(self) -> Taken | None:
        for _ in islice(self._groups, self._skip):
            pass
        self._skip = 0
        before = self._grouping.statistics().set_aside
        groups = tuple(islice(self._groups, self._size))
        if not groups:
            return None
        self._next += len(groups)
        set_aside: dict[str, int] = {
            reason: count - before[reason]
            for reason, count in self._grouping.statistics().set_aside.items()
            if count > before[reason]
        }
        return _taken(groups, self._next, set_aside)


def _taken(groups: Sequence[Group], end: int, set_aside: dict[str, int]) -> Taken:
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return Taken(
        tuple(groups),
        end,
        set_aside,
        len(rollouts),
        sum(rollout.label == Label.COMPLETED for rollout in rollouts),
        sum(rollout.reward for rollout in rollouts),
    )
