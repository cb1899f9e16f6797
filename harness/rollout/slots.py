"""The slots of a run: how many of its episodes run at once, however many are live.

A live episode that has long to wait pauses: it gives its slot back and keeps its world, its history
and its agent, some KB (docs/performance.md). A slot that becomes free goes to a paused episode that
is ready to go on, before a new episode begins with it.

Each slot is held by one worker of `run_all`, or lent while that worker waits for admission, or
free: slots are neither made nor lost, whichever episodes are paused or cancelled. `resize` changes
how many there are. Nothing is taken from an episode: where too many are held, those that are given
back disappear, and an episode asks at each turn (`is_over`) whether it should pause.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio


def _begin_none() -> bool:
    return False


class Slots:
    """The slots of one run. Those who await a free one get it in the order in which they asked."""

    def __init__(self) -> None:
        self.num_paused = 0  # episodes, now
        self.max_paused = 0
        self._free = 0
        self._waiting: deque[anyio.Event] = deque()
        self._owed = 0  # episodes that were cancelled while paused, whose workers hold no slot
        self._begin = _begin_none

    def __repr__(self) -> str:
        waiting = len(self._waiting)
        return f"<Slots [{self._free} free, {self.num_paused} paused, {waiting} waiting]>"

    @property
    def has_free(self) -> bool:
        """Whether there are slots that no episode wants."""
        return self._free > 0

    @property
    def is_over(self) -> bool:
        """Whether more slots are held than there are."""
        return self._free < 0

    def resize(self, by: int) -> None:
        """Make so many more slots, for paused episodes first, or take so many away."""
        self._free += by
        self.begin_more()

    def open(self, free: int, begin: Callable[[], bool]) -> None:
        """Begin a run with so many free slots. `begin` starts another episode with a slot; False:
        none is left."""
        self._free, self._begin = free, begin

    def take(self) -> None:
        """Take a slot that is known to be free."""
        assert self._free > 0
        self._free -= 1

    def release(self) -> None:
        """Give a slot back; another episode goes on or begins with it, unless too many are held."""
        if self._free < 0 or (not self._pass_on() and not self._begin()):
            self._free += 1

    def begin_more(self) -> None:
        """Let episodes go on and begin with the slots that are free, as far as there are some."""
        while self._free > 0:
            self._free -= 1
            if not self._pass_on() and not self._begin():
                self._free += 1
                return

    def lend(self) -> None:
        """Give a slot back until `acquire`, to episodes that are live only."""
        if self._free < 0 or not self._pass_on():
            self._free += 1

    def hand_off(self) -> bool:
        """Whether the caller's slot was given to an episode that waits for one, or is one too
        many."""
        if self._free < 0 and not self._owed:
            self._free += 1
            return True
        return self._pass_on() if self._owed or self._waiting else False

    async def acquire(self) -> None:
        """Take a slot; wait until one is free."""
        if self._free > 0:
            self._free -= 1
            return
        given = anyio.Event()
        self._waiting.append(given)
        try:
            await given.wait()
        except BaseException:
            if given.is_set():
                self.release()
            else:
                self._waiting.remove(given)
            raise

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """A block in which an episode has no slot. At its end it waits for one."""
        self.num_paused += 1
        self.max_paused = max(self.max_paused, self.num_paused)
        self.release()
        try:
            yield
        finally:
            self.num_paused -= 1
            try:
                await self.acquire()
            except BaseException:
                self._owed += 1
                raise

    def _pass_on(self) -> bool:
        if self._owed:
            self._owed -= 1
            return True
        if self._waiting:
            self._waiting.popleft().set()
            return True
        return False
