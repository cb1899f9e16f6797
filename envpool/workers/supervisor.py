"""The set of workers: how many there are and should be, and which of them take too long.

Time is counted in ticks at even intervals, so a standstill of this process blames no worker.
Neither does a busy machine that does not let a worker run: a worker that computes is slow soon, one
that waits only after `_WAITING_FACTOR` times as long.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
import structlog

from envpool.workers.connection import WorkerConnection

SLOW_TICKS = 3  # ticks on one request until it is slow: 1 to 1.5 times slow_after
_WAITING_FACTOR = 10  # for a worker without CPU use: it hangs, or other processes use the cores
_COMPUTING_SHARE = 0.5  # of a core that a worker uses at least when it computes
_MAX_FAILURES = 3  # consecutive workers that ended before they answered anything
_MEMORY_CHECK_TICKS = 10  # between two checks of the workers' memory
_log = structlog.get_logger(__name__)

# What is wrong with a worker. not_ready: it did not start in time; slow: its current request takes
# long; overdue: too long; abandoned: slow, and no task waits for it; full: near its memory limit.
Problem = Literal["not_ready", "slow", "overdue", "abandoned", "full"]


class Rules(msgspec.Struct, frozen=True):
    """How many workers there are and when they are replaced. Times are in ticks."""

    tick_seconds: float
    workers: int  # usable at a time
    spare: int  # additional workers while others are suspect
    deadline: int  # for a request
    start: int  # for a worker to be ready
    too_long: str  # the message about a request past its deadline
    full: int  # bytes of memory above which a worker unloads scenarios
    too_full: int  # bytes above which it is replaced


class Supervisor:
    """The workers of one pool. `start` begins to start one; `add` or `start_failed` follows."""

    def __init__(self, rules: Rules, start: Callable[[], None]) -> None:
        self.rules = rules
        self.workers: list[WorkerConnection] = []  # alive
        self.is_open = False
        self.fault = ""  # why no worker can be started; empty: workers can be started
        self._start = start
        self._num_starting = 0
        self._num_failures = 0  # consecutive
        self._ticks = 0

    def usable(self) -> list[WorkerConnection]:
        """The workers that take requests."""
        return [worker for worker in self.workers if worker.usable]

    @property
    def has_given_up(self) -> bool:
        """Whether no worker can take a request, now or later."""
        return bool(self.fault) and not any(worker.usable for worker in self.workers)

    def start_missing(self) -> None:
        """Start as many workers as there should be."""
        usable = len(self.usable())
        suspects = sum(worker.suspect for worker in self.workers)
        while (
            self.is_open
            and not self.fault
            and usable + self._num_starting < self.rules.workers
            and usable + self._num_starting + suspects < self.rules.workers + self.rules.spare
        ):
            self._num_starting += 1
            self._start()

    def add(self, worker: WorkerConnection) -> bool:
        """Add a worker that was started and is not ready yet. Returns whether it is still needed;
        otherwise it was ended."""
        if self.is_open:
            self.workers.append(worker)
        else:
            worker.end()
        return self.is_open

    def set_ready(self, worker: WorkerConnection, level: str) -> None:
        """Count a worker as ready."""
        worker.ready, worker.level, worker.ticks = True, level, 0
        self._num_starting -= 1

    def start_failed(self, why: str) -> None:
        """Count a worker that could not be started, and try again."""
        self._num_starting -= 1
        self._num_failures += 1
        _log.warning("worker_failed", why=why)
        if self._num_failures >= _MAX_FAILURES:
            self.fault = f"no worker could be started, {self._num_failures} times; the last: {why}"
        self.start_missing()

    def reset_failures(self) -> None:
        """A worker has answered: workers can work here."""
        self._num_failures = 0

    def remove(self, worker: WorkerConnection, *, ended_by_itself: bool) -> bool:
        """End a worker. Returns whether it counts as started; a worker that ended by itself before
        its first request does not."""
        self.workers.remove(worker)
        unused = not worker.sent and not worker.num_replies
        was_started = worker.ready and not (ended_by_itself and unused)
        if worker.ready and not was_started:
            self._num_starting += 1  # until `start_failed` reports why it ended
        worker.end()
        return was_started

    def surplus(self) -> WorkerConnection | None:
        """An idle worker in excess of the number that there should be."""
        if len(self.workers) <= self.rules.workers:
            return None
        usable = self.usable()
        if len(usable) + self._num_starting <= self.rules.workers:
            return None
        idle = [worker for worker in usable if not worker.load]
        return min(idle, key=lambda worker: len(worker.scenarios), default=None)

    def tick(self) -> list[tuple[WorkerConnection, Problem]]:
        """Return the workers with problems; called at even intervals."""
        self._ticks += 1
        found = list(self._full_workers()) if self._ticks % _MEMORY_CHECK_TICKS == 0 else []
        for worker in self.workers:
            if not worker.ready or worker.sent:
                worker.ticks += 1
                if problem := self._problem_of(worker):
                    found.append((worker, problem))
        return found

    def _problem_of(self, worker: WorkerConnection) -> Problem | None:
        if not worker.ready:
            return "not_ready" if worker.ticks > self.rules.start else None
        sent = worker.sent[0]
        if worker.ticks >= self.rules.deadline * sent.job.deadline_factor:
            return "overdue"
        if worker.ticks == 1:
            worker.cpu_s = worker.process.cpu_s()
        slow_ticks = SLOW_TICKS * sent.job.slow_factor
        if worker.ticks < slow_ticks:
            return None
        if not sent.is_awaited:
            return "abandoned"
        if worker.suspect:
            return None
        if worker.ticks >= slow_ticks * _WAITING_FACTOR:
            return "slow"
        computed_s = worker.process.cpu_s() - worker.cpu_s
        elapsed_s = (worker.ticks - 1) * self.rules.tick_seconds
        return "slow" if computed_s >= _COMPUTING_SHARE * elapsed_s else None

    def _full_workers(self) -> Iterator[tuple[WorkerConnection, Problem]]:
        for worker in self.usable():
            if worker.process.rss() > self.rules.too_full:
                yield worker, "full"
