"""Finished runs as a source of batches: the groups of their logs, in order."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import anyio.to_thread

from harness.core.events import Label
from learner.core.errors import LearnerError
from learner.core.samples import Group
from learner.data.batch_queue import Taken
from learner.data.grouping import Grouping, Reason


class LogSource:
    """Gives the groups of logs in batches; the last batch may be smaller.

    It is one group ahead: what was set aside behind a batch's last group is counted with it.
    """

    def __init__(
        self, groups: Iterator[Group], grouping: Grouping, *, size: int, first: int = 0
    ) -> None:
        """`groups` are read from logs by way of `grouping`; the first ones, so many, were in
        batches already."""
        self._groups = groups
        self._grouping = grouping
        self._size = size
        self._next = first
        self._has_begun = False
        self._ahead: Group | None = None
        self._counted: Mapping[Reason, int] = {}  # what was set aside and told

    async def take(self, version: int) -> Taken | None:
        """The next batch; None: the logs are over.

        Raises LogError and SampleError, and LearnerError when no group at all can be used.
        """
        return await anyio.to_thread.run_sync(self._take)

    def _take(self) -> Taken | None:
        if not self._has_begun:
            self._begin()
        groups: list[Group] = []
        while self._ahead is not None and len(groups) < self._size:
            groups.append(self._ahead)
            self._ahead = next(self._groups, None)
        if not groups:
            return None
        self._next += len(groups)
        return _taken(groups, self._next, self._set_aside())

    def _begin(self) -> None:
        """Go to the first group that is not in a batch yet."""
        for _ in islice(self._groups, self._next):
            pass
        self._ahead = next(self._groups, None)
        self._has_begun = True
        if self._next:
            self._set_aside()  # the batches before have told of these
        elif self._ahead is None:
            found = ", ".join(f"{reason} {count}" for reason, count in self._set_aside().items())
            raise LearnerError(
                f"data.logs: none of their groups can be used ({found or 'there are none'})"
            )

    def _set_aside(self) -> dict[str, int]:
        """What was set aside since this was asked last, by reason."""
        before, self._counted = self._counted, self._grouping.statistics().set_aside
        found = {reason: count - before.get(reason, 0) for reason, count in self._counted.items()}
        return {reason: count for reason, count in found.items() if count}


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
