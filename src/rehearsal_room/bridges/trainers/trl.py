"""TRL (1.16): worlds as `environment_factory`, our judge as its reward.

    run = BackgroundRun("runs/trl", ["shop_support"], RunOptions(judge=ScenarioJudges))
    trainer = GRPOTrainer(
        model,
        reward_funcs=judged_reward,
        train_dataset=Dataset.from_list(rows(run)),
        environment_factory=environments(run)["shop_support"],
        …
    )

Each rollout is an episode of the run. TRL keeps the conversation and samples; we lease the world,
log each call, and judge. TRL itself is not imported here. It cannot carry history windows, nor an
agent of your own.
"""

from collections.abc import Sequence
from typing import Any

import anyio

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.driven import DrivenEpisode
from rehearsal_room.bridges.trainers.segments import reward_of
from rehearsal_room.bridges.trainers.sequences import refuse_sequences
from rehearsal_room.bridges.trainers.trl_tools import ANSWER_TOOL, META_TOOLS, method_of
from rehearsal_room.harness.agents.agent_env import StepLimit, WorldFailed
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.native import Native

_OVER = "The episode is over; no further call is made."
Factory = type["Environment"]


class Environment:
    """One environment of TRL, which is used for many episodes, one after the other. The classes
    that TRL gets are made from it; their methods are the tools."""

    _run: BackgroundRun

    def __init__(self) -> None:
        self._episode: DrivenEpisode | None = None
        self._answer: str | None = None  # None: not given as a tool call

    def reset(self, task: str, **_row: Any) -> None:
        """Begin an episode of the row's task. The prompt of the row has everything already."""
        self._answer = None
        self._episode = self._run.call(_begin, self._episode, task)

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        return _OVER if self._answer is not None else self._run.call(_called, self, name, arguments)

    def _tool_lines(self) -> str:
        assert self._episode is not None, "TRL calls reset first"
        tools = self._episode.tools
        return "\n".join(f"{one.name}: {one.description} {one.schema}" for one in tools)


def environments(run: BackgroundRun, *, own_reward: bool = False) -> dict[str, Factory]:
    """A class for each world, by name: its tools are methods. One world: pass its class to TRL;
    several: pass the dict, and make the rows with `many_worlds`.

    With `own_reward` a class has `get_reward`, and the tool `submit_answer`, since TRL does not
    show an environment what the model said; otherwise pass `judged_reward` as a reward function.
    Raises SettingsError for a windowed history, an agent of your own, and tools that cannot be
    methods.
    """
    refuse_sequences("TRL", run.options)
    classes: dict[str, Factory] = {}
    for name, (scenario, _) in run.tasks.items():
        if scenario.name not in classes:
            tools = run.call(OpenRun.briefing, name).tools
            methods = {tool.name: method_of(tool, Environment._call) for tool in tools}
            title = scenario.name.replace("-", "_").title().replace("_", "")
            classes[scenario.name] = _class_of(run, title, methods, own_reward)
    return classes


def meta_environment(run: BackgroundRun, *, own_reward: bool = False) -> Factory:
    """One class for all worlds of the run, with the two meta-tools of AWM: `list_tools` and
    `call_tool`. Raises SettingsError for a windowed history and an agent of your own."""
    refuse_sequences("TRL", run.options)
    return _class_of(run, "Worlds", META_TOOLS, own_reward)


def rows(run: BackgroundRun, *, many_worlds: bool = False) -> list[dict[str, Any]]:
    """A row of the training data for each task: `prompt`, `task`, and with `many_worlds` the
    column `environment`, by which TRL chooses among `environments`. Dialogues are left out; how
    many goes to standard error. Raises SettingsError where all tasks are dialogues."""
    found = []
    for name, (scenario, _) in run.tasks_without_users("TRL").items():
        messages = Native().opening_messages(run.call(OpenRun.briefing, name))
        prompt = [{"role": one.role, "content": one.content} for one in messages]
        row = {"prompt": prompt, "task": name}
        found.append(row | ({"environment": scenario.name} if many_worlds else {}))
    return found


def judged_reward(
    completions: Sequence[Any], environments: Sequence[Environment], **_: Any
) -> list[float | None]:
    """A reward function of TRL for any number of worlds: the reward that the judge gives to what
    the model did and said last. None, which TRL leaves out: it could not be judged."""
    answers = [_last_words(completion) for completion in completions]
    return environments[0]._run.call(_rewards, list(environments), answers)


def _class_of(run: BackgroundRun, title: str, methods: dict[str, Any], own_reward: bool) -> Factory:
    def get_reward(self: Environment) -> float | None:
        return run.call(_rewards, [self], [self._answer])[0]

    own = {"get_reward": get_reward, **ANSWER_TOOL} if own_reward else {}
    return type(title, (Environment,), {**methods, **own, "_run": run})


def _last_words(completion: Any) -> str | None:
    """What the model said last; None: it was cut off while it made calls."""
    last = completion[-1] if completion else {}
    if last.get("role") != "assistant" or last.get("tool_calls"):
        return None
    return str(last.get("content") or "")


async def _begin(run: OpenRun, before: DrivenEpisode | None, task: str) -> DrivenEpisode:
    if before is not None:
        await before.cancel()
    return await DrivenEpisode.begin(run, task, by="trl")


async def _called(_run: OpenRun, at: Environment, name: str, arguments: dict[str, Any]) -> str:
    assert at._episode is not None, "TRL calls reset first"
    try:
        return (await at._episode.call(name, arguments)).text
    except (StepLimit, WorldFailed):
        return _OVER


async def _rewards(
    _run: OpenRun, environments: Sequence[Environment], answers: Sequence[str | None]
) -> list[float | None]:
    finished: dict[int, Trajectory] = {}

    async def finish(number: int) -> None:
        episode = environments[number]._episode
        assert episode is not None, "TRL calls reset first"
        finished[number] = await episode.finish(answers[number])

    async with anyio.create_task_group() as tasks:
        for number in range(len(environments)):
            tasks.start_soon(finish, number)
    return [reward_of(finished[number]) for number in range(len(environments))]
