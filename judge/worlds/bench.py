"""Where worlds that a model writes are tried out: in sandboxed workers, never in this process."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Literal, Protocol

import msgspec

from envpool.core.errors import PoolError, SeedError, ToolsetError, WorldError
from envpool.core.types import Env, ToolResult, ToolSpec
from envpool.router import RoutingPool
from envpool.store.changes import net_changes
from envpool.store.states import States
from harness.core.events import StepTaken
from harness.core.messages import Act, AgentCall, Reply, Window
from harness.core.messages import Answer as FinalAnswer
from harness.dialects.native import Native
from harness.policies.mutants import Mutant, mutants_of
from harness.rollout.episode import briefing_of
from judge.playback.playback import told
from judge.playback.tool_fuzzing import Prober, absent_calls, bad_arguments, edge_calls
from judge.worlds.author import Unanswerable
from scenarios.api import Row
from scenarios.format import Call, Scenario, Task
from scenarios.synth.core.protocols import (
    CallResult,
    JudgedRun,
    MutantResult,
    ProbeResult,
    Purpose,
    ToolShape,
    Unhostable,
)

MAX_STEPS = 20  # of a solver, as in AWM
MAX_MUTANTS = 80  # of a solution; beyond that a seeded sample
_PROBES = 15  # calls of a tool that fit its schema
_MORE_PROBES = 60  # where none of them succeeded
_EDGES = 40  # calls of a tool at the edge of its schema, or beyond it


class Replies(Protocol):
    """The model that tries tasks."""

    async def reply(self, window: Window, purpose: Purpose, *, seed: int) -> Reply:
        """Its reply. Raises Unanswerable, and what synthesis raises."""


class WorkerBench:
    """Hosts packages in isolation. It implements scenarios.synth.core.protocols.DraftHost."""

    def __init__(self, pool: RoutingPool, solver: Replies, *, max_steps: int = MAX_STEPS) -> None:
        self._pool = pool
        self._solver = solver
        self._max_steps = max_steps

    @asynccontextmanager
    async def host(self, scenario: Scenario) -> AsyncIterator["HostedPackage"]:
        """The package for as long as the block. Raises Unhostable."""
        if not self._pool.isolates(scenario):
            raise ValueError("a bench is for packages whose code a model wrote")
        try:
            states = await self._pool.host(scenario)
        except PoolError as exc:
            raise Unhostable(_kind_of(exc), _without_folder(str(exc), scenario)) from exc
        try:
            yield HostedPackage(scenario, states, self._pool, self._solver, self._max_steps)
        finally:
            self._pool.drop(scenario)


def _kind_of(exc: PoolError) -> Literal["seed", "tools", "host"]:
    if isinstance(exc, SeedError):
        return "seed"
    return "tools" if isinstance(exc, ToolsetError) else "host"


def _without_folder(text: str, scenario: Scenario) -> str:
    return text.replace(f"{scenario.path}/", "").replace(str(scenario.path), "the package")


class HostedPackage:
    """One package. It implements scenarios.synth.core.protocols.HostedDraft."""

    def __init__(
        self,
        scenario: Scenario,
        states: States,
        pool: RoutingPool,
        solver: Replies,
        max_steps: int,
    ) -> None:
        self._scenario = scenario
        self._states = states
        self._pool = pool
        self._solver = solver
        self._max_steps = max_steps
        self.tools: Sequence[ToolShape] = [
            ToolShape(tool.name, tool.description, tool.schema) for tool in states.tools
        ]

    def rows(self) -> dict[str, list[Row]]:
        """The start state's rows by table."""
        return self._states.dump(self._states.template.overlay())

    async def probe(self, *, seed: int) -> ProbeResult:
        """Call every tool, with what fits its schema and with what does not, each on a fresh
        world."""
        prober, wider = Prober(self._states, seed), Prober(self._states, seed + 1)
        wider.pool = _widened(wider.pool)
        faults, dead, count = [], [], 0
        for tool in self._states.tools:
            found = _Found()
            await self._fitting(tool, prober, _PROBES, found)
            if found.good is None and not found.broken:
                await self._fitting(tool, wider, _MORE_PROBES, found)
            if found.good is None and not found.broken:
                dead.append(f"{tool.name} ({found.refusal or 'no call fits its schema'})")
            elif found.good is not None and not found.broken:
                await self._odd(tool, found.good, found)
            count += found.calls
            if found.broken:
                faults.append(found.broken)
        return ProbeResult(count, tuple(faults), tuple(dead))

    async def run(self, task_id: str, calls: Sequence[Call], answer: str) -> JudgedRun:
        """The calls on a fresh world, then the verifier."""
        task = self._scenario.task(task_id)
        run = _Run()
        try:
            async with self._pool.lease(self._scenario, task) as env:
                for call in calls:
                    await run.call(env, call)
                return await self._ended(task, env, run, answer)
        except WorldError as exc:
            return run.broken(str(exc))

    async def solve(self, task_id: str, *, seed: int) -> JudgedRun:
        """The solver's own calls and answer, then the verifier."""
        task = self._scenario.task(task_id)
        run = _Run()
        try:
            async with self._pool.lease(self._scenario, task) as env:
                answer = await self._solved(task, env, run, seed)
                played = await self._ended(task, env, run, answer or "")
        except WorldError as exc:
            return run.broken(str(exc))
        except Unanswerable as exc:
            return run.broken(f"the conversation has no answer: {exc}")
        if answer is None:
            why = f"no answer within {self._max_steps} steps"
            return msgspec.structs.replace(played, unfinished=why)
        if not answer.strip():
            return msgspec.structs.replace(played, unfinished="the answer is empty")
        return played

    async def try_mutants(self, task_id: str, solution: JudgedRun) -> MutantResult:
        """Every single mistake in the solution, at most MAX_MUTANTS of them."""
        task = msgspec.structs.replace(
            self._scenario.task(task_id), oracle=solution.calls, answer=solution.answer
        )
        writes = [made.changed for made in solution.results]
        mutants = mutants_of(task, writes, self._states.tools)
        survivors, faults, equivalents = [], [], 0
        chosen = _sample(mutants, task_id)
        for mutant in chosen:
            played = await self.run(task_id, mutant.calls, mutant.answer)
            if played.fault:
                faults.append(f"after a mistake ({mutant.note}): {played.fault}")
            elif (played.digest, played.answer) == (solution.digest, solution.answer):
                equivalents += 1
            elif played.completed:
                survivors.append(mutant.note)
        counted = len(chosen) - equivalents
        caught = counted - len(survivors)
        return MutantResult(counted, caught, equivalents, tuple(survivors), tuple(faults))

    async def _solved(self, task: Task, env: Env, run: "_Run", seed: int) -> str | None:
        """The solver's answer; None: it gave none in time."""
        dialect = Native()
        briefing = briefing_of(self._scenario, task, env.tools)
        tools = dialect.request_tools(briefing)
        messages = dialect.opening_messages(briefing)
        purpose = Purpose("solve", self._scenario.name)
        for turn in range(self._max_steps):
            reply = await self._solver.reply(Window(messages, tools), purpose, seed=seed)
            decision = dialect.read(reply, turn=turn)
            if isinstance(decision, FinalAnswer):
                return decision.text
            results: list[ToolResult] = []
            if isinstance(decision, Act):
                results = [await run.call(env, _call_of(call)) for call in decision.calls]
            messages += dialect.turn_messages(StepTaken(reply, decision, tuple(results)))
        return None

    async def _ended(self, task: Task, env: Env, run: "_Run", answer: str) -> JudgedRun:
        state = env.state()
        try:
            verified = await self._pool.verify(self._scenario, task, state, answer)
            fault = verified.violation or verified.fault
            findings = verified.findings
        except PoolError as exc:
            fault, findings = str(exc), ()
        return JudgedRun(
            results=tuple(run.made),
            answer=answer,
            digest=state.digest,
            changes=net_changes(run.changes),
            findings=findings,
            fault=_without_folder(fault, self._scenario),
        )

    async def _fitting(self, tool: ToolSpec, prober: Prober, most: int, found: "_Found") -> None:
        """Calls that fit the schema."""
        for _ in range(most):
            if found.broken:
                return
            await self._try(prober.call(tool), found)

    async def _odd(self, tool: ToolSpec, base: Call, found: "_Found") -> None:
        """Calls that nearly fit, and calls that do not."""
        tried: list[Call] = [call for call, _ in edge_calls(tool, base)]
        tried += [call for call, _ in absent_calls(tool, base)]
        tried += [Call(tool.name, given) for given, _ in _objects(tool, base)]
        for call in tried[:_EDGES]:
            if found.broken:
                return
            await self._try(call, found)

    async def _try(self, call: Call, found: "_Found") -> None:
        found.calls += 1
        try:
            async with self._pool.lease(self._scenario, None) as env:
                result = await env.call(call.name, call.arguments, "c0-0")
        except WorldError as exc:
            found.broken = f"{told(call)} breaks the world: {exc}"
            return
        if result.error in ("internal", "timeout"):
            found.broken = f"{told(call)} breaks it: {_without_folder(result.text, self._scenario)}"
        elif result.error is None:
            found.good = found.good or call
        else:
            found.refusal = result.text


def _widened(pool: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """With every key of any table among the values of each column that refers to one: those that
    are referred to already are often the very ones that a tool refuses."""
    keys = pool.get("id", [])
    return {
        name: list(dict.fromkeys([*values, *keys])) if name.endswith("_id") else values
        for name, values in pool.items()
    }


def _objects(tool: ToolSpec, base: Call) -> Iterator[tuple[dict[str, Any], str]]:
    for given, what in bad_arguments(tool, base):
        if isinstance(given, dict):
            yield given, what


class _Found:
    """What calls of one tool came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.good: Call | None = None  # the first that succeeded
        self.broken = ""  # what broke it; empty: nothing did
        self.refusal = ""  # what it said when it refused last


class _Run:
    """The calls of one world, as they are made."""

    def __init__(self) -> None:
        self.made: list[CallResult] = []
        self.changes: list[Any] = []

    async def call(self, env: Env, call: Call) -> ToolResult:
        """Make one."""
        result = await env.call(call.name, call.arguments, f"c{len(self.made)}-0")
        self.made.append(CallResult(call, result.text, result.error, bool(result.changes)))
        self.changes.append(result.changes)
        return result

    def broken(self, why: str) -> JudgedRun:
        """The end of a world that came to none."""
        return JudgedRun(tuple(self.made), "", "", (), unfinished=why)


def _call_of(call: AgentCall) -> Call:
    return Call(call.name, call.arguments)


def _sample(mutants: Sequence[Mutant], task_id: str) -> list[Mutant]:
    if len(mutants) <= MAX_MUTANTS:
        return list(mutants)
    kept = Random(task_id).sample(range(len(mutants)), MAX_MUTANTS)
    return [mutants[place] for place in sorted(kept)]
