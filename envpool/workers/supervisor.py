"""The set of workers: how many there are and should be, and which take too long or too much.

Time is counted in ticks at even intervals, so a standstill of this process blames no worker.
Neither does a busy machine that does not let a worker run: a worker that computes is slow soon, one
that waits only after `_WAITING_FACTOR` times as long.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
import structlog

from rehearsal_room.envpool.workers.messages.connection import WorkerConnection
from rehearsal_room.envpool.workers.messages.wire import HOT

SLOW_TICKS = 3  # ticks on one request until it is slow: 1 to 1.5 times slow_after
_WAITING_FACTOR = 10  # for a worker without CPU use: it hangs, or other processes use the cores
_COMPUTING_SHARE = 0.5  # of a core that a worker uses at least when it computes
_MAX_FAILURES = 3  # consecutive workers that ended before they answered anything
_MEMORY_CHECK_TICKS = 10  # between two checks of the workers' memory
_MAX_PROCESSES = 224  # each needs three descriptors here, of 1,024 that a process usually has
# Pages of the fork server that a worker copies by writing to them (a reference count is enough), as
# a share of its resident memory before it executes anything. Measured with /proc/PID/smaps_rollup.
_COPIED_SHARE, _COPIED_SHARE_OF_EMPTY, _COPIED_SHARE_OF_HOT = 0.26, 0.07, 0.6
_log = structlog.get_logger(__name__)

# What is wrong with a worker. not_ready: it did not start in time; slow: its current request takes
# long; overdue: too long; abandoned: slow, and no task waits for it; full: near its memory limit.
Problem = Literal["not_ready", "slow", "overdue", "abandoned", "full"]


class Rules(msgspec.Struct, frozen=True):
    """How many workers there are and when they are replaced. Times are in ticks."""

    tick_seconds: float
    workers: int  # that execute at a time
    spare: int  # additional workers that execute while others are suspect
    empties: int  # workers that have executed nothing, kept ready
    deadline: int  # for a request
    start: int  # for a worker to be ready
    too_long: str  # the message about a request past its deadline
    resident: int  # bytes of memory of all workers above which idle ones end
    too_full: int  # bytes above which a worker is replaced


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

    def empty(self) -> WorkerConnection | None:
        """A worker that has executed nothing and takes requests."""
        return next((worker for worker in self.workers if worker.is_empty), None)

    @property
    def has_given_up(self) -> bool:
        """Whether no worker can take the code of another scenario, now or later."""
        return bool(self.fault) and self.empty() is None

    @property
    def checks_memory(self) -> bool:
        """Whether memory is due to be checked, in this tick."""
        return self._ticks % _MEMORY_CHECK_TICKS == 0

    def start_missing(self) -> None:
        """Start workers, until as many are empty as there should be."""
        empties = sum(worker.is_empty for worker in self.workers)
        while self.is_open and not self.fault and empties + self._num_starting < self.rules.empties:
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
        worker.rss_ready = worker.process.rss()
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

    def to_evict(self) -> WorkerConnection | None:
        """The least recently used worker without work, where all together use too much."""
        if self.memory() <= self.rules.resident and len(self.workers) <= _MAX_PROCESSES:
            return None
        idle = [worker for worker in self.workers if worker.takes_calls and not worker.load]
        return min(idle, key=lambda worker: worker.used_at, default=None)

    def memory(self) -> int:
        """The memory of all workers in bytes, pages that they share counted once (an estimate)."""
        for worker in self.workers:
            if worker.rss_at != worker.num_replies:
                worker.rss, worker.rss_at = worker.process.rss(), worker.num_replies
        shared = max((worker.rss_ready for worker in self.workers), default=0)
        return shared + sum(map(_own_memory, self.workers))

    def tick(self) -> list[tuple[WorkerConnection, Problem]]:
        """The workers with problems; called at even intervals."""
        self._ticks += 1
        found = list(self._full_workers()) if self.checks_memory else []
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
        for worker in self.workers:
            if worker.usable and worker.hosting and worker.process.rss() > self.rules.too_full:
                yield worker, "full"


def _own_memory(worker: WorkerConnection) -> int:
    """Bytes that a worker does not share with the fork server. Resident memory does not show which
    pages it has copied, so their share is a constant. (Huge pages are a worker's own.)"""
    copied = _COPIED_SHARE if worker.hosting else _COPIED_SHARE_OF_EMPTY
    if worker.num_replies > HOT:
        copied = _COPIED_SHARE_OF_HOT
    return max(0, worker.rss - worker.rss_ready) + int(copied * worker.rss_ready)
