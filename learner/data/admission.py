"""When a group of episodes may begin: how far rollouts run ahead of training.

Groups are numbered from 0 in the order of the plan, batches in the order of their training. Batch
`k` takes the groups `k * groups` and on, in the plan's order: which groups a batch has does not
depend on which were quick, so that long episodes are not trained later, or less, than short ones.
With `fill` groups that were set aside do not count, and a batch takes the next ones that can be
used: so where a batch begins is only known when the one before was taken.

The trainer publishes a version after every `publish_every` batches, so batch `k` is trained on
weights that are those of version `k // publish_every` or a few updates newer. A group of batch `k`
may begin when the policies sample with a version `v` and

    k // publish_every - v <= staleness

With 0 the next batch's episodes wait for the new weights: learning is strictly on policy. With 1
they run while the batch before is trained. This is AReaL's bound (arXiv:2505.24298,
`max_head_offpolicyness`), kept for each group by the order instead of on the average by the count.
Setting groups aside only moves later groups to earlier batches, so the bound holds whatever is set
aside. (What a batch that was given up leaves to a later one may be stale, and is asked when taken.)

Example: staleness 1, 2 groups a batch, version 0 -> groups 0 to 3 begin, group 4 waits for
version 1
"""

from bisect import bisect_left, insort
from collections.abc import Callable

import anyio


class Admission:
    """Holds episodes back until their group may begin."""

    def __init__(
        self,
        *,
        batches: int,
        groups: int,
        staleness: int,
        publish_every: int = 1,
        fill: bool = False,
        version: int = 0,
        batch: int = 0,
        first: int = 0,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        """`batches` are trained in all, of `groups` groups each; the next one is `batch`, which
        begins with the group `first`. `version` is what the policies sample with at first."""
        self._batches = batches
        self._groups = groups
        self._staleness = staleness
        self._publish_every = publish_every
        self._fill = fill
        self._version = version
        self._batch = batch
        self._first = first
        self._now = now
        # Groups of the next batches that were set aside, ascending; only with `fill`.
        self._aside: list[int] = []
        self._num_live = 0  # episodes
        self._num_held = 0  # episodes that wait for new weights
        self._held_since: float | None = None  # since when all wait; None: some episode is live
        self._held_s = 0.0
        self._closed = anyio.Event()
        self._changed = anyio.Event()
        self.num_admitted = 0  # episodes

    def __repr__(self) -> str:
        return (
            f"<Admission [version {self._version}, {self._num_live} live, {self._num_held} held]>"
        )

    def held_s(self) -> float:
        """Seconds in which no episode was live, since all waited for new weights."""
        now = 0.0 if self._held_since is None else self._now() - self._held_since
        return self._held_s + now

    def batch_of(self, group: int) -> int:
        """The batch that the group is for, if no other group is set aside any more."""
        usable = group - self._first - bisect_left(self._aside, group)  # between, if all come
        return self._batch + usable // self._groups

    def version_of(self, batch: int) -> int:
        """The version whose weights, or newer ones, the batch is trained on."""
        return batch // self._publish_every

    async def admit(self, group: int) -> bool:
        """Wait until an episode of the group may begin. False: it is not wanted any more."""
        while not self._closed.is_set():
            batch = self.batch_of(group)
            if batch < self._batches:
                if self.version_of(batch) - self._version <= self._staleness:
                    self.num_admitted += 1
                    self._num_live += 1
                    self._look()
                    return True
            elif not self._fill:
                return False
            await self._hold(for_weights=batch < self._batches)
        return False

    def ended(self) -> None:
        """An episode that was admitted is over."""
        self._num_live -= 1
        self._look()

    def take(self, version: int) -> None:
        """The policies sample with this version from now on."""
        self._version = version
        self._wake()

    def set_aside(self, group: int) -> None:
        """The group cannot be used; with `fill` another one may begin in its place."""
        if self._fill and group not in self._aside:
            insort(self._aside, group)
            self._wake()

    def took(self, end: int) -> None:
        """The next batch was taken; the one behind it begins with the group `end`."""
        self._batch += 1
        self._first = end
        del self._aside[: bisect_left(self._aside, end)]
        self._wake()

    def close(self) -> None:
        """No more episodes are wanted."""
        self._closed.set()
        self._wake()

    async def wait_closed(self) -> None:
        """Return when no more episodes are wanted."""
        await self._closed.wait()

    async def _hold(self, *, for_weights: bool) -> None:
        self._num_held += for_weights
        self._look()
        try:
            await self._changed.wait()
        finally:
            self._num_held -= for_weights
            self._look()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _look(self) -> None:
        """Start or stop the clock of `held_s`."""
        if self._num_held and not self._num_live:
            if self._held_since is None:
                self._held_since = self._now()
        elif self._held_since is not None:
            self._held_s += self._now() - self._held_since
            self._held_since = None
