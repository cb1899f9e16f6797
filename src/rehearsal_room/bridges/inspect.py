"""Inspect AI (0.3): our tasks as an Inspect task, and Inspect's agents as ours.

    # worlds.py: `inspect eval worlds.py --model openai/gpt-5`
    @task
    def shop_support() -> Task:
        return rehearsal_task(["shop_support"], "runs/inspect", judge=ScenarioJudges)

Each sample is an episode of a run in the folder: the setup leases a world, each tool call
is a logged step, the scorer asks our judge, and the cleanup gives the world back. Inspect keeps the
conversation, so there is no history window. Needs Inspect's asyncio backend, which is its default.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai import Task
from inspect_ai.agent import Agent
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.driven import DrivenEpisode
from rehearsal_room.bridges.inspect_tools import tool_of, tools_of_sample
from rehearsal_room.bridges.run_options import PATIENT, RunOptions
from rehearsal_room.harness.agents.agent_env import StepLimit, WorldFailed
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.library import JudgeFactory
from rehearsal_room.harness.settings.limits import Limits

_native = Native()
_live: dict[str, tuple[BackgroundRun, DrivenEpisode]] = {}  # by Inspect's id of the sample


def rehearsal_task(
    scenarios: str | Sequence[str],
    output: str | Path,
    *,
    judge: JudgeFactory,
    agent: Agent | Solver | None = None,
    limits: Limits = PATIENT,
    **fields: Any,
) -> Task:
    """An Inspect task with a sample for each task of the scenarios (`name`, `path`, `name:task`)
    but the dialogues; how many there are goes to standard error.

    `agent` None: the model calls tools until it answers. An agent of Inspect gets the tools with
    `tools=[world_tools()]`. `fields` are more fields of the Task. Raises SettingsError for
    scenarios that cannot be used; a folder that has a run already fails at the first sample.
    """
    run = BackgroundRun(output, scenarios, RunOptions(judge=judge, limits=limits))
    samples = [
        Sample(
            input=task.instruction,
            id=name,
            metadata={"scenario": scenario.name, "task": task.id, "tags": list(task.tags)},
        )
        for name, (scenario, task) in run.tasks_without_users("Inspect").items()
    ]
    return Task(
        dataset=MemoryDataset(samples),
        setup=_lease(run),
        solver=agent if agent is not None else generate(),
        scorer=_judged(),
        cleanup=_give_back,
        **fields,
    )


_SAID = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}


@solver
def _lease(run: BackgroundRun) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        begun = await run.run(_begin, str(state.sample_id))
        episode, briefing = begun
        _live[state.uuid] = run, episode

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return await run.run(_called, episode, name, arguments)

        state.tools = [tool_of(tool, call).as_tool() for tool in episode.tools]
        system, *earlier, user = _native.opening_messages(briefing)
        tools_of_sample.set(list(state.tools))
        state.messages = [
            ChatMessageSystem(content=system.content),
            *[_SAID[one.role](content=one.content) for one in earlier],
            ChatMessageUser(content=user.content),
        ]
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def _judged() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        run, episode = _live[state.uuid]
        answer = None if _was_cut(state, episode) else state.output.completion
        played = await run.run(_finished, episode, answer)
        judged = played.judged[-1]
        known = {"episode": played.episode, "reward": judged.reward, "label": judged.label}
        if judged.label is None:
            return Score.unscored(reason=judged.unjudged, answer=answer, metadata=known)
        found = msgspec.to_builtins(judged.findings)
        completed = judged.label is Label.COMPLETED and played.ended.ending is Ending.ANSWERED
        return Score(value=completed, answer=answer, metadata={**known, "findings": found})

    return score


def _was_cut(state: TaskState, episode: DrivenEpisode) -> bool:
    """Whether the model was stopped before it answered: its last message calls a tool of the world,
    or is not whole. (`react` answers by a tool of its own.)"""
    if not state.output.choices or state.output.stop_reason == "max_tokens":
        return True
    names = {tool.name for tool in episode.tools}
    return any(call.function in names for call in state.output.message.tool_calls or ())


async def _give_back(state: TaskState) -> None:
    if (found := _live.pop(state.uuid, None)) is not None:
        run, episode = found
        await run.run(_cancelled, episode)


async def _begin(run: OpenRun, name: str) -> tuple[DrivenEpisode, Briefing]:
    return await DrivenEpisode.begin(run, name, by="inspect"), await run.briefing(name)


async def _called(_: OpenRun, episode: DrivenEpisode, name: str, given: dict[str, Any]) -> str:
    try:
        return (await episode.call(name, given)).text
    except (StepLimit, WorldFailed):
        return "The episode is over; no further call is made."


async def _finished(_: OpenRun, episode: DrivenEpisode, answer: str | None) -> Any:
    return await episode.finish(answer)


async def _cancelled(_: OpenRun, episode: DrivenEpisode) -> None:
    await episode.cancel()
