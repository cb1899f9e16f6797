"""A run without a plan: an episode begins when a program asks for it, until the block is left.

Trainers and evaluation frameworks decide themselves which task is played when. Log, bus, judge and
episode loop are those of every run, so it can be shown, judged, replayed and exported.

    async with open_run("runs/door", ["shop_support"], judge=ScenarioJudges, policy=policy) as run:
        trajectory = await run.play("shop_support:cancel-duplicate")

Promises:
- An episode that began has one ending; those that are live when the block is left are cancelled.
- What `play` returns is on disk, with its verdict where there is a judge.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from envpool.router import RoutingPool
from harness.bridges.finished import FinishedEpisodes
from harness.core.errors import HarnessError, SettingsError
from harness.core.messages import Briefing
from harness.core.trajectory import Trajectory
from harness.dialects.base import Dialect
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.base import HistoryPolicy
from harness.history.last_turns import Full
from harness.history.windows import HistoryManager
from harness.library import JudgeFactory
from harness.log.reader import open_reader
from harness.log.recorder import Recorder
from harness.policies.base import Policy
from harness.policies.noop import NoopPolicy
from harness.reports.summary import read_report, write_report
from harness.rollout.episode import EpisodeDriver, RunContext, briefing_of, run_episode
from harness.rollout.meters import Meters, measuring
from harness.rollout.monitor import Monitor
from harness.rollout.plan import EpisodePlan, episode_seed, select_tasks
from harness.rollout.process import warnings_only
from harness.rollout.session import (
    RunParts,
    make_context,
    open_log_and_bus,
    snapshot_of,
    sole_exception,
    start_subscribers,
)
from harness.settings.limits import Limits
from scenarios.format import Scenario, Task

Tasks = dict[str, tuple[Scenario, Task]]  # by name, as in `shop_support:cancel-duplicate`
PATIENT = Limits(reply_timeout=None)  # trainers let episodes wait while others sample


class RunOverError(HarnessError):
    """The run was closed, or its judge or log failed, before the episode was finished."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What all episodes of an open run share."""

    judge: JudgeFactory | None = None  # None: the episodes stay unjudged
    policy: Policy = msgspec.field(default_factory=lambda: NoopPolicy(Native()))
    dialect: Dialect = msgspec.field(default_factory=Native)
    history: HistoryPolicy = msgspec.field(default_factory=Full)
    format: FormatSettings = FormatSettings()
    limits: Limits = PATIENT
    seed: int = 0


def tasks_of(scenarios: Sequence[str]) -> Tasks:
    """The tasks of scenarios given as `name`, `path` or `name:task`, by name. Raises ScenarioError
    and SettingsError."""
    found = {
        f"{scenario.name}:{task.id}": (scenario, task) for scenario, task in select_tasks(scenarios)
    }
    if not found:
        raise SettingsError(f"scenarios: {', '.join(scenarios) or 'the empty list'} has no task")
    return found


class OpenRun:
    """An open run, which plays episodes on request."""

    def __init__(
        self,
        tasks: Tasks,
        context: RunContext,
        finished: FinishedEpisodes,
        options: RunOptions,
        helpers: anyio.abc.TaskGroup,
    ) -> None:
        self.tasks = tasks
        self.helpers = helpers  # tasks that end with the run
        self.options = options
        self.num_begun = 0
        self._context = context
        self._finished = finished
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
        return briefing_of(scenario, task, self._context.pool.hosted(scenario).tools)

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
            *(f"e{number:06d}", scenario, task, group or f"g{number:06d}", member),
            group_size=group_size,
            seed=seed,
        )


@asynccontextmanager
async def open_run(
    folder: str | Path, scenarios: Sequence[str], options: RunOptions
) -> AsyncIterator[OpenRun]:
    """A block in which episodes of these scenarios (`name`, `path` or `name:task`) can be played;
    they are logged in the new folder, and report.json is written at its end.

    Raises SettingsError, ScenarioError, PoolError and LogError, and what failed in the judge.
    """
    folder, tasks = Path(folder), tasks_of(scenarios)
    with warnings_only(), _unwrapped():
        async with RoutingPool() as pool:
            worlds = {scenario.digest: scenario for scenario, _ in tasks.values()}
            await pool.host_all(worlds.values())
            judge = options.judge and options.judge(pool, list(worlds.values()))
            parts = RunParts(
                pool,
                options.policy,
                options.dialect,
                options.history,
                options.format,
                options.limits,
                judge,
            )
            async with _opened(folder, tasks, list(worlds.values()), parts, options) as run:
                yield run
    await anyio.to_thread.run_sync(_write_report, folder)


@asynccontextmanager
async def _opened(
    folder: Path, tasks: Tasks, worlds: list[Scenario], parts: RunParts, options: RunOptions
) -> AsyncIterator[OpenRun]:
    """The run with its log, bus and subscribers, which end in the order of `run_session`."""
    is_judged = parts.judge is not None
    finished = FinishedEpisodes(is_judged=is_judged)
    monitor, meters, windows = Monitor(total=0, judged=is_judged), Meters(), HistoryManager()
    meters.start()
    snapshots = [await snapshot_of(parts.pool, scenario) for scenario in worlds]
    opened = open_log_and_bus(folder, snapshots, None, resume=False)
    async with opened as (log, bus), measuring(log, meters):
        recorder = Recorder(log, folds=(windows.handle,))
        context = make_context(parts, recorder, windows, meters)
        try:
            async with anyio.create_task_group() as subscribers:
                await start_subscribers(
                    subscribers, bus, monitor, recorder, parts.judge, (finished,)
                )
                async with anyio.create_task_group() as helpers:
                    helpers.start_soon(context.watchdog.run)
                    helpers.start_soon(meters.watch, parts.pool)
                    run = OpenRun(tasks, context, finished, options, helpers)
                    try:
                        yield run
                    finally:
                        with anyio.CancelScope(shield=True):
                            await run.close()
                    monitor.set_total(run.num_begun)
                    await log.flush()
                    await monitor.wait_until_finished()
                    helpers.cancel_scope.cancel()
                bus.close()
        finally:
            finished.stop(RunOverError("the run ended before the episode was judged"))


@contextmanager
def _unwrapped() -> Iterator[None]:
    """A block that raises the one exception inside of the groups of its tasks."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from None


def _write_report(folder: Path) -> None:
    with open_reader(folder) as reader:
        write_report(folder, read_report(reader))
