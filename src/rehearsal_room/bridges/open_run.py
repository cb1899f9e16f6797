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
import anyio.to_thread

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.finished import FinishedEpisodes
from rehearsal_room.bridges.run_options import RunOptions, RunOverError, Tasks, tasks_of
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.reports.summary import read_report, write_report
from rehearsal_room.harness.rollout.meters import Meters, measuring
from rehearsal_room.harness.rollout.monitor import Monitor
from rehearsal_room.harness.rollout.process import warnings_only
from rehearsal_room.harness.rollout.session import (
    RunParts,
    make_context,
    open_log_and_bus,
    snapshot_of,
    sole_exception,
    start_subscribers,
)
from rehearsal_room.scenarios.format import Scenario


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
    monitor, meters = Monitor(total=0, judged=is_judged), Meters()
    meters.start()
    snapshots = [await snapshot_of(parts.pool, scenario) for scenario in worlds]
    opened = open_log_and_bus(folder, snapshots, None, resume=False)
    async with opened as (log, bus), measuring(log, meters):
        recorder = Recorder(log)
        context = make_context(parts, recorder, meters)
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
