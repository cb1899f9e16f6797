"""The workers of one scenario: only they ever execute its code, and they execute no other."""

from collections import deque

from rehearsal_room.envpool.workers.messages.connection import WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import Job


class Lineage:
    """The workers that host one scenario, and its calls that wait for one."""

    __slots__ = ("deaths", "loading", "waiting", "workers")

    def __init__(self) -> None:
        self.workers: list[WorkerConnection] = []  # alive; one of them may still load it
        self.waiting: deque[Job] = deque()  # jobs for which no worker hosts it
        self.loading: Job | None = None  # by which the pool loads it into one more worker
        self.deaths = 0  # of workers that were to load it, since the last that did

    def __repr__(self) -> str:
        return f"<Lineage [{len(self.workers)} workers, {len(self.waiting)} jobs wait]>"

    def hosts(self) -> list[WorkerConnection]:
        """The workers that take its calls."""
        return [worker for worker in self.workers if worker.takes_calls]

    def least_loaded(self) -> WorkerConnection | None:
        """The worker with the least to do."""
        return min(self.hosts(), key=lambda each: (each.load, each.used_at), default=None)

    def idle(self) -> WorkerConnection | None:
        """A worker with nothing to do."""
        return next((worker for worker in self.hosts() if not worker.load), None)

    def busiest(self) -> WorkerConnection:
        """The worker for which most jobs wait."""
        return max(self.workers, key=lambda worker: len(worker.queue))
