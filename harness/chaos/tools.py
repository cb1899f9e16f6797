"""Faults of tool calls: delays, internal errors, replies that are lost after the tool was executed.

A caller that gets no reply makes the call again under its id; a call id is executed once, so the
world answers from memory. With a sandbox worker, faults may also hit the worker in mid-call.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import anyio

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import (
    Env,
    SentCall,
    StoredState,
    TakesTogether,
    ToolResult,
    ToolSpec,
    WritesRules,
)
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode, AsksBack
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.store.pool_protocol import Pool, VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.chaos.course import CURRENT, Course
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Delay
from rehearsal_room.harness.chaos.workers import CALL_FAULTS, FaultyWorkers
from rehearsal_room.harness.core.events import FaultInjected
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class FaultyPool:
    """A pool whose worlds are hit by faults. It implements envpool.store.pool_protocol.Pool."""

    def __init__(self, inner: Pool, injector: Injector, workers: FaultyWorkers) -> None:
        self._inner = inner
        self._injector = injector
        self._workers = workers

    @property
    def num_live(self) -> int:
        return self._inner.num_live

    @property
    def max_live(self) -> int:
        return self._inner.max_live

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return _LeaseBlock(self._inner.lease(scenario, task), self._injector, self._workers)

    async def host(self, scenario: Scenario) -> States:
        return await self._inner.host(scenario)

    def hosted(self, scenario: Scenario) -> States:
        return self._inner.hosted(scenario)

    def isolates(self, scenario: Scenario) -> bool:
        return self._inner.isolates(scenario)

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        return await self._inner.verify(scenario, task, state, answer, which)

    def statistics(self) -> dict[str, int]:
        return self._inner.statistics()


class _LeaseBlock:
    """The block in which a world is live; its course is that of the task which leases it."""

    def __init__(
        self,
        inner: AbstractAsyncContextManager[Env],
        injector: Injector,
        workers: FaultyWorkers,
    ) -> None:
        self._inner = inner
        self._injector = injector
        self._workers = workers

    async def __aenter__(self) -> Env:
        env = await self._inner.__aenter__()
        course = Course()
        CURRENT.set(course)
        return FaultyEnv(env, course, self._injector, self._workers)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        CURRENT.set(None)
        return await self._inner.__aexit__(kind, exc, trace)


class FaultyEnv:
    """A leased world whose calls are hit by faults. It implements envpool.core.types.Env."""

    def __init__(
        self, inner: Env, course: Course, injector: Injector, workers: FaultyWorkers
    ) -> None:
        self._inner = inner
        self._course = course
        self._injector = injector
        self._workers = workers
        self._errors: dict[str, bool] = {}  # of the calls of a reply: whether an error replaces it

    @property
    def awaits(self) -> bool:
        return self._inner.awaits or self._injector.fault("tools.delay") is not None

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._inner.tools

    @property
    def start_digest(self) -> str:
        return self._inner.start_digest

    @property
    def digest(self) -> str:
        return self._inner.digest

    async def rules(self, task: Task) -> str:
        if not isinstance(self._inner, WritesRules):
            raise WorldError(f"the world cannot write the rules of task {task.id} from its state")
        return await self._inner.rules(task)

    @property
    def asks(self) -> AskMode:
        return self._inner.asks if isinstance(self._inner, AsksBack) else "refuse"

    def answer_with(self, answerer: Answerer) -> None:
        if isinstance(self._inner, AsksBack):
            self._inner.answer_with(answerer)

    def announce(self, calls: Sequence[SentCall]) -> None:
        """Hand the calls of a reply on, but for those that an error will replace: as the log tells
        it when they are made again."""
        if isinstance(self._inner, TakesTogether):
            self._errors = {one.call_id: self._fails(one.call_id) for one in calls}
            self._inner.announce([one for one in calls if not self._errors[one.call_id]])

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        """Execute one call, which faults may hit. Resumed turns are made again undisturbed."""
        if not self._course.episode:
            return await self._inner.call(name, arguments, call_id)
        delay = self._injector.fault("tools.delay")
        if isinstance(delay, Delay) and self._hits("tools.delay", call_id):
            self._report("tools.delay", call_id, seconds=delay.seconds)
            await anyio.sleep(delay.seconds)
        is_known = call_id in self._errors
        if self._errors.pop(call_id) if is_known else self._fails(call_id):
            self._report("tools.error", call_id)
            text = f"{name} failed with an internal error: a fault on purpose."
            return ToolResult(text, "internal", (), self._inner.digest, injected=True)
        result = await self._execute(name, arguments, call_id)
        if self._hits("tools.lost_reply", call_id):
            self._report("tools.lost_reply", call_id, retried=True)
            result = await self._inner.call(name, arguments, call_id)
        return result

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        return await self._inner.check(task, answer)

    def state(self) -> StoredState:
        return self._inner.state()

    def fork(self) -> "FaultyEnv":
        return FaultyEnv(self._inner.fork(), self._course, self._injector, self._workers)

    def reset(self) -> None:
        self._inner.reset()

    async def _execute(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        """The call's result, while a fault may hit the worker that executes it."""
        if not isinstance(self._inner, RemoteExecutionEnv):
            return await self._execute_maybe_hit(name, arguments, call_id)
        calls, number = self._workers.calls, self._inner.number
        calls[number] = (self._course, call_id)
        try:
            return await self._execute_maybe_hit(name, arguments, call_id)
        finally:
            del calls[number]
            self._workers.note(self._inner)

    async def _execute_maybe_hit(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        for fault in CALL_FAULTS:
            if self._hits(fault, call_id):
                return await self._execute_hit(fault, name, arguments, call_id)
        return await self._inner.call(name, arguments, call_id)

    async def _execute_hit(self, fault: str, name: str, arguments: Any, call_id: str) -> ToolResult:
        outcome: list[ToolResult | Exception] = []
        strike = self._workers.strike_at_call(fault, self._inner)
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                try:
                    outcome.append(await self._inner.call(name, arguments, call_id))
                except Exception as exc:  # raised below: the task group would wrap it
                    outcome.append(exc)
                tasks.cancel_scope.cancel()

            tasks.start_soon(call)  # before the strike, which so sees it in every turn of the loop
            await strike.run()
        self._report(
            fault,
            call_id,
            landed=strike.landed,
            retried=strike.landed and strike.was_replaced,
            target=strike.target,
            seconds=strike.seconds,
        )
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def _fails(self, call_id: str) -> bool:
        return bool(self._course.episode) and self._hits("tools.error", call_id)

    def _hits(self, fault: str, call_id: str) -> bool:
        course = self._course
        return self._injector.hits(fault, course.episode, course.attempt, call_id)

    def _report(
        self,
        fault: str,
        call_id: str,
        *,
        landed: bool = True,
        retried: bool = False,
        target: str = "",
        seconds: float = 0.0,
    ) -> None:
        course = self._course
        turn = _turn_of(call_id, course.turn)
        hit = (course.episode, course.attempt, turn, call_id)
        self._injector.report(FaultInjected(fault, landed, retried, *hit, target, seconds))


def _turn_of(call_id: str, otherwise: int) -> int:
    """The turn in a call id (see harness.dialects.base.call_id), or the other one.

    Example: "c3-0" -> 3
    """
    digits = call_id[1:].partition("-")[0]
    return int(digits) if digits.isdecimal() else otherwise
