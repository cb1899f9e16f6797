"""The quality gate for AWM records: what can be proved of a world without oracles.

    package      the record is complete, and its code can be hosted
    seed         no seed statement fails: lost rows make tasks unsolvable
    verifier     each task has one that runs: it does not raise on the start state or on states that
                 random calls left, and gives the same result when it is repeated
    noop         doing nothing does not complete a task (the target state does not hold already)
    adversaries  an answer without any work completes no task whose verifier reads the answer: a
                 refusal, a sentence of many reasons, a heap of values, the results of all tools
                 that need no argument
    texts        the numbers of rows that an instruction names exist
    tool         no tool fails inside on every call (one whose calls are all refused, because the
                 right row is missing, is listed as unreached)
    constraint   no working tool fails inside on some calls, valid or not, or changes rows with a
                 key that no row has
    determinism  equal calls on two worlds give equal results and states

The code runs in workers. Not covered, because there are no oracles: whether a task can be solved,
and whether its verifier accepts a solution and rejects a near miss.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from random import Random
from typing import Any, Literal, TypeVar

import anyio

from rehearsal_room.envpool.core.errors import PoolError, SeedError, WorldError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.judge.code.runners import reads_answer
from rehearsal_room.judge.gate.checks.texts import known_of, missing_in
from rehearsal_room.judge.gate.core.near_duplicates import features_of
from rehearsal_room.judge.gate.core.report import (
    GateFailure,
    TaskSoundness,
    WorldGateReport,
    failed_report,
)
from rehearsal_room.judge.gate.core.task_runner import DEFAULT_SETTINGS, GateSettings
from rehearsal_room.judge.gate.package import CheckResult
from rehearsal_room.judge.playback.adversaries import MOST_READS, answers_without_work
from rehearsal_room.judge.playback.playback import format_call
from rehearsal_room.judge.playback.tool_fuzzing import (
    Prober,
    absent_calls,
    bad_arguments,
    edge_calls,
)
from rehearsal_room.scenarios.format import AwmRecord, AwmVerifier, Call, Scenario, Task

T = TypeVar("T")
Which = Literal["code", "sql"]
_STATES = 5  # states left by probes in which every verifier is tried
_CONCURRENCY = 8  # tools probed and tasks verified at once
_MAX_EDGE_CALLS = 40  # at the edge of a tool's schema, and as many beyond it


async def check_record(
    scenario: Scenario, pool: RoutingPool, settings: GateSettings = DEFAULT_SETTINGS
) -> CheckResult:
    """Make every check of one record."""
    assert scenario.awm is not None
    try:
        world = await pool.host(scenario)
    except PoolError as exc:
        check = "seed" if isinstance(exc, SeedError) else "package"
        return CheckResult(failed_report(scenario.name, check, str(exc)))
    report = await _Inspection(world, scenario.awm, pool, settings).report()
    tables = {name: table.columns for name, table in world.template.tables.items()}
    return CheckResult(report, features=features_of(scenario, tables, world.tools))


class _Inspection:
    """The checks of one hosted record."""

    def __init__(
        self, world: States, record: AwmRecord, pool: RoutingPool, settings: GateSettings
    ) -> None:
        self._world = world
        self._scenario = world.scenario
        self._record = record
        self._pool = pool
        self._settings = settings
        self._failures: list[GateFailure] = []
        self._states: dict[str, StoredState] = {}  # by digest
        self._unreached: list[str] = []
        self._num_probes = 0
        self._read = ""  # the results of the reading tools that need no argument
        self._soundness: list[TaskSoundness] = []
        self._unread: list[str] = []

    async def report(self) -> WorldGateReport:
        """Make all checks and return the report."""
        for fault in self._world.loaded.seed_faults if self._world.loaded else ():
            self._fail(
                "seed",
                f"{fault.stage} statement {fault.statement} of {fault.table} fails, and what it "
                f"would have added is lost: {fault.error}",
            )
        await self._each(self._check_tool, self._world.tools)
        states = list(self._states.values())
        chosen = Random(self._settings.seed).sample(states, min(_STATES, len(states)))

        self._read = await self._everything_read()

        async def check(task: Task) -> None:
            await self._check_task(task, chosen)
            await self._check_adversaries(task)

        await self._each(check, self._scenario.tasks)
        self._check_texts()
        await self._check_determinism()
        order = {task.id: index for index, task in enumerate(self._scenario.tasks)}
        failures = sorted(self._failures, key=lambda failure: order.get(failure.task, -1))
        return WorldGateReport(
            worlds=1,
            tasks=len(self._scenario.tasks),
            tools=len(self._world.tools),
            failures=tuple(failures),
            probes=self._num_probes,
            names=(self._scenario.name,),
            unreached=tuple(self._unreached),
            soundness=tuple(sorted(self._soundness, key=lambda one: order[one.task])),
            unread=tuple(sorted(self._unread)),
        )

    def _fail(self, check: str, why: str, task: Task | None = None) -> None:
        self._failures.append(GateFailure(self._scenario.name, task.id if task else "", check, why))

    async def _each(self, check: Callable[[T], Awaitable[None]], subjects: Sequence[T]) -> None:
        """Check all subjects, several at once."""
        slots = anyio.CapacityLimiter(_CONCURRENCY)

        async def one(target: T) -> None:
            async with slots:
                await check(target)

        async with anyio.create_task_group() as group:
            for target in subjects:
                group.start_soon(one, target)

    async def _check_tool(self, tool: ToolSpec) -> None:
        """Probe a tool, and store the states that its calls leave for the verifiers."""
        prober = Prober(self._world, self._settings.seed)
        tried: list[tuple[Call, ToolResult]] = []
        try:
            for _ in range(self._settings.probes):
                await self._try(prober.call(tool), tried)
            base = _base(tried)
            if base is not None:
                for call, _ in islice(edge_calls(tool, base), _MAX_EDGE_CALLS):
                    await self._try(call, tried)
                for arguments, _ in islice(bad_arguments(tool, base), _MAX_EDGE_CALLS):
                    await self._try(Call(tool.name, arguments), tried)
                await self._check_keys(tool, base)
        except WorldError as exc:
            self._fail("tool", f"a call of {tool.name} breaks the world: {exc}")
            return
        self._judge_tool(tool, tried)

    async def _try(self, call: Call, tried: list[tuple[Call, ToolResult]]) -> ToolResult:
        self._num_probes += 1
        async with self._pool.lease(self._scenario, None) as env:
            result = await env.call(call.name, call.arguments, "c0-0")
            if result.changes:
                state = env.state()
                self._states.setdefault(state.digest, state)
        tried.append((call, result))
        return result

    async def _check_keys(self, tool: ToolSpec, base: Call) -> None:
        for call, name in absent_calls(tool, base):
            if (await self._try(call, [])).changes:
                value = call.arguments[name]
                why = f"{tool.name} accepts {name}={value}, which no row has, and writes"
                self._fail("constraint", f"{why}: {format_call(call)}")
                return

    def _judge_tool(self, tool: ToolSpec, tried: Sequence[tuple[Call, ToolResult]]) -> None:
        """Report what the calls of a tool prove together."""
        broken = [(call, result) for call, result in tried if result.error == "internal"]
        causes = {result.error for _, result in tried}
        if broken:
            call, result = broken[0]
            example = f"{format_call(call)} gives: {result.text}"
            if None in causes:
                why = f"{len(broken)} of {len(tried)} calls of {tool.name} fail inside"
                self._fail("constraint", f"{why}; {example}")
            elif not causes - {"internal", "arguments"}:
                why = f"every call of {tool.name} fails, {len(tried)} were tried"
                self._fail("tool", f"{why}; {example}")
                return
        if None not in causes:
            self._unreached.append(f"{self._scenario.name}.{tool.name}")

    def _check_texts(self) -> None:
        rows = self._world.dump(self._world.template.overlay())
        known = known_of(self._scenario, rows, (tool.description for tool in self._world.tools))
        for task in self._scenario.tasks:
            for fault in missing_in(task, known):
                self._fail("texts", fault, task)

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
            why = "doing nothing completes it: the target state holds from the start"
            self._fail("noop", why, task)
        if await self._verified(task, which, self._world.start, "doing nothing") != idle:
            why = f"the {which} verifier gives another result when it is repeated"
            self._fail("verifier", why, task)
        for state in states:
            if await self._verified(task, which, state, "a random call") is None:
                return

    async def _everything_read(self) -> str:
        """The results of the tools that need no argument, but for those that change rows."""
        tools = [one for one in self._world.tools if not one.schema.get("required")]
        texts = []
        for tool in tools[:MOST_READS]:
            try:
                async with self._pool.lease(self._scenario, None) as env:
                    result = await env.call(tool.name, {}, "c0-0")
            except WorldError:
                continue  # the tool is reported already
            if result.error is None and not result.changes:
                texts.append(result.text)
        return " ".join(texts)

    async def _check_adversaries(self, task: Task) -> None:
        """Give answers without any work to the task's verifier, where it reads the answer."""
        verifier = self._record.verifiers.get(task.id)
        if verifier is None or not reads_answer(verifier.code or ""):
            self._unread.append(f"{self._scenario.name}/{task.id}")
            return
        answers = answers_without_work(self._scenario.rules, self._read)
        paid = []
        for kind, answer in answers.items():
            try:
                verified = await self._pool.verify(
                    self._scenario, task, self._world.start, answer, "code"
                )
            except PoolError:
                continue  # the verifier is reported already
            if verified.label == "complete":
                paid.append(kind)
        self._soundness.append(
            TaskSoundness(
                world=self._scenario.name,
                task=task.id,
                kind=task.kind,
                adversaries=len(answers),
                paid=len(paid),
                right=0,
                completed=0,
            )
        )
        if paid:
            why = f"paid for no work: {', '.join(paid)}; let the verifier bound the answer"
            self._fail("adversaries", why, task)

    async def _verified(
        self, task: Task, which: Which, state: StoredState, after: str
    ) -> tuple[str, Any] | None:
        """Label and detail; None where the verifier failed, which is recorded."""
        try:
            verified = await self._pool.verify(self._scenario, task, state, "", which)
        except PoolError as exc:
            fault = str(exc)
        else:
            fault = verified.violation or verified.fault
        if fault:
            self._fail("verifier", f"the {which} verifier, after {after}: {fault}", task)
            return None
        return verified.label, verified.detail

    async def _check_determinism(self) -> None:
        """Make the same calls on two worlds, in turn."""
        prober = Prober(self._world, self._settings.seed + 1)
        calls = [prober.call(tool) for tool in self._world.tools]
        try:
            async with (
                self._pool.lease(self._scenario, None) as one,
                self._pool.lease(self._scenario, None) as other,
            ):
                for index, call in enumerate(calls):
                    first, second = await _made(one, call, index), await _made(other, call, index)
                    if first != second:
                        texts = f"{first[0]!r} and {second[0]!r}"
                        what = texts if first[0] != second[0] else "two different states"
                        self._fail("determinism", f"{format_call(call)} gives {what} on two worlds")
                        return
        except WorldError:
            return  # the tool is reported already


async def _made(env: Env, call: Call, index: int) -> tuple[str, str]:
    result = await env.call(call.name, call.arguments, f"c{index}-0")
    return result.text, result.digest


def _base(tried: Sequence[tuple[Call, ToolResult]]) -> Call | None:
    """A call that succeeded, if possible one that changed rows; None: none did."""
    succeeded = [(call, result) for call, result in tried if result.error is None]
    wrote = [call for call, result in succeeded if result.changes]
    return next(iter(wrote or [call for call, _ in succeeded]), None)


def _kinds(verifier: AwmVerifier | None) -> list[Which]:
    """The kinds of verifiers that a task has."""
    if verifier is None:
        return []
    found: list[Which] = []
    if verifier.code is not None:
        found.append("code")
    if verifier.sql is not None:
        found.append("sql")
    return found
