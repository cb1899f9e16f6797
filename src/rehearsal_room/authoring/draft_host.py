"""Hosts drafts of worlds that a model writes: in sandboxed workers, never in this process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random
from typing import Any, Literal, Protocol

import msgspec

from rehearsal_room.authoring.author import Unanswerable
from rehearsal_room.authoring.temptations import tempting_writes, wrong_reasons
from rehearsal_room.authoring.tool_probe import ToolProbe
from rehearsal_room.envpool.core.errors import PoolError, SeedError, ToolsetError, WorldError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply, Window
from rehearsal_room.harness.core.messages import Answer as FinalAnswer
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.mutants import Mutant, mutants_of
from rehearsal_room.harness.rollout.episode import briefing_of
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call, Scenario, Task
from rehearsal_room.scenarios.synth.core.protocols import (
    CallResult,
    JudgedRun,
    MutantResult,
    ProbeResult,
    RequestPurpose,
    Temptation,
    ToolShape,
    Unhostable,
)

MAX_STEPS = 20  # steps of a solver, as in AWM
MAX_MUTANTS = 80  # mutants of a solution; of more, a seeded sample is run


class Solver(Protocol):
    """The model that tries to solve tasks."""

    async def reply(self, window: Window, purpose: RequestPurpose, *, seed: int) -> Reply:
        """The model's reply. Raises Unanswerable and the errors of synthesis."""


class SandboxedDraftHost:
    """Hosts packages in isolation. It implements scenarios.synth.core.protocols.DraftHost."""

    def __init__(self, pool: RoutingPool, solver: Solver, *, max_steps: int = MAX_STEPS) -> None:
        self._pool = pool
        self._solver = solver
        self._max_steps = max_steps

    @asynccontextmanager
    async def host(self, scenario: Scenario) -> AsyncIterator["HostedPackage"]:
        """The hosted package; it is dropped when the block ends. Raises Unhostable."""
        if not self._pool.isolates(scenario):
            raise ValueError("only packages whose code a model wrote are hosted here")
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
        solver: Solver,
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
        """Call every tool, also in states that other tools reach (see authoring.tool_probe)."""
        probe = ToolProbe(
            self._states,
            self._lease,
            seed=seed,
            clean=lambda text: _without_folder(text, self._scenario),
        )
        return await probe.run()

    async def call(self, calls: Sequence[Call]) -> tuple[CallResult, ...]:
        """Make the calls on a fresh world, in order; fewer results where one broke the world."""
        run = _Run()
        with suppress(WorldError):
            async with self._lease() as env:
                for call in calls:
                    await run.call(env, call)
        return tuple(run.made)

    async def run(self, task_id: str, calls: Sequence[Call], answer: str) -> JudgedRun:
        """Make the calls on a fresh world, then run the verifier."""
        task = self._scenario.task(task_id)
        run = _Run()
        try:
            async with self._pool.lease(self._scenario, task) as env:
                for call in calls:
                    await run.call(env, call)
                return await self._judge_run(task, env, run, answer)
        except WorldError as exc:
            return run.broken(str(exc))

    async def solve(self, task_id: str, *, seed: int) -> JudgedRun:
        """Let the solver make its own calls and answer, then run the verifier."""
        task = self._scenario.task(task_id)
        run = _Run()
        try:
            async with self._pool.lease(self._scenario, task) as env:
                answer = await self._solve(task, env, run, seed)
                played = await self._judge_run(task, env, run, answer or "")
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

    async def try_mutants(
        self,
        task_id: str,
        solution: JudgedRun,
        temptation: Temptation | None = None,
        *,
        named: str = "",
    ) -> MutantResult:
        """Run the solution with every single mistake in it, at most MAX_MUTANTS of them; with a
        temptation, those that the task invites are among them. Of the answer's values only those in
        the text `named` are altered, if it has some of them."""
        task = msgspec.structs.replace(
            self._scenario.task(task_id), oracle=solution.calls, answer=solution.answer
        )
        writes = [made.changed for made in solution.results]
        unwanted = [] if temptation is None else await self._tempting(task_id, solution, temptation)
        mutants = mutants_of(task, writes, self._states.tools, unwanted=unwanted, named=named)
        mutants += [] if temptation is None else wrong_reasons(solution.calls, temptation)
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

    async def _tempting(
        self, task_id: str, solution: JudgedRun, temptation: Temptation
    ) -> list[Call]:
        return await tempting_writes(
            self._states,
            self._lease,
            solution,
            temptation.functions,
            rng=Random(task_id),
        )

    def _lease(self) -> AbstractAsyncContextManager[Env]:
        return self._pool.lease(self._scenario, None)

    async def _solve(self, task: Task, env: Env, run: "_Run", seed: int) -> str | None:
        """The solver's answer; None: it gave none within max_steps."""
        dialect = Native()
        briefing = briefing_of(self._scenario, task, env.tools)
        tools = dialect.request_tools(briefing)
        messages = dialect.opening_messages(briefing)
        purpose = RequestPurpose("solve", self._scenario.name)
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

    async def _judge_run(self, task: Task, env: Env, run: "_Run", answer: str) -> JudgedRun:
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


class _Run:
    """The calls made in one world so far."""

    def __init__(self) -> None:
        self.made: list[CallResult] = []
        self.changes: list[Any] = []

    async def call(self, env: Env, call: Call) -> ToolResult:
        """Make one call and record it."""
        result = await env.call(call.name, call.arguments, f"c{len(self.made)}-0")
        self.made.append(CallResult(call, result.text, result.error, bool(result.changes)))
        self.changes.append(result.changes)
        return result

    def broken(self, why: str) -> JudgedRun:
        """The run, unfinished for the reason `why`."""
        return JudgedRun(tuple(self.made), "", "", (), unfinished=why)


def _call_of(call: AgentCall) -> Call:
    return Call(call.name, call.arguments)


def _sample(mutants: Sequence[Mutant], task_id: str) -> list[Mutant]:
    if len(mutants) <= MAX_MUTANTS:
        return list(mutants)
    sampled = Random(task_id).sample(range(len(mutants)), MAX_MUTANTS)
    return [mutants[index] for index in sorted(sampled)]
