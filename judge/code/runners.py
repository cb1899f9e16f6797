"""Where the verifiers of a scenario run: in this process, in a worker, or in the past.

A VerifierRunner is all that the code judge uses of it. To run verifiers elsewhere (another kind of
process, a remote machine) is to write another one.

Promises:
- A runner never raises for what a verifier does. A verifier that raises, returns something else
  than findings or breaks a rule of the sandbox gives a Verification without findings and with the
  reason, and so leaves the episode unjudged.
- The code of a scenario whose verifiers run in workers is never executed in this process.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import anyio
import msgspec

from rehearsal_room.envpool.core.errors import PoolError, StateError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.answer_bounds import doubts
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.errors import VerifierError
from rehearsal_room.judge.core.evidence import Verification, calls_of, ended_of
from rehearsal_room.judge.core.put_right import left_behind, logs_of, without_corrected
from rehearsal_room.judge.core.rewards import share_of
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task

T = TypeVar("T")
Which = Literal["code", "sql"]
OraclePlay = tuple[tuple[str, ...], tuple[RowChange, ...]]  # texts of results; net changes
_STATE_UNKNOWN = "the world's final state is not known"
_IN_PROCESS, _TOOL_CALLS = VerifierRun("in_process"), VerifierRun("tool_calls")


class VerifierRunner(Protocol):
    """Runs the verifiers of one scenario."""

    @property
    def kind(self) -> VerifierSource:
        """What kind of verifiers they are, which decides how much their findings prove."""

    @property
    def suspends(self) -> bool:
        """Whether a verdict may have to wait. Where it never does, it is made at once in the
        caller's task."""

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """The findings on an episode that is over. `changes` are the world's rows, end against
        start; with `observe`, verifiers that give evidence and no findings are asked too."""

    async def verify_idle(self, task: Task) -> Verification:
        """The findings on an episode in which nothing was done and no answer was given. None are
        known (an empty tuple) where only the world itself has them."""

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """The texts that the task's oracle reads and the rows that it changes, on a fresh world;
        None: it has no solution, or no world here. Raises VerifierError where it failed."""


class InProcessRunner:
    """The verifiers of a trusted package, in this process. `world` hosts the scenario; `verifier`
    is its loaded verify.py where it is loaded already.

    Making it raises PackageError for a broken verify.py.
    """

    kind: VerifierSource = "package"
    suspends = False

    def __init__(self, world: States, verifier: Verifier | None = None) -> None:
        self._world = world
        self._verifier = verifier or Verifier(world.scenario)

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        ended = ended_of(trajectory)
        if ended.state is None:
            return Verification((), _STATE_UNKNOWN)
        return self._run(task, ended.state, changes, ended.answer)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return self._run(task, self._world.start, (), "")

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        if not isinstance(self._world, BlockingWorld):
            return None
        lease = self._world.lease()
        results = [lease.call(call.name, call.arguments) for call in task.oracle]
        return tuple(one.text for one in results), net_changes(one.changes for one in results)

    def _run(
        self, task: Task, state: StoredState, changes: Sequence[RowChange], answer: str
    ) -> Verification:
        try:
            before, after = self._world.states(state, changes)
            findings = self._verifier.run(task, before, after, answer)
        except (StateError, VerifierError) as exc:
            return Verification((), str(exc), run=_IN_PROCESS)
        return Verification(findings, run=_IN_PROCESS)


class ForgivingRunner:
    """A VerifierRunner that does not count a wrong write that was put right: where a check failed,
    the state is judged again without what such writes left behind (see judge.core.put_right). The
    second findings count where each check that passed before passes again.
    """

    def __init__(self, runner: VerifierRunner, world: States) -> None:
        self._runner = runner
        self._world = world
        self._logs = logs_of(world.scenario)
        self.kind: VerifierSource = runner.kind

    @property
    def suspends(self) -> bool:
        """See VerifierRunner."""
        return self._runner.suspends

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        found = await self._runner.verify(task, trajectory, changes, observe=observe)
        ended = trajectory.ended
        if ended is None or ended.state is None or all(one.passed for one in found.findings):
            return found
        calls = calls_of(trajectory)
        left = left_behind(calls, self._logs)
        if not left:
            return found
        try:
            state = self._world.reverted(ended.state, left)
        except StateError:  # what cannot be put back counts
            return found
        without = msgspec.structs.replace(
            trajectory, ended=msgspec.structs.replace(ended, state=state)
        )
        kept = tuple(one for one in changes if one not in left)
        second = await self._runner.verify(task, without, kept, observe=False)
        if (
            second.unverified is not None
            or _passed(found) - _passed(second)
            or _less(found, second)
        ):
            return found
        texts = without_corrected(kept, calls, self._logs)
        return msgspec.structs.replace(found, findings=second.findings, texts=texts)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._runner.verify_idle(task)

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        return await self._runner.play_oracle(task)


def _passed(verification: Verification) -> Counter[str]:
    return Counter(one.name for one in verification.findings if one.passed)


def _less(first: Verification, second: Verification) -> bool:
    """Whether the second findings have a lower share."""
    share, then = share_of(first.findings), share_of(second.findings)
    return share is not None and then is not None and share > then


@runtime_checkable
class LeasingPool(Protocol):
    """A pool in whose worlds solutions are played."""

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A fresh world."""


@runtime_checkable
class VerifierPool(LeasingPool, Protocol):
    """A pool whose workers run verifiers."""

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: Which = "code",
    ) -> Verified:
        """What the task's verifier returns for a state and an answer. Raises PoolError."""


class WorkerRunner:
    """The verifiers of a scenario whose code runs in workers only: code that a model wrote, and all
    code under `--isolate`. `start` is the state in which the scenario's worlds start.

    What an AWM verifier of kind `code` returns becomes one finding, a goal: it is met where the
    verifier returned `complete`. Where the verifier reads the answer, and the answer takes back
    what it states, refuses, or is a heap, the finding is left open (see answer_bounds.doubts). A
    verifier of kind `sql` gives evidence for a judge that asks models, and no verdict.
    """

    suspends = True

    def __init__(self, scenario: Scenario, start: StoredState, pool: VerifierPool) -> None:
        self._scenario = scenario
        self._start = start
        self._pool = pool
        self.kind: VerifierSource = "package" if scenario.awm is None else "awm"
        self._oracles: dict[str, OraclePlay] = {}  # by task id
        self._playing = defaultdict[str, anyio.Lock](anyio.Lock)

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        ended = ended_of(trajectory)
        if ended.state is None:
            return Verification((), _STATE_UNKNOWN)
        verification = await self._run(task, ended.state, ended.answer, writes=bool(changes))
        if not observe:
            return verification
        observed = await self._observe(task, ended.state, ended.answer)
        return msgspec.structs.replace(verification, observed=observed)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._run(task, self._start, "", writes=False)

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        if self._scenario.awm is not None:  # its tasks have no solutions
            return None
        async with self._playing[task.id]:  # many verdicts on one task may be due at once
            if task.id not in self._oracles:
                self._oracles[task.id] = await played_oracle(self._pool, self._scenario, task)
        return self._oracles[task.id]

    async def _run(
        self, task: Task, state: StoredState, answer: str, *, writes: bool
    ) -> Verification:
        awm = self._scenario.awm
        name = f"task {task.id!r} of scenario {self._scenario.name!r}"
        if awm is not None:
            verifier = awm.verifiers.get(task.id)
            if verifier is None or verifier.code is None:
                return Verification((), f"{name} has no verifier of kind code")
        try:
            verified = await self._pool.verify(self._scenario, task, state, answer)
        except PoolError as exc:
            return Verification((), f"the verifier of {name} failed: {exc}")
        run = VerifierRun("worker", verified.pid, verified.sandbox)
        if fault := verified.violation or verified.fault:
            return Verification((), f"the verifier of {name} failed: {fault}", run=run)
        if awm is None:
            return Verification(verified.findings, run=run)
        is_complete = verified.label == "complete"
        found = verified.label
        if is_complete and reads_answer(awm.verifiers[task.id].code or ""):
            found = "; ".join(doubts(answer, writes=writes)) or found
        finding = Finding(
            name="verify_task_completion",
            passed=found == "complete",
            expected="complete",
            found=found,
            kind="goal",
            is_open=is_complete and found != "complete",
        )
        return Verification((finding,), run=run)

    async def _observe(self, task: Task, state: StoredState, answer: str) -> str:
        """What the task's `sql` verifier returned, as JSON; empty where there is none."""
        awm = self._scenario.awm
        if awm is None or (both := awm.verifiers.get(task.id)) is None or both.sql is None:
            return ""
        try:
            verified = await self._pool.verify(self._scenario, task, state, answer, "sql")
        except PoolError:
            return ""
        return "" if verified.fault else msgspec.json.encode(verified.detail).decode()


async def played_oracle(pool: LeasingPool, scenario: Scenario, task: Task) -> OraclePlay:
    """The task's oracle in a fresh world of a pool. Raises VerifierError."""
    try:
        async with pool.lease(scenario, task) as env:
            results = [
                await env.call(call.name, call.arguments, f"oracle-{index}")
                for index, call in enumerate(task.oracle)
            ]
    except PoolError as exc:  # a worker died, say: without the bounds nothing is proved
        raise VerifierError(f"the oracle of task {task.id!r} cannot be played: {exc}") from exc
    return tuple(one.text for one in results), net_changes(one.changes for one in results)


@lru_cache(1_024)
def reads_answer(code: str) -> bool:
    """Whether the code of an AWM verifier uses its last argument, the final answer."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # which the gate's check of the verifier reports
        return False
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "verify_task_completion":
            names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            return len(names) > 2 and names[-1] in used
    return False


class LoggedRunner:
    """The checks of a foreign scenario, whose state is unknown: tool calls made them in the world
    itself before the episode's end (envpool.mcp.checks), and their findings are in the log.

    They cannot be repeated. What doing nothing would meet is not known either, so every goal that
    was met counts as done.
    """

    kind: VerifierSource = "tool_calls"
    suspends = False

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        ended = ended_of(trajectory)
        if not ended.checked:
            return Verification((), "nothing was checked in the world at the episode's end")
        return Verification(ended.checked, run=_TOOL_CALLS)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return Verification()

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner."""
        return None


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, without an event loop.

    Raises RuntimeError when it suspends: its runner waits for something.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("the verifiers run elsewhere, so their verdict must be awaited")
