"""How many threads a worker has, as the kernel counts them.

A worker answers with one thread: its threads end with the call. The worker itself sees only the
threads that Python knows, and code that gets round the audit hook can start others (through a
library, or by making Python's own count lie). So the pool looks, from outside, after each answer.

A thread that was just joined is gone from Python's count some microseconds before it is gone from
the kernel's. So a surplus is waited out, while its worker receives nothing new, and what remains
outlives its call.
"""

import contextlib
import os
from typing import Protocol

import anyio

THREADS = 1  # of a worker that has answered
_GRACE = 0.5  # seconds that an idle worker has until its other threads must have ended
_PAUSE = 0.002  # seconds between two looks


class ThreadCount:
    """The number of threads of one process. Close it."""

    def __init__(self, pid: int) -> None:
        self._folder = -1
        with contextlib.suppress(OSError):  # it has ended
            self._folder = os.open(f"/proc/{pid}/task", os.O_DIRECTORY | os.O_CLOEXEC)

    def __call__(self) -> int:
        """The number of threads; 0 or less when the process has ended. It takes a microsecond:
        each thread is a folder, so the links of the folder above them tell."""
        return os.fstat(self._folder).st_nlink - 2 if self._folder >= 0 else 0

    def close(self) -> None:
        """Release the descriptor; the count is 0 from then on."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


class CountedWorker(Protocol):
    """A worker as this module sees it."""

    dead: bool

    @property
    def is_executing(self) -> bool:
        """Whether it has not answered all that was sent to it."""

    def num_threads(self) -> int:
        """Its threads now."""


async def surplus_threads(worker: CountedWorker) -> str:
    """Wait until a worker has its one thread again. Returns what the code did, as part of a
    sentence, where a thread outlives its call; empty: none does.

    Requests that were sent to it before may use threads of their own, so its time counts from when
    it has answered all of them. The pool's deadline ends those that hang.
    """
    waited = 0.0
    while worker.num_threads() > THREADS and not worker.dead:
        if waited >= _GRACE:
            count = worker.num_threads() - THREADS
            what = "a thread" if count == 1 else f"{count} threads"
            return f"the code left {what} running that outlived its call"
        await anyio.sleep(_PAUSE)
        waited += 0.0 if worker.is_executing else _PAUSE
    return ""
