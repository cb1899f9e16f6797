"""Scratch worlds: a world at a logged turn, or at the start of a task, in which a person calls
tools.

A fork makes the logged calls again in a fresh world, as `rehearse run --from` does; every result
must be the logged one. What is called here is not logged.
"""

import secrets
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import structlog

from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.continuation.beginning import Beginning, KeptTurnsDiffer, rebuild
from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Judged,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.viewer.acting.pools import OpenPools
from rehearsal_room.viewer.reading.episode import changes_of, result_of, tools_of
from rehearsal_room.viewer.reading.open_runs import NotHereError
from rehearsal_room.viewer.reading.plain import plain

MOST = 32  # worlds at once; the one that was used longest ago is closed for a new one
_IDLE_S = 30 * 60.0
_log = structlog.get_logger(__name__)


class ScratchOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a scratch world begins."""

    settings: Settings
    scenario: Scenario
    source: str  # what commands call the scenario
    task: str = ""  # empty: none, so it cannot be judged
    run: str = ""  # id of the run; empty: it begins at the start of a task
    folder: Path = Path()  # of the run
    trajectory: Trajectory | None = None  # whose first turns are kept
    turn: int = 0  # how many of them
    snapshot: ScenarioSnapshot | None = None


class Scratch:
    """One scratch world."""

    def __init__(self, origin: ScratchOrigin, env: Env, states: States) -> None:
        self.id = secrets.token_urlsafe(9)
        self.origin = origin
        self.states = states
        self.used_at = time.monotonic()
        self.closing = anyio.Event()
        self.steps: list[StepTaken] = []  # what was called here
        self._env = env
        self._lock = anyio.Lock()

    @property
    def kept(self) -> tuple[StepTaken, ...]:
        """The turns of the logged episode."""
        logged = self.origin.trajectory
        return () if logged is None else logged.steps[: self.origin.turn]

    async def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Make a call. Raises WorldError."""
        async with self._lock:
            number = len(self.kept) + len(self.steps)
            call = AgentCall(tool, arguments, f"c{number}-0")
            result = await self._env.call(tool, arguments, f"scratch-{number}")
            self.steps.append(StepTaken(Reply(), Act((call,)), (result,)))
            return _shown(call, result)

    def described(self) -> dict[str, Any]:
        """The world as its page shows it."""
        origin = self.origin
        started = self._started()
        return {
            "id": self.id,
            "run": origin.run,
            "episode": "" if origin.trajectory is None else origin.trajectory.episode,
            "group": "" if origin.trajectory is None else started.group,
            "turn": origin.turn,
            "scenario": origin.scenario.name,
            "task": origin.task,
            "instruction": plain(started.instruction),
            "rules": origin.scenario.rules,
            "tools": tools_of(self._env.tools),
            "digest": self._env.digest,
            "command": self._command(),
            "dialect": started.dialect,
            "policy": started.policy,
            "next": self._next(),
            "calls": [
                _shown(call, result)
                for step in self.steps
                for call, result in zip(step.executed_calls, step.results, strict=True)
            ],
        }

    def trajectory(self, answer: str) -> Trajectory:
        """The resumed turns, the calls and an answer as an episode that is over."""
        steps = (*self.kept, *self.steps, StepTaken(Reply(answer), Answer(answer)))
        ended = EpisodeEnded(Ending.ANSWERED, answer, len(steps), self._env.state())
        return Trajectory(f"scratch-{self.id}", 1, self._started(), steps, ended)

    async def judged(self, answer: str, pool: RoutingPool) -> Judged:
        """The code judge's verdict on the world as it is, with an answer. Raises SettingsError
        where there is no task."""
        origin = self.origin
        if not origin.task:
            raise SettingsError("judge: a world that was opened without a task cannot be judged")
        trajectory = self.trajectory(answer)
        task = origin.scenario.task(origin.task)
        async with self._lock:
            checked = await self._env.check(task, answer)
        assert trajectory.ended is not None
        ended = msgspec.structs.replace(trajectory.ended, checked=checked)
        trajectory = msgspec.structs.replace(trajectory, ended=ended)
        opened = open_judge(
            JudgeSettings(), pool=pool, scenarios=[origin.scenario], folder=Path.cwd()
        )
        async with opened as judge:
            return await judge.verdict(trajectory)

    def state(self) -> Any:
        """The world's state now."""
        return self._env.state()

    def changes(self, *, last: bool) -> tuple[RowChange, ...]:
        """The net changes since the start, or those of the last call."""
        steps = [*self.kept, *self.steps]
        chosen = steps[-1:] if last else steps
        return net_changes(one.changes for step in chosen for one in step.executed_results)

    @property
    def digest(self) -> str:
        """The digest of the state now."""
        return self._env.digest

    def _started(self) -> EpisodeStarted:
        origin = self.origin
        if origin.trajectory is not None:
            return origin.trajectory.started
        task = origin.scenario.task(origin.task) if origin.task else None
        awm = origin.scenario.awm
        return EpisodeStarted(
            scenario=origin.scenario.name,
            task=origin.task,
            instruction="" if task is None else task.instruction,
            group="scratch",
            member=0,
            group_size=1,
            seed=0,
            policy="human",
            dialect="native",
            history="full",
            fingerprint="",
            scenario_digest=origin.scenario.digest,
            start_digest=self._env.start_digest,
            seeding="" if awm is None else awm.seeding,
            tags=() if task is None else task.tags,
        )

    def _command(self) -> str:
        origin = self.origin
        if origin.trajectory is None:
            name = f"{origin.source}:{origin.task}" if origin.task else origin.source
            return f"rehearse run {shlex.quote(name)} -g 16"
        return ""  # what goes on from a turn is asked for with what is edited there (see tries)

    def _next(self) -> dict[str, Any] | None:
        """The turn of the episode that comes next, to be edited; None: there is none."""
        logged, turn = self.origin.trajectory, self.origin.turn
        if logged is None or turn >= len(logged.steps):
            return None
        step = logged.steps[turn]
        return {
            "text": plain(step.reply.text),
            "calls": [
                {
                    "name": plain(call.name),
                    "arguments": plain(call.arguments),
                    "result": None if result is None else plain(result.text),
                    "error": None if result is None else result.error,
                }
                for call, result in zip_longest(step.decision.calls, step.results)
            ]
            if isinstance(step.decision, Act)
            else [],
        }


class Scratches:
    """The open scratch worlds, by their ids."""

    def __init__(self, group: anyio.abc.TaskGroup, pools: OpenPools) -> None:
        self._group, self._pools = group, pools
        self._open: dict[str, Scratch] = {}

    async def open(self, origin: ScratchOrigin) -> Scratch:
        """Open a world; one that was idle for long, or the oldest of too many, is closed. Raises
        SettingsError, PoolError and LogError."""
        self._close_some()
        opened = await self._group.start(self._hold, origin)
        if isinstance(opened, Exception):
            raise opened
        assert isinstance(opened, Scratch)
        return opened

    def get(self, name: str) -> Scratch:
        """The world of an id. Raises NotHereError."""
        scratch = self._open.get(name)
        if scratch is None:
            raise NotHereError("this scratch world is closed; open another one from the episode")
        scratch.used_at = time.monotonic()
        return scratch

    def close(self, name: str) -> None:
        """Close a world; no effect where it is closed."""
        if (scratch := self._open.pop(name, None)) is not None:
            scratch.closing.set()

    async def judge(self, scratch: Scratch, answer: str) -> Judged:
        """The verdict on a world as it is."""
        async with self._pools.open(scratch.origin.settings, scratch.origin.scenario) as pool:
            return await scratch.judged(answer, pool)

    def _close_some(self) -> None:
        now = time.monotonic()
        by_age = sorted(self._open.values(), key=lambda one: one.used_at)
        for number, one in enumerate(by_age):
            if len(by_age) - number >= MOST or now - one.used_at > _IDLE_S:
                self.close(one.id)

    async def _hold(self, origin: ScratchOrigin, *, task_status: anyio.abc.TaskStatus[Any]) -> None:
        is_open = False
        try:
            async with _leased(self._pools, origin) as scratch:
                is_open = True
                self._open[scratch.id] = scratch
                task_status.started(scratch)
                try:
                    await scratch.closing.wait()
                finally:
                    self._open.pop(scratch.id, None)
        except Exception as exc:
            if is_open:
                _log.warning("scratch_world_failed", why=str(exc))
            else:
                task_status.started(exc)


@asynccontextmanager
async def _leased(pools: OpenPools, origin: ScratchOrigin) -> AsyncIterator[Scratch]:
    scenario = origin.scenario
    task = scenario.task(origin.task) if origin.task else None
    async with pools.open(origin.settings, scenario) as pool, pool.lease(scenario, task) as env:
        await _bring(env, origin)
        yield Scratch(origin, env, pool.hosted(scenario))


async def _bring(env: Env, origin: ScratchOrigin) -> None:
    """Bring a fresh world to the turn where it begins. Raises SettingsError."""
    logged = origin.trajectory
    if logged is None:
        return
    if not logged.started.start_digest:
        raise SettingsError(
            "fork: the worlds of an MCP server do not reveal their state, so none can begin in the"
            " middle of an episode"
        )
    if origin.turn > len(logged.steps):
        raise SettingsError(f"turn: the episode has {len(logged.steps)} turns")
    replies = [
        event
        for event in logged.replies()
        if not isinstance(event, HistorySummarized) or event.turn < origin.turn
    ]
    num_summaries = sum(isinstance(event, HistorySummarized) for event in replies)
    beginning = Beginning(
        tuple(replies[: origin.turn + num_summaries]),
        logged.started.start_digest,
        origin=logged.started.origin,
        rules=logged.started.rules,
    )
    briefing = logged_briefing(
        logged.started,
        rules=origin.scenario.rules,
        tools=env.tools,
        user=user_of(origin.scenario),
        now=origin.scenario.clock,
    )
    dialect = dialect_of(logged.started.dialect)
    try:
        await rebuild(
            beginning, env.start_digest, env.call, env=env, dialect=dialect, briefing=briefing
        )
    except KeptTurnsDiffer as exc:
        raise SettingsError(f"fork: the world does not repeat the episode: {exc}") from exc


def _shown(call: AgentCall, result: ToolResult) -> dict[str, Any]:
    return {
        "tool": call.name,
        "arguments": plain(call.arguments),
        "result": result_of(result),
        "changes": changes_of(result.changes),
        "digest": result.digest,
    }
