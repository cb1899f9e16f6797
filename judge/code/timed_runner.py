"""The verifiers of a trusted package, bounded in time and outside of the event loop where they are
slow.

An ordinary verdict takes a third of a millisecond and is made at once, in this process. One that
takes longer than `AT_ONCE` is stopped and made again in a process of its own, with a deadline,
while the loop goes on. A task whose verifier was slow is verified there from then on, until it is
quick. A verifier that misses the deadline leaves its episode unjudged.

In a thread other than the main one nothing can be stopped (see judge.code.interrupts). There, long
texts are read in a process of their own; a verifier that never ends on short ones ends the loop.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence

import anyio

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.workers.messages.wire import Verify
from rehearsal_room.envpool.workers.pool import for_verifier, sources_of
from rehearsal_room.harness.core.events import VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.interrupts import TookTooLong, stopped_after
from rehearsal_room.judge.code.runners import InProcessRunner, OraclePlay
from rehearsal_room.judge.code.verdict_process import verified_beside
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.evidence import Verification, ended_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Task

AT_ONCE = 0.1  # seconds that a verifier may take in the loop's process
DEADLINE = 30.0  # seconds until the process of a slow one is ended
_LONG = 20_000  # characters of an answer that is not read where nothing can be stopped
_RUN = VerifierRun("worker")


class TimedRunner:
    """A VerifierRunner for a trusted package, which `world` hosts. `deadline` is in seconds.

    Making it raises PackageError for a broken verify.py.
    """

    kind: VerifierSource = "package"

    def __init__(self, world: States, *, deadline: float = DEADLINE) -> None:
        self._world = world
        self._here = InProcessRunner(world)
        self._deadline = deadline
        self._slow: set[str] = set()  # ids of tasks whose verifiers were slow the last time
        self._source: str | None = None  # the text of verify.py; None: it was not needed yet

    @property
    def suspends(self) -> bool:
        """See VerifierRunner. Once a verifier was slow, each of the package may be."""
        return bool(self._slow) or not _can_be_stopped()

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        ended = ended_of(trajectory)
        return await self._bounded(
            lambda: self._here.verify(task, trajectory, changes, observe=observe),
            task,
            ended.state or self._world.start,
            ended.answer,
        )

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._bounded(
            lambda: self._here.verify_idle(task), task, self._world.start, ""
        )

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        return await self._here.play_oracle(task)

    async def _bounded(
        self,
        verify: Callable[[], Awaitable[Verification]],
        task: Task,
        state: StoredState,
        answer: str,
    ) -> Verification:
        """What `verify` gives, which never awaits; if it takes too long, what the verifier gives in
        a process of its own."""
        is_long = len(answer) > _LONG and not _can_be_stopped()
        if task.id not in self._slow and not is_long:
            try:
                with stopped_after(AT_ONCE):
                    return await verify()
            except TookTooLong:
                self._slow.add(task.id)
                self._world.drop_views()  # one may have been stopped half-way
        return await self._beside(task, state, answer)

    async def _beside(self, task: Task, state: StoredState, answer: str) -> Verification:
        world, name = self._world, f"task {task.id!r} of scenario {self._world.scenario.name!r}"
        try:
            if self._source is None:
                sources = await anyio.to_thread.run_sync(sources_of, world.scenario)
                self._source = sources["verify.py"]
            world.restored(state)
            request = Verify(
                0,
                for_verifier(world.scenario, task.id),
                task.id,
                world.template.image,
                world.snapshot_of(state),
                answer.encode(errors="replace").decode(),
                source=self._source,
            )
            verified, seconds = await verified_beside(request, deadline=self._deadline)
        except TimeoutError:
            why = f"the verifier of {name} took longer than {self._deadline:g} s"
            return Verification((), why, run=_RUN)
        except (PoolError, PackageError) as exc:
            return Verification((), f"the verifier of {name} failed: {exc}")
        if seconds < AT_ONCE:
            self._slow.discard(task.id)
        if verified.fault:
            return Verification((), f"the verifier of {name} failed: {verified.fault}", run=_RUN)
        return Verification(verified.findings, run=_RUN)


def _can_be_stopped() -> bool:
    return threading.get_ident() == threading.main_thread().ident
