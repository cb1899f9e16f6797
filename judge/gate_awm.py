"""The quality gate for AWM records: what can be proved of a world that nobody wrote an oracle for.

    package      the record is whole, and its code can be hosted
    seed         no seed statement failed: lost rows make tasks unsolvable
    verifier     each task has one that runs: on the untouched world and on states that random
                 calls left it does not raise, and it says the same when it is asked again
    noop         doing nothing does not complete a task (the target state is not there already)
    tool         no tool fails inside whatever it is given (one whose calls are all refused, for
                 want of the right row, is listed as unreached)
    determinism  equal calls on two worlds give equal results and states

The code runs in workers. Not covered, for want of oracles: whether a task can be solved, whether
its verifier accepts a solution and refuses a near miss.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Literal, TypeVar

import anyio

from envpool.errors import PoolError, SeedError, WorldError
from envpool.held import HeldWorld
from envpool.placed import PlacedPool
from envpool.types import Env, StoredState, ToolResult, ToolSpec
from judge.gate import check_scenario
from judge.gate_notes import DEFAULT_SETTINGS, GateSettings
from judge.gate_report import Failure, Report
from judge.played import told
from judge.probe import Prober
from scenarios.format import AwmRecord, AwmVerifier, Call, Scenario, Task

T = TypeVar("T")
Which = Literal["code", "sql"]
_STATES = 5  # states left by probes on which every verifier is tried
_AT_ONCE = 8  # tools probed and tasks verified side by side


async def check(scenario: Scenario, pool: PlacedPool) -> Report:
    """Every check on a scenario of either kind."""
    if scenario.awm is None:
        return check_scenario(scenario)
    return await check_record(scenario, pool)


async def check_record(
    scenario: Scenario, pool: PlacedPool, settings: GateSettings = DEFAULT_SETTINGS
) -> Report:
    """Every check on one record."""
    assert scenario.awm is not None
    try:
        world = await pool.host(scenario)
        assert isinstance(world, HeldWorld)
    except PoolError as exc:
        check = "seed" if isinstance(exc, SeedError) else "package"
        failure = Failure(scenario.name, "", check, str(exc))
        return Report(worlds=1, names=(scenario.name,), failures=(failure,))
    return await _Inspection(world, scenario.awm, pool, settings).report()


class _Inspection:
    """One gate's work on one hosted record."""

    def __init__(
        self, world: HeldWorld, record: AwmRecord, pool: PlacedPool, settings: GateSettings
    ) -> None:
        self._world = world
        self._scenario = world.scenario
        self._record = record
        self._pool = pool
        self._settings = settings
        self._failures: list[Failure] = []
        self._states: dict[str, StoredState] = {}  # by digest
        self._unreached: list[str] = []
        self._num_probes = 0

    async def report(self) -> Report:
        """Do it all."""
        for fault in self._world.loaded.seed_faults if self._world.loaded else ():
            self._fail(
                "seed",
                f"{fault.stage} statement {fault.statement} of {fault.table} fails, and what it "
                f"would have added is lost: {fault.error}",
            )
        await self._each(self._check_tool, self._world.tools)
        states = list(self._states.values())
        chosen = Random(self._settings.seed).sample(states, min(_STATES, len(states)))

        async def check(task: Task) -> None:
            await self._check_task(task, chosen)

        await self._each(check, self._scenario.tasks)
        await self._check_determinism()
        order = {task.id: place for place, task in enumerate(self._scenario.tasks)}
        failures = sorted(self._failures, key=lambda failure: order.get(failure.task, -1))
        return Report(
            worlds=1,
            tasks=len(self._scenario.tasks),
            tools=len(self._world.tools),
            failures=tuple(failures),
            probes=self._num_probes,
            names=(self._scenario.name,),
            unreached=tuple(self._unreached),
        )

    def _fail(self, check: str, why: str, task: Task | None = None) -> None:
        self._failures.append(Failure(self._scenario.name, task.id if task else "", check, why))

    async def _each(self, check: Callable[[T], Awaitable[None]], subjects: Sequence[T]) -> None:
        """Check all, a few side by side."""
        room = anyio.CapacityLimiter(_AT_ONCE)

        async def one(subject: T) -> None:
            async with room:
                await check(subject)

        async with anyio.create_task_group() as group:
            for subject in subjects:
                group.start_soon(one, subject)

    async def _check_tool(self, tool: ToolSpec) -> None:
        """Probe it; the states that its calls leave are kept for the verifiers."""
        prober = Prober(self._world, self._settings.seed)
        broken: tuple[Call, ToolResult] | None = None
        causes: set[str | None] = set()
        for _ in range(self._settings.probes):
            call = prober.call(tool)
            self._num_probes += 1
            try:
                async with self._pool.lease(self._scenario, None) as env:
                    result = await env.call(call.name, call.arguments, "c0-0")
                    if result.changes:
                        state = env.state()
                        self._states.setdefault(state.digest, state)
            except WorldError as exc:
                self._fail("tool", f"{told(call)} breaks the world: {exc}")
                return
            causes.add(result.error)
            if result.error == "internal":
                broken = call, result
        if None in causes:
            return
        if broken is None or causes - {"internal", "arguments"}:
            self._unreached.append(f"{self._scenario.name}.{tool.name}")
            return
        call, result = broken
        self._fail(
            "tool",
            f"every call of {tool.name} fails, {self._settings.probes} were tried; "
            f"{told(call)} gives: {result.text}",
        )

    async def _check_task(self, task: Task, states: Sequence[StoredState]) -> None:
        kinds = _kinds(self._record.verifiers.get(task.id))
        if not kinds:
            self._fail("verifier", "it has no verifier with code", task)
        for which in kinds:
            await self._check_verifier(task, which, states)

    async def _check_verifier(
        self, task: Task, which: Which, states: Sequence[StoredState]
    ) -> None:
        idle = await self._verified(task, which, self._world.start, "doing nothing")
        if idle is None:
            return
        if which == "code" and idle[0] == "complete":
            self._fail("noop", "doing nothing completes it: the target state is there", task)
        if await self._verified(task, which, self._world.start, "doing nothing") != idle:
            self._fail("verifier", f"the {which} one says something else when asked again", task)
        for state in states:
            if await self._verified(task, which, state, "a random call") is None:
                return

    async def _verified(
        self, task: Task, which: Which, state: StoredState, after: str
    ) -> tuple[str, Any] | None:
        """Label and detail; None where the verifier failed, which is noted."""
        try:
            verified = await self._pool.verify(self._scenario, task, state, "", which)
        except PoolError as exc:
            fault = str(exc)
        else:
            fault = verified.violation or verified.fault
        if fault:
            self._fail("verifier", f"the {which} one, after {after}: {fault}", task)
            return None
        return verified.label, verified.detail

    async def _check_determinism(self) -> None:
        """The same calls on two worlds, in turn."""
        prober = Prober(self._world, self._settings.seed + 1)
        calls = [prober.call(tool) for tool in self._world.tools]
        try:
            async with (
                self._pool.lease(self._scenario, None) as one,
                self._pool.lease(self._scenario, None) as other,
            ):
                for index, call in enumerate(calls):
                    first, again = await _made(one, call, index), await _made(other, call, index)
                    if first != again:
                        shown = f"{first[0]!r} and {again[0]!r}"
                        what = shown if first[0] != again[0] else "two different states"
                        self._fail("determinism", f"{told(call)} gives {what} on two worlds")
                        return
        except WorldError:
            return  # the tool was named already


async def _made(env: Env, call: Call, index: int) -> tuple[str, str]:
    result = await env.call(call.name, call.arguments, f"c{index}-0")
    return result.text, result.digest


def _kinds(verifier: AwmVerifier | None) -> list[Which]:
    """Which verifiers a task has."""
    if verifier is None:
        return []
    found: list[Which] = []
    if verifier.code is not None:
        found.append("code")
    if verifier.sql is not None:
        found.append("sql")
    return found
