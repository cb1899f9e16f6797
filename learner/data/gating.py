"""When a group of episodes may start: how far rollouts may run ahead of training.

Groups are numbered from 0 in the order of the plan, batches in the order of their training. Batch
`k` takes the groups from `k * groups` on, in the plan's order. Which groups a batch has does not
depend on which finished first, so long episodes are trained neither later nor less often than short
ones. With `fill`, dropped groups do not count, and a batch takes the next usable ones; then the
first group of a batch is known only after the batch before it was taken.

The trainer publishes a version after every `publish_every` batches, so batch `k` is trained on
the weights of version `k // publish_every`, or on weights a few updates newer. A group of batch `k`
may start when the policies sample with a version `v` and

    k // publish_every - v <= staleness

With staleness 0 the next batch's episodes wait for the new weights: learning is strictly on policy.
With 1 they run while the previous batch is trained. This is AReaL's bound (arXiv:2505.24298,
`max_head_offpolicyness`), enforced for each group by its order instead of on average by the count.
Dropping groups only moves later groups to earlier batches, so the bound holds whichever groups are
dropped. (Groups that an abandoned batch leaves to a later one may be stale; that is checked when
they are taken.)

Example: staleness 1, 2 groups per batch, version 0 -> groups 0 to 3 start, group 4 waits for
version 1
"""

from bisect import bisect_left, insort
from collections.abc import Callable

import anyio


class Gating:
    """Delays each episode until its group may start."""

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
        first_group: int = 0,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        """`batches` batches of `groups` groups each are trained in total; the next one is `batch`,
        whose first group is `first_group`. The policies start with `version`."""
        self._batches = batches
        self._groups = groups
        self._staleness = staleness
        self._publish_every = publish_every
        self._fill = fill
        self._version = version
        self._batch = batch
        self._first_group = first_group
        self._now = now
        # Dropped groups of the batches to come, ascending; only with `fill`.
        self._dropped: list[int] = []
        self._num_live = 0  # episodes that run now
        self._num_waiting = 0  # episodes that wait for new weights
        self._throttled_since: float | None = None  # None: an episode is live, or none waits
        self._throttled_s = 0.0
        self._closed = anyio.Event()
        self._changed = anyio.Event()
        self.num_admitted = 0  # episodes, in total

    def __repr__(self) -> str:
        return (
            f"<Gating [version {self._version}, {self._num_live} live,"
            f" {self._num_waiting} waiting]>"
        )

    def throttled_s(self) -> float:
        """Seconds in which no episode was live because all of them waited for new weights."""
        current = 0.0 if self._throttled_since is None else self._now() - self._throttled_since
        return self._throttled_s + current

    def batch_of(self, group: int) -> int:
        """The batch that will take the group, provided that no further group is dropped."""
        # Groups before this one that the batches to come can use.
        usable = group - self._first_group - bisect_left(self._dropped, group)
        return self._batch + usable // self._groups

    def version_of(self, batch: int) -> int:
        """The version that the batch is trained on; a few updates may have followed it."""
        return batch // self._publish_every

    async def admit(self, group: int) -> bool:
        """Wait until an episode of the group may start. False: the episode is not needed."""
        while not self._closed.is_set():
            batch = self.batch_of(group)
            if batch < self._batches:
                if self.version_of(batch) - self._version <= self._staleness:
                    self.num_admitted += 1
                    self._num_live += 1
                    self._update_clock()
                    return True
            elif not self._fill:
                return False
            await self._wait_for_change(for_weights=batch < self._batches)
        return False

    def episode_ended(self) -> None:
        """Note that an admitted episode has ended."""
        self._num_live -= 1
        self._update_clock()

    def set_version(self, version: int) -> None:
        """Note that the policies sample with this version from now on."""
        self._version = version
        self._wake()

    def drop(self, group: int) -> None:
        """Note that the group cannot be used; with `fill` another one may start instead."""
        if self._fill and group not in self._dropped:
            insort(self._dropped, group)
            self._wake()

    def batch_taken(self, end: int) -> None:
        """Note that the next batch was taken; `end` is the first group of the batch after it."""
        self._batch += 1
        self._first_group = end
        del self._dropped[: bisect_left(self._dropped, end)]
        self._wake()

    def close(self) -> None:
        """Admit no more episodes, and release the waiting ones with False."""
        self._closed.set()
        self._wake()

    async def wait_closed(self) -> None:
        """Return when the gating is closed."""
        await self._closed.wait()

    async def _wait_for_change(self, *, for_weights: bool) -> None:
        self._num_waiting += for_weights
        self._update_clock()
        try:
            await self._changed.wait()
        finally:
            self._num_waiting -= for_weights
            self._update_clock()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _update_clock(self) -> None:
        """Start or stop the clock behind `throttled_s`."""
        if self._num_waiting and not self._num_live:
            if self._throttled_since is None:
                self._throttled_since = self._now()
        elif self._throttled_since is not None:
            self._throttled_s += self._now() - self._throttled_since
            self._throttled_since = None
