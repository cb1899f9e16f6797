"""Tasks by their past groups: solved, mixed, or never solved; and which of their turns are played.

A plan comes to every task again and again. A group that all of its episodes solve, or none, has
equal rewards and teaches nothing, and the same task usually gives such a group again. With
`revisit_solved` or `revisit_never` above 1 only every n-th turn of such a task is played; the next
batch takes other tasks in its place. A task that was mixed is played at each turn, and so is one
that was not seen. Each task comes back: what was forgotten, or has become possible, is noticed.

Whether a turn is played follows from the results of the same task's earlier turns, never from the
time, so a resumed run, which finds these results in the log, plays the same turns.

    Example: revisit_solved 3, a task solved at its turn 0 and mixed at turn 3 ->
             turns 0, 3, 4 are played, 1 and 2 are skipped
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import anyio
import msgspec

Pool = Literal["solved", "mixed", "never", "unseen"]
POOLS: tuple[Pool, ...] = ("solved", "mixed", "never", "unseen")


class _Turn(msgspec.Struct):
    """A group of a task."""

    num_completed: int = 0
    num_labels: int = 0
    is_finished: bool = False
    is_played: bool | None = None  # None: not decided

    @property
    def pool(self) -> Pool:
        """What the group shows of its task; unseen where no episode has a label."""
        if not self.num_labels:
            return "unseen"
        if 0 < self.num_completed < self.num_labels:
            return "mixed"
        return "solved" if self.num_completed else "never"


class TaskPools:
    """The tasks of a plan, by the results of their groups."""

    def __init__(self, tasks: Sequence[str], *, solved: int = 1, never: int = 1) -> None:
        """`tasks` has the task of each group of the plan, in order. Of a task that was solved every
        `solved`-th turn is played, of one that never was every `never`-th; 1: all of them."""
        self._tasks = tasks
        self._every: dict[Pool, int] = {"solved": solved, "never": never}
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)  # groups, by task
        for number, task in enumerate(tasks):
            self._numbers[task].append(number)
        self._turns: defaultdict[int, _Turn] = defaultdict(_Turn)
        self._changed = anyio.Event()

    @property
    def is_active(self) -> bool:
        """Whether any turn is ever skipped."""
        return max(self._every.values()) > 1

    def judged(self, number: int, *, completed: bool) -> None:
        """Note the label of an episode of a group."""
        turn = self._turns[number]
        turn.num_labels += 1
        turn.num_completed += completed

    def finish(self, number: int) -> None:
        """Note that a group has all its labels, or will get no more."""
        turn = self._turns[number]
        turn.is_finished = turn.is_played = True
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def is_played(self, number: int) -> bool:
        """Whether the group's turn is played, once the task's earlier turns show it."""
        while (played := self._decided(number)) is None:
            await self._changed.wait()
        return played

    def counts(self, end: int) -> dict[Pool, int]:
        """The number of tasks in each pool, by their last groups before the group `end`."""
        found = dict.fromkeys(POOLS, 0)
        for numbers in self._numbers.values():
            pools = (self._turns[n].pool for n in reversed(numbers) if n < end and n in self._turns)
            found[next((pool for pool in pools if pool != "unseen"), "unseen")] += 1
        return found

    def _decided(self, number: int) -> bool | None:
        """Whether a turn is played; None: an earlier turn of the task has not finished."""
        last: int | None = None  # the last played turn before
        for place, other in enumerate(self._numbers[self._tasks[number]]):
            turn = self._turns[other]
            if turn.is_played is None:
                if last is not None:
                    before = self._turns[self._numbers[self._tasks[number]][last]]
                    if not before.is_finished:
                        return None
                    turn.is_played = place - last >= self._every.get(before.pool, 1)
                else:
                    turn.is_played = True
            if other == number:
                return turn.is_played
            if turn.is_played:
                last = place
        raise AssertionError("unreachable")
