"""Finished runs as a source of batches: the groups of their logs, in order."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import anyio.to_thread

from rehearsal_room.harness.core.events import Label
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.core.samples import Group, GroupSize
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.grouping import Grouping, Reason
from rehearsal_room.learner.data.remedies import format_counts, remedy


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
        self._counting = Counting(grouping)

    async def take(self, version: int) -> TakenBatch | None:
        """The next batch; None: the logs have no more groups.

        Raises LogError and SampleError, and LearnerError when no group can be used.
        """
        return await anyio.to_thread.run_sync(self.take_now)

    def take_now(self) -> TakenBatch | None:
        """The same, at once."""
        if not self._has_begun:
            self._begin()
        groups: list[Group] = []
        while self._next_group is not None and len(groups) < self._size:
            groups.append(self._next_group)
            self._next_group = next(self._groups, None)
        if not groups:
            return None
        self._next += len(groups)
        dropped, equal_size = self._counting.dropped(), self._counting.equal_size()
        return taken_batch(groups, self._next, dropped, equal_size)

    def _begin(self) -> None:
        """Skip the groups that earlier batches took."""
        for _ in islice(self._groups, self._next):
            pass
        self._next_group = next(self._groups, None)
        self._has_begun = True
        if self._next:
            self._counting.start_again()  # earlier batches reported these
        elif self._next_group is None:
            raise no_groups(self._counting.dropped())


class Counting:
    """Counts what a grouping has dropped since the last call."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._reported: Mapping[Reason, int] = {}  # drops that earlier batches reported
        self._counted = GroupSize()  # of dropped groups that count, in earlier batches

    def start_again(self) -> None:
        """Count only what is dropped from now on."""
        self.dropped()
        self.equal_size()

    def dropped(self) -> dict[str, int]:
        """The number of groups, by reason."""
        before, self._reported = self._reported, self._grouping.statistics().dropped
        found = {reason: count - before.get(reason, 0) for reason, count in self._reported.items()}
        return {reason: count for reason, count in found.items() if count}

    def equal_size(self) -> GroupSize:
        """The size of the groups that count in the loss's denominators."""
        before, self._counted = self._counted, self._grouping.statistics().equal_size
        return self._counted - before


def no_groups(dropped: Mapping[str, int]) -> LearnerError:
    """The error for logs without a usable group; `dropped` has the reasons."""
    if not dropped:
        return LearnerError("data.logs: these logs have no groups of episodes")
    return LearnerError(
        "data.logs: none of the groups in these logs can be used"
        f" ({format_counts(dropped)}): {remedy(dropped)}"
    )


def taken_batch(
    groups: Sequence[Group], end: int, dropped: dict[str, int], equal_size: GroupSize
) -> TakenBatch:
    """The batch of these groups; `end` is the number of groups taken so far."""
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
