"""What the fixture `rehearse_world` gives: a live world, whose tools the test calls itself.

    def test_an_order_is_cancelled(rehearse_world):
        rehearse_world.call("cancel_order", {"order_id": 4105, "reason": "duplicate"})
        episode = rehearse_world.finish("Order 4105 is cancelled.")
        assert [change.table for change in episode.changes] == ["orders"]

It is an episode like every other: each call is a logged step, and `finish` brings the verdict. It
runs on an event loop in a thread of its own, so plain and async tests may use it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.driven import DrivenEpisode
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.agents.agent_env import TaskView
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.testing.claims import Claim
from rehearsal_room.testing.plays import PlayedEpisode, new_folder, reported, scenario_named


class LiveWorld:
    """The fixture `rehearse_world`. Methods that begin with `a` are for async tests (asyncio)."""

    def __init__(self, name: str, folder: Path) -> None:
        """Lease the world of a task; of a scenario, that of its first task. Raises ScenarioError,
        PoolError, and SettingsError (a dialogue, which has a user)."""
        self._run = BackgroundRun(folder, [name], RunOptions(judge=ScenarioJudges))
        self._folder = folder
        try:
            self._episode = self._run.call(_begin, next(iter(self._run.tasks)))
        except BaseException:
            self._run.close()
            raise

    def __repr__(self) -> str:
        return f"<rehearse_world of {', '.join(self._run.tasks)}>"

    @property
    def task(self) -> TaskView:
        """What an agent may know of the task."""
        return self._episode.view

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The world's tools."""
        return self._episode.tools

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool; return its text, with `error` set where the call failed. Raises StepLimit
        and WorldFailed as `AgentEnv.call` does."""
        return self._run.call(_call, self._episode, name, arguments or {})

    async def acall(self, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """The same in an async test."""
        return await self._run.run(_call, self._episode, name, arguments or {})

    def finish(self, answer: str) -> PlayedEpisode:
        """Give the final answer; return the episode with its verdict and its changed rows."""
        return self._run.call(_finish, self._episode, answer, self._folder)

    async def afinish(self, answer: str) -> PlayedEpisode:
        """The same in an async test."""
        return await self._run.run(_finish, self._episode, answer, self._folder)

    def close(self) -> None:
        """End the episode, if it is live, and close its run."""
        self._run.close()


@contextmanager
def leased(name: str | None, claim: Claim, folder: Path) -> Iterator[LiveWorld]:
    """The world of a task (None: the claim's), for a block; `folder` is the test's."""
    with reported():
        named = scenario_named(claim.scenarios if name is None else (name,))
        world = LiveWorld(named[0], new_folder(folder))
    try:
        yield world
    finally:
        world.close()


async def _begin(run: OpenRun, name: str) -> DrivenEpisode:
    return await DrivenEpisode.begin(run, name, by="pytest")


async def _call(
    _: OpenRun, episode: DrivenEpisode, name: str, arguments: dict[str, Any]
) -> ToolResult:
    return await episode.call(name, arguments)


async def _finish(_: OpenRun, episode: DrivenEpisode, answer: str, folder: Path) -> PlayedEpisode:
    return PlayedEpisode(await episode.finish(answer), folder)
