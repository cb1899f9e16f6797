"""Finished runs as a source of batches: the groups of their logs, in order."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import anyio.to_thread

from harness.core.events import Label
from learner.core.errors import LearnerError
from learner.core.samples import Group, GroupSize
from learner.data.batch_queue import TakenBatch
from learner.data.grouping import Grouping, Reason
from learner.data.remedies import format_counts, remedy


class LogSource:
    """Returns the groups of logs in batches; the last batch may be smaller.

    It reads one group ahead, so groups that are dropped right after a batch's last group are
    counted with that batch.
    """

    def __init__(
        self, groups: Iterator[Group], grouping: Grouping, *, size: int, first: int = 0
    ) -> None:
        """`groups` come from logs by way of `grouping`; the first `first` of them were in earlier
        batches."""
        self._groups = groups
        self._grouping = grouping
        self._size = size
        self._next = first
        self._has_begun = False
        self._next_group: Group | None = None
        self._reported: Mapping[Reason, int] = {}  # drops that earlier batches reported
        self._counted = GroupSize()  # of dropped groups that count, in earlier batches

    async def take(self, version: int) -> TakenBatch | None:
        """The next batch; None: the logs have no more groups.

        Raises LogError and SampleError, and LearnerError when no group can be used.
        """
        return await anyio.to_thread.run_sync(self._take)

    def _take(self) -> TakenBatch | None:
        if not self._has_begun:
            self._begin()
        groups: list[Group] = []
        while self._next_group is not None and len(groups) < self._size:
            groups.append(self._next_group)
            self._next_group = next(self._groups, None)
        if not groups:
            return None
        self._next += len(groups)
        return _taken_batch(groups, self._next, self._newly_dropped(), self._newly_counted())

    def _begin(self) -> None:
        """Skip the groups that earlier batches took."""
        for _ in islice(self._groups, self._next):
            pass
        self._next_group = next(self._groups, None)
        self._has_begun = True
        if self._next:
            self._newly_dropped()  # earlier batches reported these
            self._newly_counted()
        elif self._next_group is None:
            dropped = self._newly_dropped()
            if not dropped:
                raise LearnerError("data.logs: these logs have no groups of episodes")
            raise LearnerError(
                "data.logs: none of the groups in these logs can be used"
                f" ({format_counts(dropped)}): {remedy(dropped)}"
            )

    def _newly_dropped(self) -> dict[str, int]:
        """The number of groups dropped since the last call, by reason."""
        before, self._reported = self._reported, self._grouping.statistics().dropped
        found = {reason: count - before.get(reason, 0) for reason, count in self._reported.items()}
        return {reason: count for reason, count in found.items() if count}

    def _newly_counted(self) -> GroupSize:
        """The size of the groups that were dropped since the last call and count in the loss's
        denominators."""
        before, self._counted = self._counted, self._grouping.statistics().equal_size
        return self._counted - before


def _taken_batch(
    groups: Sequence[Group], end: int, dropped: dict[str, int], equal_size: GroupSize
) -> TakenBatch:
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return TakenBatch(
        tuple(groups),
        end,
        dropped,
        len(rollouts),
        sum(rollout.label == Label.COMPLETED for rollout in rollouts),
        sum(rollout.reward for rollout in rollouts),
        equal_size,
    )
