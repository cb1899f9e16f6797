"""The queue of finished groups, from which batches are taken in the order of the plan.

Batch `k` takes the groups `k * size` to `(k + 1) * size - 1`; dropped groups make it smaller. With
`fill` it takes the next `size` usable groups; when `size` groups in a row fail for reasons that are
not the agent's, it is returned incomplete. Groups may arrive in any order: a batch waits for
its own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import anyio
import msgspec

from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.learner.core.samples import Group, GroupSize
from rehearsal_room.learner.data.grouping import FAILURES, DroppedGroup


class TakenBatch(msgspec.Struct, frozen=True):
    """The groups of one batch."""

    groups: tuple[Group, ...]
    end: int  # the number of the first group after the batch
    dropped: dict[str, int] = {}  # dropped groups of the batch, by reason
    # Over all episodes that have a label, those of dropped groups included: over trained groups
    # alone, no task would ever seem always solved or never solved.
    num_labels: int = 0
    num_completed: int = 0
    reward: float = 0.0  # of the task, summed
    equal_size: GroupSize = GroupSize()  # of dropped groups that count in the loss's denominators
    num_skipped: int = 0  # groups that were not played
    pools: dict[str, int] = {}  # tasks by their past groups; empty: no task is ever skipped


class SkippedGroup(msgspec.Struct, frozen=True):
    """A group that is not played, see learner.data.task_pools."""


class _Scores(msgspec.Struct):
    """The verdicts on one group's episodes."""

    num_labels: int = 0
    num_completed: int = 0
    reward: float = 0.0


class BatchQueue:
    """Collects groups, which are numbered from 0, and returns them in batches."""

    def __init__(self, *, size: int, fill: bool = False, first: int = 0) -> None:
        """A batch has `size` groups; the groups before `first` were in earlier batches."""
        self._size = size
        self._fill = fill
        self._next = first
        self._ready: dict[int, Group | DroppedGroup | SkippedGroup] = {}
        self._scores: defaultdict[int, _Scores] = defaultdict(_Scores)
        self._is_open = True
        self._arrived = anyio.Event()

    def __repr__(self) -> str:
        return f"<BatchQueue [{len(self._ready)} ready, next {self._next}]>"

    def score(self, number: int, *, completed: bool, reward: float) -> None:
        """Count the label of an episode of a group."""
        scores = self._scores[number]
        scores.num_labels += 1
        scores.num_completed += completed
        scores.reward += reward

    def put(self, number: int, group: Group | DroppedGroup | SkippedGroup) -> None:
        """Add a complete group, or one that was dropped or skipped."""
        self._ready[number] = group
        self._wake()

    def close(self) -> None:
        """Declare that no more groups will arrive."""
        self._is_open = False
        self._wake()

    async def take(
        self,
        is_stale: Callable[[Group], bool],
        on_dropped: Callable[[int], None] = lambda number: None,
    ) -> TakenBatch:
        """The next batch's groups, as soon as all of them have arrived.

        `is_stale` is called with each usable group, `on_dropped` with the number of each group that
        is skipped. Raises LearnerError when there are not enough groups and no more will arrive.
        """
        groups: list[Group] = []
        dropped: Counter[str] = Counter()
        first = self._next
        equal_size = GroupSize()
        failed = skipped = 0  # groups, the failed ones in a row
        while self._needs_more(first, len(groups), failed):
            group = await self._arrival(first, dropped, skipped)
            if isinstance(group, SkippedGroup):
                skipped += 1
                on_dropped(self._next)
            elif not isinstance(group, DroppedGroup) and not is_stale(group):
                groups.append(group)
                failed = 0
            else:
                reason = group.reason if isinstance(group, DroppedGroup) else "stale"
                dropped[reason] += 1
                equal_size += (isinstance(group, DroppedGroup) and group.size) or GroupSize()
                failed = failed + 1 if reason in FAILURES else 0
                on_dropped(self._next)
            self._next += 1
        scores = [self._scores.pop(number, _Scores()) for number in range(first, self._next)]
        return TakenBatch(
            tuple(groups),
            self._next,
            dict(dropped),
            sum(one.num_labels for one in scores),
            sum(one.num_completed for one in scores),
            sum(one.reward for one in scores),
            equal_size,
            skipped,
        )

    def _needs_more(self, first: int, num_groups: int, failed: int) -> bool:
        """Whether the batch that starts at `first` takes another group."""
        if self._fill:
            return num_groups < self._size and failed < self._size
        return self._next < first + self._size

    async def _arrival(
        self, first: int, dropped: Mapping[str, int], skipped: int
    ) -> Group | DroppedGroup | SkippedGroup:
        while self._next not in self._ready:
            if not self._is_open:
                reasons = ", ".join(f"{name} {count}" for name, count in dropped.items())
                seen = self._next - first
                usable = seen - skipped - sum(dropped.values())
                raise LearnerError(
                    "the rollouts have ended, and the batch that starts with group"
                    f" {first} needs {self._size} usable groups: {usable} of {seen} are usable"
                    + (f" (dropped: {reasons})" if reasons else "")
                    + (f" ({skipped} skipped: solved always or never)" if skipped else "")
                )
            await self._arrived.wait()
        return self._ready.pop(self._next)

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()
