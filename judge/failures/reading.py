"""The episodes of a logged run, diagnosed: each task's solution is played once in the run's worlds,
where their packages are still there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.logged_runs.logged_run import (
    found_scenarios,
    hosting_settings,
    scenario_finder,
    strangers_of,
)
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.judge.failures.calls import enumerated_arguments, made_calls
from rehearsal_room.judge.failures.diagnose import Mistake, diagnose
from rehearsal_room.judge.failures.reference import Reference, TableKeys, reference_of, tables_in
from rehearsal_room.judge.failures.report import Diagnosed
from rehearsal_room.scenarios.core.dialogue import ModelUser
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario, Task

References = dict[tuple[str, str], Reference]  # by scenario digest and task


class Reading(msgspec.Struct, frozen=True):
    """The diagnosed episodes of a run."""

    episodes: tuple[Diagnosed, ...]
    without_solution: int  # of those that failed: findings alone were read


async def read_failures(folder: Path, done: Callable[[], Any] = lambda: None) -> Reading:
    """Diagnose every episode of a run that is over. `done` is called after each. Raises LogError,
    SettingsError, ScenarioError and PoolError."""
    with open_reader(folder) as reader:
        rows = reader.episodes()
        played = {(row.scenario_digest, row.task) for row in rows}
        failing = {
            (row.scenario_digest, row.task) for row in rows if row.label is not Label.COMPLETED
        }
        references: References = {}
        async with pool_of(hosting_settings(folder, starts_servers=False)) as pool:
            for scenario in _with_solutions(folder, reader):
                # A benchmark has thousands of tasks: those that nobody failed are not played.
                asked = played if scenario.suite is None else failing
                tasks = [task for task in scenario.tasks if (scenario.digest, task.id) in asked]
                image = reader.scenarios()[scenario.digest].image
                references |= await _references(pool, scenario, tasks, tables_in(image))
        return await anyio.to_thread.run_sync(
            partial(_diagnosed, reader, str(folder), references, done)
        )


async def diagnose_one(folder: Path, episode: str) -> list[Mistake]:
    """The mistakes of one episode; none while it is not over. It is read when somebody looks at the
    episode, so no package of somebody else runs: findings alone are read then. Raises as
    read_failures does."""
    with open_reader(folder) as reader:
        trajectory = reader.trajectory(episode)
        started = trajectory.started
        references: References = {}
        scenarios = [
            one
            for one in ([] if strangers_of(folder) else _with_solutions(folder, reader))
            if one.digest == started.scenario_digest
        ]
        async with pool_of(hosting_settings(folder, starts_servers=False)) as pool:
            for scenario in scenarios:
                tasks = [task for task in scenario.tasks if task.id == started.task]
                image = reader.scenarios()[scenario.digest].image
                references |= await _references(pool, scenario, tasks, tables_in(image))
        verdict = trajectory.judged[-1] if trajectory.judged else None
        reference = references.get((started.scenario_digest, started.task))
        return list(diagnose(trajectory, verdict, reference))


def _with_solutions(folder: Path, reader: LogReader) -> list[Scenario]:
    """The scenarios of a log that are still there and have solutions. A foreign server is not
    started."""
    try:
        found = found_scenarios(reader, scenario_finder(folder))
    except ScenarioError:  # a suite whose data is gone
        return []
    known = [one for one in found if one.foreign is None]
    return [one for one in known if any(task.oracle for task in one.tasks)]


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
                results = await _solved(env, task)
                known = enumerated_arguments(env.tools)
            found[scenario.digest, task.id] = reference_of(task, results, tables, known)
    except PoolError:  # the world cannot be hosted any more: findings are read
        return {}
    finally:
        pool.drop(scenario)
    return found


async def _solved(env: Env, task: Task) -> list[ToolResult]:
    """The results of the solution's calls; where a user acts in it, its calls are made between
    them."""
    results = []
    turns = task.user.solution if isinstance(task.user, ModelUser) else ()
    acting = {one.after: turn.calls for one, turn in zip(task.utterances, turns, strict=False)}
    for index, call in enumerate(task.oracle):
        for number, own in enumerate(acting.get(index, ())):
            await env.call(own.name, own.arguments, f"u{index}-{number}")
        results.append(await env.call(call.name, call.arguments, f"c{index}-0"))
    return results


def _diagnosed(
    reader: LogReader, run: str, references: References, done: Callable[[], Any]
) -> Reading:
    episodes = []
    without = 0
    for trajectory in reader.trajectories():
        if trajectory.ended is not None:
            started = trajectory.started
            reference = references.get((started.scenario_digest, started.task))
            one = _diagnosis(run, trajectory, reference)
            without += reference is None and not one.is_completed
            episodes.append(one)
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
