"""The episodes that a program asks for in an open run (see bridges.open_run)."""

import anyio
import anyio.abc
import msgspec

from rehearsal_room.bridges.finished import FinishedEpisodes
from rehearsal_room.bridges.run_options import RunOptions, RunOverError, TasksByName
from rehearsal_room.harness.agents.opening import named_for_agent
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.rollout.episode import (
    EpisodeDriver,
    RunContext,
    briefing_of,
    run_episode,
)
from rehearsal_room.harness.rollout.plan import EpisodePlan, episode_seed
from rehearsal_room.scenarios.format import Scenario, Task


class OpenRun:
    """An open run, which plays episodes on request."""

    def __init__(
        self,
        tasks: TasksByName,
        context: RunContext,
        finished: FinishedEpisodes,
        options: RunOptions,
        helpers: anyio.abc.TaskGroup,
        agent: EpisodeDriver | None = None,
    ) -> None:
        """`agent` is the agent of the user's own that plays `with_model`; None: there is none."""
        self.tasks = tasks
        self.helpers = helpers  # tasks that end with the run
        self.options = options
        self.num_begun = 0
        self._context = context
        self._finished = finished
        self._agent = agent
        self._scopes: dict[str, anyio.CancelScope] = {}  # of live episodes
        self._idle = anyio.Event()
        self._is_over = False

    def __repr__(self) -> str:
        return f"<OpenRun [{self.num_begun} episodes, {len(self._scopes)} live]>"

    def task(self, name: str) -> tuple[Scenario, Task]:
        """The task of this name, as in `shop_support:cancel-duplicate`. Raises SettingsError."""
        found = self.tasks.get(name)
        if found is None:
            known = ", ".join(list(self.tasks)[:3])
            raise SettingsError(
                f"task: this run has no task {name!r}; it has {len(self.tasks):,}: {known}, …"
            )
        return found

    async def briefing(self, name: str) -> Briefing:
        """What an agent gets to know before its first turn of a task. Raises SettingsError."""
        scenario, task = self.task(name)
        tools = self._context.pool.hosted(scenario).tools
        return briefing_of(scenario, task, tools, history=self._context.history.spec)

    async def play(
        self,
        name: str,
        *,
        policy: Policy | None = None,
        driver: EpisodeDriver | None = None,
        seed: int | None = None,
        group: str = "",
        member: int = 0,
        group_size: int = 1,
    ) -> Trajectory:
        """Play an episode of a task; return it with its verdict.

        `policy` None: the run's own. `driver` takes the steps instead (see run_episode). Episodes
        of one `group` are compared with each other; empty: the episode is a group of its own.
        Raises SettingsError for an unknown task, PoolError, and RunOverError when the run is closed
        meanwhile.
        """
        if self._is_over:
            raise RunOverError(f"{self!r} is closed: no further episode can begin")
        plan = self._plan(name, seed, group, member, group_size)
        context = self._context
        if policy is not None:
            context = msgspec.structs.replace(context, policy=policy)
        finished = self._finished.expect(plan.episode)
        try:
            await self._run_episode(plan, context, driver)
            return await finished.wait()
        finally:
            self._finished.forget(plan.episode)

    async def play_with(
        self,
        name: str,
        *,
        model: Policy,
        seed: int | None = None,
        group: str = "",
        member: int = 0,
        group_size: int = 1,
    ) -> Trajectory:
        """Play an episode of a task with this model: the agent of the user's own takes the steps
        and asks it, or, where the run has none, the model itself takes them. Raises as `play`."""
        return await self.play(
            name,
            policy=named_for_agent(model, self.options.own_agent),
            driver=self._agent,
            seed=seed,
            group=group,
            member=member,
            group_size=group_size,
        )

    async def _run_episode(
        self, plan: EpisodePlan, context: RunContext, driver: EpisodeDriver | None
    ) -> None:
        scope = self._scopes[plan.episode] = anyio.CancelScope()
        try:
            with scope:
                await run_episode(plan, context, driver)
        finally:
            if self.options.judge is None:
                context.recorder.close(plan.episode)
            del self._scopes[plan.episode]
            if self._is_over and not self._scopes:
                self._idle.set()
        if scope.cancelled_caught:
            raise RunOverError(f"episode {plan.episode} was cancelled: the run was closed")

    async def close(self) -> None:
        """Cancel the live episodes, and wait until each has recorded its end."""
        self._is_over = True
        for scope in self._scopes.values():
            scope.cancel()
        if self._scopes:
            await self._idle.wait()

    def _plan(
        self, name: str, seed: int | None, group: str, member: int, group_size: int
    ) -> EpisodePlan:
        scenario, task = self.task(name)
        number, self.num_begun = self.num_begun, self.num_begun + 1
        if seed is None:
            seed = episode_seed(self.options.seed, number, 0)
        return EpisodePlan(
            episode=f"e{number:06d}",
            scenario=scenario,
            task=task,
            group=group or f"g{number:06d}",
            member=member,
            group_size=group_size,
            seed=seed,
        )
