"""Prompts and verdicts for worlds that are served over protocols
(envpool.protocols.episodes.Episodes).

An episode that a client played over a protocol becomes the facts of an episode: a step for each
call that its lease recorded, and its answer. The judge gets the same trajectory as that of a run.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Self

import anyio
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup, TaskStatus

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.protocols.episodes import Opening, PlayedWorld, WorldVerdict
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.server.lease import RecordedCall
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, EpisodeStarted, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import call_id
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.rollout.episode import briefing_of
from rehearsal_room.harness.rollout.running import Judge
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.scenarios.format import Scenario, Task

_NO_JUDGE = "this server has no judge (--judge none)"


class ServedEpisodes(AsyncContextManagerMixin):
    """Prompts, and verdicts of a judge. `open_judge` None: there is none, and nothing is judged.

    The pool hosts a world when it is first leased, so with `one_by_one` a judge is opened for each
    world at its first verdict. Else the pool hosts `scenarios` already, and one judge has them all.
    """

    def __init__(
        self,
        pool: RoutingPool,
        open_judge: OpenJudge | None,
        scenarios: Sequence[Scenario],
        *,
        folder: Path,
        one_by_one: bool,
    ) -> None:
        self._pool = pool
        self._open_judge = open_judge
        self._scenarios = scenarios
        self._folder = folder
        self._one_by_one = one_by_one
        self._dialect = Native()
        self._judges: dict[str, Judge] = {}  # by package digest
        self._opening_lock = anyio.Lock()
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as self._tasks:
            if self._open_judge is not None and not self._one_by_one:
                judge = await self._opened(self._open_judge, self._scenarios)
                self._judges = {scenario.digest: judge for scenario in self._scenarios}
            yield self

    def opening(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec]
    ) -> tuple[Opening, ...]:
        """The messages with which a task begins, as in a run with dialect native."""
        briefing = briefing_of(scenario, task, tools)
        messages = self._dialect.opening_messages(briefing)
        return tuple([Opening(one.role, one.content) for one in messages])

    async def verdict(self, played: PlayedWorld) -> WorldVerdict:
        """The judge's verdict on an episode."""
        if self._open_judge is None:
            return WorldVerdict(None, None, "none", unjudged=_NO_JUDGE)
        judge = await self._judge_of(self._open_judge, played.scenario)
        judged = await judge.verdict(trajectory_of(played))
        label = None if judged.label is None else judged.label.value
        return WorldVerdict(label, judged.reward, judged.judge, judged.findings, judged.unjudged)

    async def _judge_of(self, open_judge: OpenJudge, scenario: Scenario) -> Judge:
        async with self._opening_lock:
            judge = self._judges.get(scenario.digest)
            if judge is None:
                judge = await self._opened(open_judge, [scenario])
                self._judges[scenario.digest] = judge
            return judge

    async def _opened(self, open_judge: OpenJudge, scenarios: Sequence[Scenario]) -> Judge:
        """A judge, held open by a task of its own until the block is left."""
        opened = open_judge(pool=self._pool, scenarios=scenarios, folder=self._folder, spent=0.0)
        judge: Judge = await self._tasks.start(_hold_open, opened)
        return judge


def trajectory_of(played: PlayedWorld) -> Trajectory:
    """The facts of an episode that was played over a protocol."""
    steps = [_step(turn, call) for turn, call in enumerate(played.calls)]
    ending = Ending.WORLD_ERROR
    if played.error is None:
        ending = Ending.ANSWERED
        steps.append(StepTaken(Reply(played.answer), Answer(played.answer)))
    ended = EpisodeEnded(
        ending=ending,
        answer=played.answer,
        num_steps=len(steps),
        state=played.state,
        error=played.error,
        seconds=played.seconds,
        checked=played.checked,
    )
    return Trajectory(played.episode, 1, _started(played), tuple(steps), ended, ())


def _started(played: PlayedWorld) -> EpisodeStarted:
    scenario, task, history = played.scenario, played.task, FullWindow()
    return EpisodeStarted(
        scenario=scenario.name,
        task=task.id,
        instruction=task.instruction,
        group=played.episode,
        member=0,
        group_size=1,
        seed=0,
        policy=played.wire,
        dialect="native",
        history=history.spec,
        fingerprint=history.fingerprint,
        scenario_digest=scenario.digest,
        start_digest=played.start_digest,
        seeding="" if scenario.awm is None else scenario.awm.seeding,
        tags=task.tags,
    )


def _step(turn: int, call: RecordedCall) -> StepTaken:
    made = (AgentCall(call.name, call.arguments, call_id(turn, 0)),)
    reply = Reply(calls=made, finish="tool_calls")
    return StepTaken(reply, Act(made), (call.result,), calls_s=call.seconds)


async def _hold_open(
    block: AbstractAsyncContextManager[Judge], *, task_status: TaskStatus[Judge]
) -> None:
    async with block as judge:
        task_status.started(judge)
        await anyio.sleep_forever()
