"""Verifiers of a trusted package, bounded in time and outside of the event loop where they are
slow.

An ordinary verdict takes a third of a millisecond and is made at once, in this process. One that
takes longer than `AT_ONCE` is stopped and made again in a process beside it, with a deadline, while
the loop goes on. A task whose verifier was slow is verified there from then on, until it is quick.
A verifier that misses the deadline leaves its episode unjudged.

In a thread other than the main one nothing can be stopped (see judge.code.interrupts): there all
verifiers run beside.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence

from rehearsal_room.envpool.core.errors import PoolError, StateError
from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.interrupts import TookTooLong, stopped_after
from rehearsal_room.judge.code.kept_processes import VerdictWorld
from rehearsal_room.judge.code.runners import (
    InProcessRunner,
    LeasingPool,
    OraclePlay,
    played_oracle,
)
from rehearsal_room.judge.code.verdict_process import DEADLINE
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.evidence import Verification, ended_of
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Task

AT_ONCE = 0.1  # seconds that a verifier may take in the loop's process
_RUN = VerifierRun("worker")


class TimedRunner:
    """A VerifierRunner for a trusted package, which `world` hosts. `deadline` is in seconds.
    `pool` plays the solutions of a world of an MCP server, whose calls take time; None: `world`
    does.

    Making it raises PackageError for a broken verify.py.
    """

    kind: VerifierSource = "package"

    def __init__(
        self, world: States, *, deadline: float = DEADLINE, pool: LeasingPool | None = None
    ) -> None:
        path = world.scenario.path / "verify.py"
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as exc:
            raise PackageError(f"{path}: {exc}") from exc
        self._world = world
        self._here = InProcessRunner(world, Verifier(world.scenario, source))
        self._beside = VerdictWorld(world, source)
        self._deadline = deadline
        self._pool = pool
        self._slow: set[str] = set()  # ids of tasks whose verifiers were slow the last time

    @property
    def suspends(self) -> bool:
        """See VerifierRunner. Once a verifier was slow, each of the package may be."""
        return bool(self._slow) or self._pool is not None or not _can_be_stopped()

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        ended = ended_of(trajectory)

        def here() -> Awaitable[Verification]:
            return self._here.verify(task, trajectory, changes, observe=observe)

        if ended.state is None:  # no verifier runs
            return await here()
        return await self._bounded(here, task, ended.state, changes, ended.answer)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._bounded(
            lambda: self._here.verify_idle(task), task, self._world.start, (), ""
        )

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        if self._pool is not None:
            return await played_oracle(self._pool, self._world.scenario, task)
        return await self._here.play_oracle(task)

    async def _bounded(
        self,
        here: Callable[[], Awaitable[Verification]],
        task: Task,
        state: StoredState,
        changes: Sequence[RowChange],
        answer: str,
    ) -> Verification:
        """What `here` gives, which never awaits; if it takes too long or cannot be stopped, what
        the verifier gives beside this process."""
        if _can_be_stopped() and task.id not in self._slow:
            try:
                with stopped_after(AT_ONCE):
                    return await here()
            except TookTooLong:
                self._slow.add(task.id)
                self._world.drop_views()  # one may have been stopped half-way
        verifier = f"the verifier of task {task.id!r} of scenario {self._world.scenario.name!r}"
        try:
            verified, seconds = await self._beside.verified_beside(
                task, state, answer, changes, deadline=self._deadline
            )
        except TimeoutError:
            why = f"{verifier} took longer than {self._deadline:g} s"
            return Verification((), why, run=_RUN)
        except StateError as exc:
            return Verification((), str(exc), run=_RUN)
        except (PoolError, OSError) as exc:
            return Verification((), f"{verifier} failed: {exc}", run=_RUN)
        if seconds < AT_ONCE:
            self._slow.discard(task.id)
        return Verification(verified.findings, verified.fault or None, run=_RUN)


def _can_be_stopped() -> bool:
    return threading.get_ident() == threading.main_thread().ident
