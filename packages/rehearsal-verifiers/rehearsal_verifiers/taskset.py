"""The taskset: our tasks, with their rewards, metrics and validation."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.run_options import check_options, tasks_of
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.noop import NoopPolicy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_verifiers.runs import Settings, options_of, run_of
from rehearsal_verifiers.verdict import KEY, verdict_of


class RehearsalData(vf.TaskData):
    """One task of a world."""

    task: str  # as in `shop_support:cancel-duplicate`
    settings: Settings


class RehearsalTask(vf.Task[RehearsalData]):
    """A task, whose reward and metrics are what our judge found."""

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Whether the solution that the task's author gave earns the whole reward."""
        return verdict_of(await self._play(OraclePolicy(Native())))["reward"] == 1.0

    @vf.reward(weight=1.0)
    async def rehearsal(self, trace: vf.Trace) -> float:
        """The reward of our judge."""
        return float((await self._verdict(trace))["reward"])

    @vf.metric
    async def verdict(self, trace: vf.Trace) -> dict[str, float]:
        """What else is known of the episode, as numbers."""
        return dict((await self._verdict(trace))["metrics"])

    async def _verdict(self, trace: vf.Trace) -> dict[str, Any]:
        """What the harness left in the trace. A trace in which nobody played is judged as an
        episode in which nobody did anything. Raises TaskError where there is no verdict."""
        if KEY not in trace.info:
            if trace.num_turns:
                raise vf.TaskError(
                    "taskset rehearsal-verifiers is played by its own harness"
                    " (--env.agent.harness.id rehearsal-verifiers); other harnesses can play these"
                    " tasks with the taskset nemo-gym and `rehearse serve`"
                )
            trace.info[KEY] = verdict_of(await self._play(NoopPolicy(Native())))
        found: dict[str, Any] = trace.info[KEY]
        if found["reward"] is None:
            raise vf.TaskError(found["why"])
        return found

    async def _play(self, policy: Policy) -> Trajectory:
        run = run_of(self.data.settings)
        return await run.run(partial(OpenRun.play, policy=policy), self.data.task)


class RehearsalConfig(vf.TasksetConfig):
    """Which tasks, and how they are played."""

    scenarios: list[str] = Field(default_factory=lambda: ["shop_support"])
    """Worlds and tasks, as `name`, `path` or `name:task`."""
    history: str = "full"
    """Which turns the model sees, as in `last:3`; each window is a branch of the trace."""
    max_steps: int | None = None
    """Steps in an episode; None: 2.5 times those of the task's solution, at least 20."""
    agent: str = ""
    """An agent of your own that plays, as `rehearse run --agent` takes it: MODULE:FUNCTION, a
    command or a URL. Each conversation that it begins or rewrites is a branch of the trace."""
    output: Path = Path("runs/verifiers")
    """Folder for our logs, one for each process."""


class RehearsalTaskset(vf.Taskset[RehearsalTask, RehearsalConfig]):
    """Our tasks."""

    def load(self) -> Iterator[RehearsalTask]:
        """Each task once. Raises SettingsError and ScenarioError."""
        config = self.config
        settings = Settings(
            scenarios=tuple(config.scenarios),
            history=config.history,
            max_steps=config.max_steps,
            output=str(config.output),
            agent=config.agent,
        )
        check_options(options_of(settings))
        for name, (_, task) in tasks_of(config.scenarios).items():
            data = RehearsalData(name=name, prompt=task.instruction, task=name, settings=settings)
            yield RehearsalTask(data, config.task)
