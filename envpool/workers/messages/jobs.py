"""Requests of the pool to its workers, each awaited by one task: jobs."""

import asyncio
from typing import Any

import msgspec

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Verified
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.workers.messages.wire import (
    HostingRefused,
    Load,
    Replay,
    Replayed,
    Verify,
    WorkerCall,
    WorkerReply,
    WorkerRequest,
)

_REPLIES: dict[type, tuple[type[WorkerReply], ...]] = {
    type(None): (CallOutcome,),  # a CallJob
    Load: (Loaded, HostingRefused),
    Verify: (Verified,),
    Replay: (Replayed,),
}


class Job:
    """A request whose reply a task awaits. The pool itself may reply with a Failed."""

    __slots__ = ("_request", "alone", "future", "ran_in", "scenario_digest")

    slow_factor = 10  # times longer than a call it may take before it counts as slow

    def __init__(self, scenario_digest: str, request: Load | Verify | Replay | None) -> None:
        self.scenario_digest = scenario_digest
        self.alone = False  # its worker receives nothing else until it is answered
        self.future: asyncio.Future[WorkerReply | Exception] = (
            asyncio.get_running_loop().create_future()
        )
        self.ran_in = 0  # the id of the process that received it last; 0: none did
        self._request = request  # None: a CallJob

    @property
    def last_worker(self) -> Any:
        """The connection of the worker that has the state; None: any worker will do."""
        return None

    @property
    def load(self) -> Load | None:
        """The request, where it loads a scenario; None: it needs a scenario that is loaded."""
        return self._request if isinstance(self._request, Load) else None

    @property
    def is_verdict(self) -> bool:
        """Whether it runs a verifier, for which a process is started that has executed nothing."""
        return isinstance(self._request, Verify)

    @property
    def needs_empty(self) -> bool:
        """Whether it needs a worker that has executed nothing."""
        return isinstance(self._request, Verify | Load)

    @property
    def expects(self) -> tuple[type[WorkerReply], ...]:
        """The replies that a worker may send, besides Stale and Failed."""
        return _REPLIES[type(self._request)]

    @property
    def deadline_factor(self) -> int:
        """Times longer than a call it may take before its worker is killed."""
        return 10 if isinstance(self._request, Replay) else 1

    def message(self, number: int, worker: object) -> WorkerRequest:
        """The request as it is sent to this worker under this number."""
        assert self._request is not None
        return msgspec.structs.replace(self._request, id=number)

    def forget_worker(self) -> None:
        """Assume that no worker has the state."""

    def settle(self, reply: WorkerReply) -> None:
        """Deliver the reply, unless the awaiting task has left."""
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, exc: Exception) -> None:
        """Raise this in the awaiting task, unless it has left."""
        if not self.future.done():
            self.future.set_result(exc)

    async def reply(self) -> WorkerReply:
        """Wait for the reply. When this wait is cancelled, a later reply is dropped."""
        result = await self.future
        if isinstance(result, Exception):
            raise result
        return result


class CallJob(Job):
    """A tool call on an remotely executed world."""

    __slots__ = ("_arguments", "_name", "_version", "env", "with_state")

    slow_factor = 1

    def __init__(self, env: RemoteExecutionEnv, name: str, arguments: bytes) -> None:
        super().__init__(env.world.scenario.digest, None)
        self.env = env
        self.with_state = False  # the state was sent along
        self._version = env.version
        self._name = name
        self._arguments = arguments

    @property
    def last_worker(self) -> Any:
        return self.env.last_worker

    def forget_worker(self) -> None:
        self.env.last_worker = None

    def message(self, number: int, worker: object) -> WorkerRequest:
        """The call, with the world's state where the worker does not have it. Raises WorldError
        when the world has changed since the call was made."""
        env = self.env
        if env.version != self._version:
            raise WorldError(f"the world was reset before {self._name} ran")
        state = None if env.last_worker is worker else env.snapshot()
        env.last_worker, self.with_state = worker, state is not None
        return WorkerCall(
            number,
            self.scenario_digest,
            env.number,
            self._version,
            self._name,
            self._arguments,
            state,
        )


class SentJob:
    """A job that a worker has received and not answered."""

    __slots__ = ("job", "moved", "number")

    def __init__(self, number: int, job: Job) -> None:
        self.number = number
        self.job = job
        self.moved = False  # it was sent to another worker too: this worker's answer is dropped

    @property
    def is_awaited(self) -> bool:
        """Whether a task awaits this worker's answer."""
        return not self.moved and not self.job.future.done()
