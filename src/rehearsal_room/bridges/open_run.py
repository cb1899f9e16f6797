"""A run without a plan: an episode begins when a program asks for it, until the block is left.

Trainers and evaluation frameworks decide themselves which task is played when. Log, bus, judge and
episode loop are those of every run, so it can be shown, judged, replayed and exported.

    async with open_run("runs/door", ["shop_support"], judge=ScenarioJudges, policy=policy) as run:
        trajectory = await run.play("shop_support:cancel-duplicate")

Promises:
- An episode that began has one ending; those that are live when the block is left are cancelled.
- What `play` returns is on disk, with its verdict where there is a judge.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.finished import FinishedEpisodes
from rehearsal_room.bridges.run_options import (
    RunOptions,
    RunOverError,
    TasksByName,
    check_options,
    tasks_of,
)
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.agents.opening import opened_driver
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.reports.summary import read_report, write_report
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.process import warnings_only
from rehearsal_room.harness.rollout.running import running
from rehearsal_room.harness.rollout.session import RunParts, context_of, snapshot_of, unwrapped
from rehearsal_room.harness.settings.limits import Limits

MODEL = "policy"  # the name of the trainer's model, as an agent of the user's own finds it


@asynccontextmanager
async def open_run(
    folder: str | Path, scenarios: str | Sequence[str], options: RunOptions
) -> AsyncIterator[OpenRun]:
    """A block in which episodes of these scenarios (`name`, `path` or `name:task`) can be played;
    they are logged in the new folder, and report.json is written at its end.

    Raises SettingsError, ScenarioError, PoolError and LogError, and what failed in the judge.
    """
    check_options(options)
    folder, tasks = Path(folder), tasks_of(scenarios)
    with warnings_only(), unwrapped():
        async with RoutingPool() as pool:
            worlds = {scenario.digest: scenario for scenario, _ in tasks.values()}
            await pool.host_all(worlds.values())
            finished = FinishedEpisodes(is_judged=options.judge is not None)
            parts = RunParts(
                pool=pool,
                policy=options.policy,
                dialect=options.dialect,
                history=options.history,
                format=options.format,
                limits=options.limits,
                judge=options.judge and options.judge(pool, list(worlds.values())),
                listeners=(finished,),
            )
            try:
                async with _opened(folder, tasks, parts, finished, options) as run:
                    yield run
            finally:
                finished.stop(RunOverError("the run ended before the episode was judged"))
    await anyio.to_thread.run_sync(_write_report, folder, options.limits)


@asynccontextmanager
async def _opened(
    folder: Path,
    tasks: TasksByName,
    parts: RunParts,
    finished: FinishedEpisodes,
    options: RunOptions,
) -> AsyncIterator[OpenRun]:
    """The run, whose live episodes are cancelled at the end of the block."""
    worlds = {scenario.digest: scenario for scenario, _ in tasks.values()}
    meters = Meters()
    opened = running(
        folder,
        [await snapshot_of(parts.pool, scenario) for scenario in worlds.values()],
        parts,
        left=None,
        judged=parts.judge is not None,
        meters=meters,
        live=parts.pool,
    )
    async with opened as session:
        context = context_of(parts, session, meters)
        async with opened_driver(options.own_agent, MODEL, folder) as agent:
            run = OpenRun(tasks, context, finished, options, session.helpers, agent)
            try:
                yield run
            finally:
                with anyio.CancelScope(shield=True):
                    await run.close()
        session.monitor.set_total(run.num_begun)


def _write_report(folder: Path, limits: Limits) -> None:
    with open_reader(folder) as reader:
        write_report(folder, read_report(reader, max_steps=limits.max_steps))
