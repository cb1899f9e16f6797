"""The workers that are there, those that should be, and which of them take too long.

Time is counted in looks at even intervals, so a standstill of this process is nobody's fault. Nor
is it a worker's that a busy machine does not let it run: one that computes is slow soon, one that
waits only after `_PATIENCE` times as long.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
import structlog

from envpool.workers.link import Link

LOOKS_TO_SLOW = 3  # looks at one request until it is slow: 1 to 1.5 times slow_after
_PATIENCE = 10  # with a worker that uses no CPU: it hangs, or others use what there is
_RUNS = 0.5  # of a core that it uses at least when it computes
_MAX_FAILURES = 3  # workers in a row that came to nothing
_WEIGHED_EVERY = 10  # looks
_log = structlog.get_logger(__name__)

# What is seen of a worker. unborn: it is not up in time; slow: what is in its hands takes long;
# late: too long; deserted: slow, and nobody waits for it; full: it nears its limit of memory.
Sight = Literal["unborn", "slow", "late", "deserted", "full"]


class Rules(msgspec.Struct, frozen=True):
    """How many workers there are and when they are replaced. Times are in looks."""

    look_every: float  # seconds
    workers: int  # usable at a time
    spare: int  # that may be there besides, while others are suspect
    deadline: int  # for a request
    start: int  # for a worker to be up
    too_long: str  # what is said of a request past its deadline
    full: int  # bytes of memory from which on a worker drops scenarios
    too_full: int  # bytes from which on it is replaced


class Staff:
    """The workers of one pool. `start` starts one, which is then added, or it is not started."""

    def __init__(self, rules: Rules, start: Callable[[], None]) -> None:
        self.rules = rules
        self.links: list[Link] = []  # alive
        self.is_open = False
        self.fault = ""  # why no worker can be started; empty: one can
        self._start = start
        self._num_coming = 0
        self._num_failures = 0  # in a row
        self._looks = 0

    def usable(self) -> list[Link]:
        """Those that requests may be given to."""
        return [link for link in self.links if link.usable]

    @property
    def hopeless(self) -> bool:
        """Whether nobody can take a request, now or later."""
        return bool(self.fault) and not any(link.usable for link in self.links)

    def fill(self) -> None:
        """Start as many workers as there should be."""
        usable = len(self.usable())
        suspects = sum(link.suspect for link in self.links)
        while (
            self.is_open
            and not self.fault
            and usable + self._num_coming < self.rules.workers
            and usable + self._num_coming + suspects < self.rules.workers + self.rules.spare
        ):
            self._num_coming += 1
            self._start()

    def add(self, link: Link) -> bool:
        """A worker was started; it is not up yet. Gives whether it is still wanted."""
        if self.is_open:
            self.links.append(link)
        else:
            link.end()
        return self.is_open

    def join(self, link: Link, level: str) -> None:
        """It is up."""
        link.ready, link.level, link.looks = True, level, 0
        self._num_coming -= 1

    def not_started(self, why: str) -> None:
        """A worker that was to come will not."""
        self._num_coming -= 1
        self._num_failures += 1
        _log.warning("worker_failed", why=why)
        if self._num_failures >= _MAX_FAILURES:
            self.fault = f"no worker could be started, {self._num_failures} times; the last: {why}"
        self.fill()

    def worked(self) -> None:
        """A worker has answered: they are good for something."""
        self._num_failures = 0

    def remove(self, link: Link, *, on_its_own: bool) -> bool:
        """End a worker. Gives whether it had been started; one that goes without having had a
        request (`on_its_own`) had not."""
        self.links.remove(link)
        of_use = link.ready and not (on_its_own and not link.sent and not link.num_replies)
        if link.ready and not of_use:
            self._num_coming += 1  # it still is, until it is known why it did not
        link.end()
        return of_use

    def surplus(self) -> Link | None:
        """An idle worker that is one too many."""
        if len(self.links) <= self.rules.workers:
            return None
        usable = self.usable()
        if len(usable) + self._num_coming <= self.rules.workers:
            return None
        idle = [link for link in usable if not link.load]
        return min(idle, key=lambda link: len(link.packages), default=None)

    def look(self) -> list[tuple[Link, Sight]]:
        """What there is to be seen; to be called at even intervals."""
        self._looks += 1
        seen = list(self._weighed()) if self._looks % _WEIGHED_EVERY == 0 else []
        for link in self.links:
            if not link.ready or link.sent:
                link.looks += 1
                if sight := self._sight(link):
                    seen.append((link, sight))
        return seen

    def _sight(self, link: Link) -> Sight | None:
        if not link.ready:
            return "unborn" if link.looks > self.rules.start else None
        sent = link.sent[0]
        if link.looks >= self.rules.deadline * sent.job.stamina:
            return "late"
        if link.looks == 1:
            link.cpu_s = link.process.cpu_s()
        looks_to_slow = LOOKS_TO_SLOW * sent.job.patience
        if link.looks < looks_to_slow:
            return None
        if not sent.awaited:
            return "deserted"
        if link.suspect:
            return None
        if link.looks >= looks_to_slow * _PATIENCE:
            return "slow"
        computed = link.process.cpu_s() - link.cpu_s
        runs = computed >= _RUNS * (link.looks - 1) * self.rules.look_every
        return "slow" if runs else None

    def _weighed(self) -> Iterator[tuple[Link, Sight]]:
        for link in self.usable():
            if link.process.rss() > self.rules.too_full:
                yield link, "full"
