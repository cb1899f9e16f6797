"""The code judge for scenarios whose code runs in workers: verifiers that a model wrote.

A verdict is made as for packages of ours; only the verifier is asked elsewhere. What an AWM
verifier of kind `code` returns becomes one finding, a goal: met where it said `complete`. One of
kind `sql` gives evidence for a judge that reasons, no verdict. A verifier that raises, gives
something else or does what it must not leaves the episode unjudged, with the reason.
"""

from collections import Counter
from contextlib import suppress
from typing import Literal, Protocol, runtime_checkable

import msgspec

from envpool.core.errors import PoolError
from envpool.core.offload import Verified
from envpool.core.types import StoredState
from harness.core.events import Judged
from harness.core.trajectory import Trajectory
from judge.code.code_judge import idle_among, met_goals, needs_idle, no_such_task, unjudged, verdict
from judge.core.case import Case
from judge.core.errors import VerifierError
from judge.core.evidence import Evidence, Verification, ended_of, gather, scenario_info
from judge.core.rewards import AWM, RewardProfile
from scenarios.checks import Finding
from scenarios.format import Scenario, Task

Which = Literal["code", "sql"]


@runtime_checkable
class Verifies(Protocol):
    """Where verifiers are asked; a pool with workers."""

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: Which = "code",
    ) -> Verified:
        """What the task's verifier says of a state and an answer. Raises PoolError."""


class IsolatedJudge:
    """Judges the episodes of one scenario that are over."""

    def __init__(
        self, scenario: Scenario, start: StoredState, pool: Verifies, profile: RewardProfile = AWM
    ) -> None:
        self._scenario = scenario
        self._scene = scenario_info(scenario)
        self._start = start
        self._pool = pool
        self._profile = profile
        self._tasks = {task.id: task for task in scenario.tasks}
        self._idle: dict[str, Counter[str]] = {}  # task id -> goals met by doing nothing

    async def judge(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""
        return (await self._judged(trajectory, observe=False))[0]

    async def judge_with_evidence(self, trajectory: Trajectory) -> tuple[Judged, Evidence | None]:
        """The verdict and what it is based on, what a `sql` verifier saw included (None: the
        scenario has no such task)."""
        return await self._judged(trajectory, observe=True)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """The episode for a judge that reasons; the verdict where there is nothing to judge."""
        judged, evidence = await self._judged(trajectory, observe=True)
        if evidence is None:
            return judged
        idle = Counter[str]()
        if met_goals(evidence.findings):
            with suppress(VerifierError):  # then nothing was met for nothing, as far as is known
                idle = await self._idle_goals(self._tasks[trajectory.started.task])
        author: Literal["ours", "awm"] = "ours" if self._scenario.awm is None else "awm"
        return Case(trajectory, evidence, idle_among(evidence, idle), judged, author)

    async def _judged(
        self, trajectory: Trajectory, *, observe: bool
    ) -> tuple[Judged, Evidence | None]:
        ended = ended_of(trajectory)
        task = self._tasks.get(trajectory.started.task)
        if task is None:
            return no_such_task(trajectory), None
        if ended.state is None:
            verification = Verification((), "the world could not tell its state")
        else:
            verification = await self._verify(task, ended.state, ended.answer)
            if observe:
                seen = await self._observed(task, ended.state, ended.answer)
                verification = msgspec.structs.replace(verification, observed=seen)
        evidence = gather(trajectory, verification, self._scene)
        try:
            idle = await self._idle_goals(task) if needs_idle(evidence) else Counter[str]()
        except VerifierError as exc:
            return unjudged(trajectory, str(exc), evidence.findings), evidence
        return verdict(trajectory, evidence, idle, self._profile), evidence

    async def _idle_goals(self, task: Task) -> Counter[str]:
        goals = self._idle.get(task.id)
        if goals is None:
            idle = await self._verify(task, self._start, "")
            if idle.unverified is not None:
                raise VerifierError(idle.unverified)
            goals = self._idle[task.id] = met_goals(idle.findings)
        return goals

    async def _verify(self, task: Task, state: StoredState, answer: str) -> Verification:
        """The findings of the task's verifier, or why there are none."""
        if self._scenario.awm is not None:
            code = self._scenario.awm.verifiers.get(task.id)
            if code is None or code.code is None:
                return Verification((), f"{self._name(task)} has no verifier of kind code")
        try:
            verified = await self._pool.verify(self._scenario, task, state, answer)
        except PoolError as exc:
            return Verification((), f"the verifier of {self._name(task)} failed: {exc}")
        if fault := verified.violation or verified.fault:
            return Verification((), f"the verifier of {self._name(task)} failed: {fault}")
        if self._scenario.awm is None:
            return Verification(verified.findings)
        finding = Finding(
            name="verify_task_completion",
            passed=verified.label == "complete",
            expected="complete",
            found=verified.label,
            kind="goal",
        )
        return Verification((finding,))

    async def _observed(self, task: Task, state: StoredState, answer: str) -> str:
        """What the task's `sql` verifier returned, as JSON; empty where there is none."""
        awm = self._scenario.awm
        if awm is None or (both := awm.verifiers.get(task.id)) is None or both.sql is None:
            return ""
        try:
            verified = await self._pool.verify(self._scenario, task, state, answer, "sql")
        except PoolError:
            return ""
        return "" if verified.fault else msgspec.json.encode(verified.detail).decode()

    def _name(self, task: Task) -> str:
        return f"task {task.id!r} of scenario {self._scenario.name!r}"
