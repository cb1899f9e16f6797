"""An episode whose steps are taken from outside: another framework's loop calls the tools.

    episode = await DrivenEpisode.begin(run, "shop_support:cancel-duplicate", by="inspect")
    result = await episode.call("get_order", {"order_id": 1042})
    trajectory = await episode.finish("It arrives on Monday.")

It is an episode like every other: each call is a logged step, and the judge gives its verdict when
the answer is there. The framework keeps the conversation itself, so there is no history window.
"""

from typing import Any

import anyio

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.run_options import RunOverError
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.base import Agent, Assignment


class DrivenEpisode:
    """A live episode. It ends with `finish` or `cancel`, or when the run is closed."""

    def __init__(self) -> None:
        self._env: AgentEnv | None = None
        self._view: TaskView | None = None
        self._answer = ""
        self._begun = anyio.Event()
        self._answered = anyio.Event()
        self._over = anyio.Event()
        self._scope = anyio.CancelScope()
        self._trajectory: Trajectory | None = None
        self._failure: Exception | None = None

    @classmethod
    async def begin(cls, run: OpenRun, name: str, *, by: str, **options: Any) -> "DrivenEpisode":
        """Lease a world and begin an episode of a task. `by` names the framework in the log; the
        options are those of `OpenRun.play`. Raises as that does; SettingsError for a dialogue."""
        _, task = run.task(name)
        if task.user is not None:
            raise SettingsError(
                f"task: {name!r} is a dialogue, and {by} has nobody who talks to its user; name"
                " tasks without a user"
            )
        episode = cls()
        run.helpers.start_soon(episode._play, run, name, _Outside(by), options)
        await episode._begun.wait()
        if episode._failure is not None:
            raise episode._failure
        return episode

    @property
    def view(self) -> TaskView:
        """What the agent may know of the task."""
        assert self._view is not None
        return self._view

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools, in the order in which they are shown."""
        assert self._env is not None
        return self._env.tools

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool. Raises as `AgentEnv.call` does: after StepLimit and WorldFailed only
        `finish` is left."""
        assert self._env is not None
        try:
            return await self._env.call(name, arguments)
        finally:
            if self._env.stopped is not None or self._env.failure is not None:
                self._answered.set()

    async def finish(self, answer: str | None) -> Trajectory:
        """Give the answer, the first time; return the episode with its verdict. None: there is no
        answer, because the framework cut the agent off. Raises what stopped it."""
        if not self._answered.is_set():
            assert self._env is not None
            if answer is None:
                self._env.stopped = Ending.TOKEN_LIMIT, "the framework cut the agent off"
            self._answer = answer or ""
            self._answered.set()
        await self._over.wait()
        if self._trajectory is None:
            assert self._failure is not None
            raise self._failure
        return self._trajectory

    async def cancel(self) -> None:
        """End the episode as cancelled, unless it has ended; its world is given back."""
        self._scope.cancel()
        await self._over.wait()

    async def _play(
        self, run: OpenRun, name: str, policy: "_Outside", options: dict[str, Any]
    ) -> None:
        try:
            with self._scope:
                self._trajectory = await run.play(
                    name, policy=policy, driver=driver_of(self._agent), **options
                )
        except Exception as exc:
            self._failure = exc
        if self._trajectory is None and self._failure is None:
            self._failure = RunOverError(f"the episode of task {name!r} was cancelled")
        self._begun.set()
        self._over.set()

    async def _agent(self, task: TaskView, env: AgentEnv) -> str:
        self._view, self._env = task, env
        self._begun.set()
        await self._answered.wait()
        return self._answer


class _Outside:
    """Gives the log a policy name; the steps come from outside."""

    def __init__(self, name: str) -> None:
        self.name = f"own:{name}"

    def agent(self, assignment: Assignment) -> Agent:
        raise AssertionError("the steps come from outside; there is no agent")
