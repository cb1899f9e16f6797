"""The thread in which engines run.

The event loop submits requests and awaits them; no computation ever blocks it. Between two steps
the thread accepts new requests and drops cancelled ones, so slots are freed soon.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from queue import Empty, SimpleQueue
from typing import Self

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from rehearsal_room.learner.inference.engine import Engine, SamplingRequest


class _Job:
    """A submitted request, and the event that wakes the task which awaits it."""

    __slots__ = ("engine", "is_cancelled", "is_done", "ready", "request")

    def __init__(self, engine: Engine, request: SamplingRequest) -> None:
        self.engine = engine
        self.request = request
        self.ready = anyio.Event()
        self.is_done = False
        self.is_cancelled = False


class EngineThread(anyio.AsyncContextManagerMixin):
    """Runs engines in a separate thread. An async context manager that owns the thread.

    An exception in an engine is raised in all tasks that await a request of that engine, and for
    all its later requests, because the step may be half done. Other engines continue.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None: stop
        self._portal: BlockingPortal | None = None
        self._is_open = False

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        # The thread ends before the portal through which it reports finished requests.
        async with BlockingPortal() as self._portal, anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            self._is_open = True
            try:
                yield self
            finally:
                self._is_open = False
                self._jobs.put(None)

    async def sample(self, engine: Engine, request: SamplingRequest) -> None:
        """Sample after the request's prompt, with this engine; return when the request is done.

        Raises ModelError for broken weights, the exception of a bug that stopped the engine, and
        ClosedResourceError when the thread has ended.
        """
        if not self._is_open:
            raise anyio.ClosedResourceError
        job = _Job(engine, request)
        self._jobs.put(job)
        try:
            await job.ready.wait()
        except BaseException:
            job.is_cancelled = True
            self._jobs.put(job)
            raise
        if not job.is_done:
            raise engine.failure or anyio.ClosedResourceError

    async def _run(self) -> None:
        await anyio.to_thread.run_sync(self._work, limiter=anyio.CapacityLimiter(1))

    def _work(self) -> None:
        """The thread's main loop: step every engine that has jobs, and report finished jobs."""
        jobs: dict[SamplingRequest, _Job] = {}
        while self._receive_jobs(jobs):
            self._step(jobs)
        self._notify(list(jobs.values()))

    def _receive_jobs(self, jobs: dict[SamplingRequest, _Job]) -> bool:
        """Receive submitted and cancelled jobs, waiting if there is nothing to do. False: stop."""
        while True:
            try:
                job = self._jobs.get(block=not jobs)
            except Empty:
                return True
            if job is None:
                return False
            if job.engine.failure is not None:
                self._notify([job])
            elif not job.is_cancelled:
                job.engine.add(job.request)
                jobs[job.request] = job
            elif jobs.pop(job.request, None):
                job.engine.cancel(job.request)

    def _step(self, jobs: dict[SamplingRequest, _Job]) -> None:
        for engine in dict.fromkeys(job.engine for job in jobs.values()):
            try:
                done = [jobs.pop(request) for request in engine.step()]
                for job in done:
                    job.is_done = True
            except Exception as exc:
                engine.failure = exc
                done = [job for job in jobs.values() if job.engine is engine]
                for job in done:
                    del jobs[job.request]
            self._notify(done)

    def _notify(self, jobs: list[_Job]) -> None:
        if jobs:
            assert self._portal is not None
            self._portal.start_task_soon(_set, jobs)


def _set(jobs: list[_Job]) -> None:
    for job in jobs:
        job.ready.set()
