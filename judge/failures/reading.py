"""The episodes of a logged run, diagnosed: each task's solution is played once in the run's worlds,
where their packages are still there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from envpool.core.errors import PoolError
from envpool.router import RoutingPool
from harness.commands.logged_run import found_scenarios, run_settings, scenario_finder
from harness.core.events import Judged, Label
from harness.core.trajectory import Trajectory
from harness.log.reader import LogReader, open_reader
from harness.rollout.launch import pool_of
from judge.failures.calls import enumerated_arguments, made_calls
from judge.failures.diagnose import diagnose
from judge.failures.reference import Reference, TableKeys, reference_of, tables_in
from judge.failures.report import Diagnosed
from scenarios.errors import ScenarioError
from scenarios.format import Scenario, Task

References = dict[tuple[str, str], Reference]  # by scenario digest and task


class Reading(msgspec.Struct, frozen=True):
    """The diagnosed episodes of a run."""

    episodes: tuple[Diagnosed, ...]
    without_solution: int  # of them: findings alone were read


async def read_failures(folder: Path, done: Callable[[], Any] = lambda: None) -> Reading:
    """Diagnose every episode of a run that is over. `done` is called after each. Raises LogError,
    SettingsError, ScenarioError and PoolError."""
    with open_reader(folder) as reader:
        played = {(row.scenario_digest, row.task) for row in reader.episodes()}
        references: References = {}
        async with pool_of(run_settings(folder)) as pool:
            for scenario in _with_solutions(folder, reader):
                tasks = [task for task in scenario.tasks if (scenario.digest, task.id) in played]
                image = reader.scenarios()[scenario.digest].image
                references |= await _references(pool, scenario, tasks, tables_in(image))
        return await anyio.to_thread.run_sync(
            partial(_diagnosed, reader, str(folder), references, done)
        )


def _with_solutions(folder: Path, reader: LogReader) -> list[Scenario]:
    """The scenarios of a log that are still there and have authors' solutions. A foreign server is
    not started, and a suite's program is not asked."""
    try:
        found = found_scenarios(reader, scenario_finder(folder))
    except ScenarioError:  # a suite whose data is gone
        return []
    return [one for one in found if one.has_code and any(task.oracle for task in one.tasks)]


async def _references(
    pool: RoutingPool, scenario: Scenario, tasks: list[Task], tables: dict[str, TableKeys]
) -> References:
    found: References = {}
    try:
        await pool.host_all([scenario])
        for task in tasks:
            if not task.oracle and task.kind == "open":
                continue
            async with pool.lease(scenario, task) as env:
                results = [
                    await env.call(call.name, call.arguments, f"c{index}-0")
                    for index, call in enumerate(task.oracle)
                ]
                known = enumerated_arguments(env.tools)
            found[scenario.digest, task.id] = reference_of(task, results, tables, known)
    except PoolError:  # the world cannot be hosted any more: findings are read
        return {}
    finally:
        pool.drop(scenario)
    return found


def _diagnosed(
    reader: LogReader, run: str, references: References, done: Callable[[], Any]
) -> Reading:
    episodes = []
    without = 0
    for trajectory in reader.trajectories():
        if trajectory.ended is not None:
            started = trajectory.started
            reference = references.get((started.scenario_digest, started.task))
            without += reference is None
            episodes.append(_diagnosis(run, trajectory, reference))
        done()
    return Reading(tuple(episodes), without)


def _diagnosis(run: str, trajectory: Trajectory, reference: Reference | None) -> Diagnosed:
    started = trajectory.started
    verdict: Judged | None = trajectory.judged[-1] if trajectory.judged else None
    tags = started.tags or (() if reference is None else reference.task.tags)
    return Diagnosed(
        run=run,
        episode=trajectory.episode,
        scenario=started.scenario,
        task=started.task,
        seed=started.seed,
        tags=tags,
        tools=tuple(dict.fromkeys(call.name for call in made_calls(trajectory))),
        is_completed=verdict is not None and verdict.label is Label.COMPLETED,
        mistakes=tuple(diagnose(trajectory, verdict, reference)),
    )
