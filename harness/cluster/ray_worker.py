"""A worker that is an actor of a Ray cluster.

Invariants: Ray repeats nothing (no restarts, no retries): an actor that died is replaced by another
one, and what it had goes on after the turns that are in the log. Only this handle reads the actor's
stream, so an actor that comes back after it was given up writes nothing.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import ray
from ray.exceptions import RayError

from rehearsal_room.harness.cluster.capacity import resources_of
from rehearsal_room.harness.core.errors import ProcessError
from rehearsal_room.harness.fleet.carried import with_logged
from rehearsal_room.harness.fleet.faults import failed_of
from rehearsal_room.harness.fleet.messages import (
    EpisodeAssignments,
    FromWorker,
    Stored,
    ToWorker,
    content_of,
    from_worker,
)
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.settings.cluster import ClusterSettings

_IN_FLIGHT = 8  # batches that the actor may have sent and that were not read
_GATHER_S = 0.05  # seconds that a report of what is stored waits for others
_CALLS = 8  # of an actor at a time: its stream, and messages to it


class RayWorker:
    """A WorkerHandle of an actor."""

    ahead = 4  # what it reports is a quarter of a second old, and so are the assignments

    def __init__(
        self,
        actor_class: Any,
        arguments: tuple[str, str, str],
        payload: bytes,
        number: int,
        *,
        cluster: ClusterSettings,
        patience: float,
        folder: Path,
        plans: Sequence[EpisodePlan],
    ) -> None:
        """Ask Ray for the actor, which may wait up to `patience` seconds for free resources.
        `actor_class` is the remote class of RolloutActor, `arguments` are what it is made with; the
        log in `folder` has what assignments must carry. Raises OSError when Ray takes no
        request."""
        self.number = number
        self._patience = patience
        self._folder = folder
        self._plans = plans
        self._where = ""
        self._outgoing: list[ToWorker] = []
        self._received: list[bytes] = []  # the newest first
        self._work = anyio.Event()
        self._urgent = anyio.Event()  # something else than reports of what is stored
        self._next: asyncio.Task[Any] | None = None  # reads the next item of the stream
        self._why = ""  # it ended; empty: it may live
        self._has_ended = False
        wanted = resources_of(cluster)
        try:
            self._actor = actor_class.options(
                num_cpus=wanted["CPU"],
                memory=wanted.get("memory"),
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=_CALLS,
                scheduling_strategy="SPREAD",
            ).remote(*arguments)
            self._stream: Any = self._actor.play.options(
                num_returns="streaming", _generator_backpressure_num_objects=_IN_FLIGHT
            ).remote(payload)
        except RayError as exc:
            raise OSError(reason_of(exc)) from exc

    @property
    def name(self) -> str:
        """See WorkerHandle."""
        return f"rollout actor {self.number + 1}{self._where}"

    def put(self, message: ToWorker) -> None:
        """See WorkerHandle."""
        self._outgoing.append(message)
        self._work.set()
        if not isinstance(message, Stored):
            self._urgent.set()

    async def send_all(self) -> None:
        """See WorkerHandle. One call is under way at a time, which keeps the order."""
        while not self._why:
            await self._work.wait()
            if all(isinstance(message, Stored) for message in self._outgoing):
                with anyio.move_on_after(_GATHER_S):
                    await self._urgent.wait()
            self._work, self._urgent = anyio.Event(), anyio.Event()
            messages, self._outgoing = self._outgoing, []
            contents = [content_of(await self._with_logged(message)) for message in messages]
            try:
                await self._actor.deliver.remote(contents)
            except RayError as exc:
                self._lose(reason_of(exc))

    async def _with_logged(self, message: ToWorker) -> ToWorker:
        if not isinstance(message, EpisodeAssignments):
            return message
        return await anyio.to_thread.run_sync(with_logged, message, self._folder, self._plans)

    async def receive(self, within: float) -> FromWorker:
        """See WorkerHandle. Until the actor runs, the silence may last as long as the patience for
        free resources."""
        while not self._received:
            if self._why:
                raise anyio.EndOfStream
            if self._next is None:
                self._next = asyncio.create_task(self._read())
            has_begun = bool(self._where)
            seconds = within if has_begun else self._patience
            # A receive that is cancelled must not cancel the reading: an item would be lost.
            done, _ = await asyncio.wait({self._next}, timeout=seconds)
            if not done:
                if not has_begun:
                    self._why = f"no node had free resources for it within {seconds:g} s"
                raise TimeoutError
            reading, self._next = self._next, None
            if not reading.cancelled():  # cancelled: a message to the actor was not delivered
                self._take(reading.result())
        message: FromWorker = from_worker(self._received.pop())
        return message

    async def _read(self) -> Any:
        """The next item of the stream; None: it has ended."""
        try:
            return await (await anext(self._stream))
        except StopAsyncIteration:
            self._why = "its stream has ended"
        except RayError as exc:
            self._why = reason_of(exc)
        return None

    def _take(self, item: Any) -> None:
        match item:
            case tuple():
                address, pid = item
                self._where = f" (node {address}, pid {pid})"
            case list():
                self._received = item[::-1]
            case str():
                self._received = [content_of(failed_of(ProcessError(item)))]

    def _lose(self, why: str) -> None:
        self._why = self._why or why
        if self._next is not None:
            self._next.cancel()

    def end(self) -> str:
        """See WorkerHandle."""
        if not self._has_ended:
            self._has_ended = True
            self._lose("killed")
            self._stream = None
            with suppress(RayError):
                ray.kill(self._actor, no_restart=True)
        return self._why


def reason_of(exc: BaseException) -> str:
    """Ray's report of a death in one line.

    Example: "The actor died …\\n\\tclass_name: …\\nThe actor is dead because its node has died."
    -> "The actor is dead because its node has died."
    """
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    causes = [line for line in lines if "because" in line]
    return (causes or lines or [type(exc).__name__])[0][:300]
