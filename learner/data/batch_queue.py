"""Groups on their way into batches, in the order of the plan.

Batch `k` takes the groups `k * size` and on; those that were set aside leave it smaller. With
`fill` it takes the next `size` groups that can be used; where so many in a row fail for reasons
that are not the agent's, it is given up as it is. Groups may come in any order: a batch waits for
its own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

import anyio
import msgspec

from learner.core.errors import LearnerError
from learner.core.samples import Group
from learner.data.grouping import FAILED, SetAside


class Taken(msgspec.Struct, frozen=True):
    """What one batch takes."""

    groups: tuple[Group, ...]
    end: int  # the number of the group behind it
    set_aside: dict[str, int] = {}  # groups between, by reason
    # Of all episodes that have a label, also those of groups that were set aside: what is learned
    # from would say that tasks are neither ever solved nor never.
    num_labels: int = 0
    num_completed: int = 0
    reward: float = 0.0  # of the task, summed


class _Scores(msgspec.Struct):
    """The verdicts on one group's episodes."""

    num_labels: int = 0
    num_completed: int = 0
    reward: float = 0.0


class Lineup:
    """Waits for groups, which are numbered from 0."""

    def __init__(self, *, size: int, fill: bool = False, first: int = 0) -> None:
        """A batch has `size` groups; the groups before `first` were in batches already."""
        self._size = size
        self._fill = fill
        self._next = first
        self._here: dict[int, Group | SetAside] = {}
        self._scores: defaultdict[int, _Scores] = defaultdict(_Scores)
        self._is_open = True
        self._arrived = anyio.Event()

    def __repr__(self) -> str:
        return f"<Lineup [{len(self._here)} here, next {self._next}]>"

    def score(self, number: int, *, completed: bool, reward: float) -> None:
        """An episode of a group got its label."""
        scores = self._scores[number]
        scores.num_labels += 1
        scores.num_completed += completed
        scores.reward += reward

    def put(self, number: int, group: Group | SetAside) -> None:
        """A group is whole, or cannot be used."""
        self._here[number] = group
        self._wake()

    def close(self) -> None:
        """No more groups will come."""
        self._is_open = False
        self._wake()

    async def take(
        self, is_stale: Callable[[Group], bool], passed: Callable[[int], None] = lambda number: None
    ) -> Taken:
        """The next batch's groups, as soon as all are here; `is_stale` is asked of each, `passed`
        told the number of each that is passed over.

        Raises LearnerError when there are not enough and no more will come.
        """
        groups: list[Group] = []
        set_aside: Counter[str] = Counter()
        first = self._next
        failed = 0  # groups in a row
        while self._wants(first, len(groups), failed):
            group = await self._arrival(first, set_aside)
            if not isinstance(group, SetAside) and not is_stale(group):
                groups.append(group)
                failed = 0
            else:
                reason = group.reason if isinstance(group, SetAside) else "stale"
                set_aside[reason] += 1
                failed = failed + 1 if reason in FAILED else 0
                passed(self._next)
            self._next += 1
        scores = [self._scores.pop(number, _Scores()) for number in range(first, self._next)]
        return Taken(
            tuple(groups),
            self._next,
            dict(set_aside),
            sum(one.num_labels for one in scores),
            sum(one.num_completed for one in scores),
            sum(one.reward for one in scores),
        )

    def _wants(self, first: int, num_groups: int, failed: int) -> bool:
        """Whether the batch that began with `first` takes another group."""
        if self._fill:
            return num_groups < self._size and failed < self._size
        return self._next < first + self._size

    async def _arrival(self, first: int, set_aside: Mapping[str, int]) -> Group | SetAside:
        while self._next not in self._here:
            if not self._is_open:
                reasons = ", ".join(f"{name} {count}" for name, count in set_aside.items())
                raise LearnerError(
                    f"the rollouts are over, and the batch that begins with group {first} has not"
                    f" {self._size} groups that can be used: {self._next - first} were looked at"
                    + (f" (set aside: {reasons})" if reasons else "")
                )
            await self._arrived.wait()
        return self._here.pop(self._next)

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()
