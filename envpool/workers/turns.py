"""Whose turn it is to execute: at most so many workers at a time, in the order in which they asked.

A worker has its turn from its first request until it has answered all that it was sent. Where
others wait, it is sent nothing more after `_ANSWERS` answers, and asks again behind them: so a
scenario with many worlds does not starve one with few. A slow worker (a suspect) has no turn; more
than `spare` of them take turns away.
"""

from collections import deque
from collections.abc import Iterator

from rehearsal_room.envpool.workers.messages.connection import WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import Job

_ANSWERS = 16  # of a worker in one turn while others wait; a call takes milliseconds


class Turns:
    """The workers that execute, and what waits: workers with jobs, and jobs that need a worker that
    has executed nothing."""

    def __init__(self, num_turns: int, spare: int) -> None:
        self._num_turns = num_turns
        self._spare = spare
        self._executing: dict[WorkerConnection, int] = {}  # -> answers in this turn
        self._suspects: set[WorkerConnection] = set()
        self._last = 0  # number of the latest that asked
        self._asking: deque[tuple[int, WorkerConnection]] = deque()
        self._fresh: deque[tuple[int, Job]] = deque()

    def __repr__(self) -> str:
        return (
            f"<Turns [{len(self._executing)} of {self._num_turns} execute, "
            f"{len(self._asking) + len(self._fresh)} wait]>"
        )

    @property
    def num_free(self) -> int:
        """Workers that may begin to execute now."""
        taken = len(self._executing) + max(0, len(self._suspects) - self._spare)
        return self._num_turns - taken

    @property
    def has_waiting(self) -> bool:
        """Whether something waits for a turn."""
        return bool(self._asking or self._fresh)

    def ask(self, worker: WorkerConnection) -> None:
        """Ask for a turn, unless the worker has one or has asked."""
        if not (worker.has_turn or worker.has_asked):
            worker.has_asked = True
            self._last += 1
            self._asking.append((self._last, worker))

    def ask_fresh(self, job: Job) -> None:
        """Ask for a turn of a worker that has executed nothing."""
        self._last += 1
        self._fresh.append((self._last, job))

    def next(self, *, has_empty: bool) -> WorkerConnection | Job | None:
        """Remove and return what asked first and can have its turn now; None: nothing.

        A job is returned only with `has_empty`; workers behind it do not wait for its process.
        """
        while self._asking and not (self._asking[0][1].usable and self._asking[0][1].queue):
            self._asking.popleft()[1].has_asked = False
        while self._fresh and self._fresh[0][1].future.done():
            self._fresh.popleft()
        if self.num_free <= 0:
            return None
        if not self._asking:
            return self._fresh.popleft()[1] if self._fresh and has_empty else None
        if self._fresh and has_empty and self._fresh[0][0] < self._asking[0][0]:
            return self._fresh.popleft()[1]
        worker = self._asking.popleft()[1]
        worker.has_asked = False
        return worker

    def begin(self, worker: WorkerConnection) -> None:
        """Give a worker its turn."""
        worker.has_turn = True
        self._executing[worker] = 0

    def count_answer(self, worker: WorkerConnection) -> bool:
        """Count an answer; returns whether the worker may be sent more in this turn."""
        if not worker.has_turn:
            return False
        self._executing[worker] += 1
        return self._executing[worker] < _ANSWERS or not self.has_waiting

    def end(self, worker: WorkerConnection) -> None:
        """End a worker's turn, if it has one."""
        worker.has_turn = False
        self._executing.pop(worker, None)

    def suspect(self, worker: WorkerConnection) -> None:
        """Take the turn from a slow worker, which continues."""
        self.end(worker)
        self._suspects.add(worker)

    def clear(self, worker: WorkerConnection) -> None:
        """Forget a worker that has ended, or is no longer slow."""
        self.end(worker)
        self._suspects.discard(worker)

    def take_fresh(self) -> Iterator[Job]:
        """Remove and yield the jobs that need a worker that has executed nothing."""
        while self._fresh:
            yield self._fresh.popleft()[1]
