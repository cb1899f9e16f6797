"""The mistakes of the episodes of a log: those that are stored with the verdicts, and those that an
old log lacks. They are found here, in the worlds of packages that are still there."""

from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.logged_runs.logged_run import (
    found_scenarios,
    hosting_settings,
    scenario_finder,
    strangers_of,
)
from rehearsal_room.harness.outcomes.failure_kinds import count_kinds, diagnoses_in
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.judge.failures.diagnoser import Diagnoser, with_diagnosis
from rehearsal_room.judge.failures.report import Diagnosed
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario

_log = structlog.get_logger(__name__)


class Reading(msgspec.Struct, frozen=True):
    """The diagnosed episodes of a run."""

    episodes: tuple[Diagnosed, ...]
    without_solution: int  # of those that failed: findings alone were read


class Finder:
    """Finds the mistakes of a log's episodes. `open_finder` makes it. Scenarios are hosted when an
    episode of theirs is asked for."""

    def __init__(self, pool: RoutingPool | None, scenarios: Iterable[Scenario]) -> None:
        self._pool = pool
        self._scenarios = {scenario.digest: scenario for scenario in scenarios}
        self._is_hosted: dict[str, bool] = {}  # by digest
        self._here = Diagnoser(pool, self._scenarios.values())
        self._blind = Diagnoser(None, ())

    async def find(self, trajectory: Trajectory, verdict: Judged | None) -> Diagnosis:
        """The mistakes of an episode that is over. Where its world cannot be hosted any more, the
        findings of the verdict are read."""
        scenario = self._scenarios.get(trajectory.started.scenario_digest)
        if verdict is None:  # the ending says it all
            return await self._blind.diagnosis(trajectory, verdict)
        if scenario is not None and await self._host(scenario):
            try:
                return await self._here.diagnosis(trajectory, verdict)
            except Exception as exc:  # of a package; a report is not lost for it
                _log.warning("not_compared", episode=trajectory.episode, error=repr(exc))
        return await self._blind.diagnosis(trajectory, verdict)

    async def add_to(self, trajectory: Trajectory, judged: Judged) -> Judged:
        """The verdict with the episode's mistakes (see Diagnoser.add_to)."""
        return await with_diagnosis(trajectory, judged, self.find)

    async def _host(self, scenario: Scenario) -> bool:
        known = self._is_hosted.get(scenario.digest)
        if known is None:
            assert self._pool is not None
            try:
                await self._pool.host_all([scenario])
                known = True
            except PoolError as exc:
                _log.warning("world_not_hosted", scenario=scenario.name, error=str(exc))
                known = False
            self._is_hosted[scenario.digest] = known
        return known


@asynccontextmanager
async def open_finder(folder: Path, reader: LogReader) -> AsyncIterator[Finder]:
    """What finds the mistakes of this run's episodes. No package of somebody else runs (see
    harness.setup.run_trust), and no server is started that the run's settings name: of these
    episodes the findings are read."""
    async with AsyncExitStack() as stack:
        pool, scenarios = None, list[Scenario]()
        try:
            scenarios = [] if strangers_of(folder) else _with_solutions(folder, reader)
            if scenarios:
                opened = pool_of(hosting_settings(folder, starts_servers=False))
                pool = await stack.enter_async_context(opened)
                if any(map(pool.isolates, scenarios)):
                    await pool.start()
        except (HarnessError, ScenarioError, PoolError) as exc:
            _log.warning("worlds_not_found", run=str(folder), error=str(exc))
            pool, scenarios = None, []
        yield Finder(pool, scenarios)


def _with_solutions(folder: Path, reader: LogReader) -> list[Scenario]:
    """The scenarios of a log that are still there and have solutions. A foreign server is not
    started."""
    try:
        found = found_scenarios(reader, scenario_finder(folder))
    except ScenarioError:  # a suite whose data is gone
        return []
    known = [one for one in found if one.foreign is None]
    return [one for one in known if any(task.oracle for task in one.tasks)]


async def find_diagnoses(
    folder: Path,
    reader: LogReader,
    rows: Sequence[EpisodeRow],
    done: Callable[[], Any] = lambda: None,
    *,
    only: Container[str] | None = None,
) -> dict[str, Diagnosis]:
    """The mistakes of each episode that is over, by its name: the stored ones, or else found here.
    `rows` are the log's. `done` is called after each; `only` these episodes (None: all). Raises
    LogError."""
    logged = diagnoses_in(rows)
    if only is not None:
        logged = {episode: one for episode, one in logged.items() if episode in only}
    found = {episode: one for episode, one in logged.items() if one is not None}
    for _ in found:
        done()
    if len(found) < len(logged):
        async with open_finder(folder, reader) as finder:
            for episode in logged:
                if episode not in found:
                    found[episode] = await _find(finder, reader, episode)
                    done()
    return {episode: found[episode] for episode in logged}


async def _find(finder: Finder, reader: LogReader, episode: str) -> Diagnosis:
    trajectory = await anyio.to_thread.run_sync(reader.trajectory, episode)
    verdict = trajectory.judged[-1] if trajectory.judged else None
    return await finder.find(trajectory, verdict)


def diagnoses_of(folder: Path) -> dict[str, Diagnosis]:
    """The same for callers outside of an event loop."""
    with open_reader(folder) as reader:
        rows = reader.episodes()
        logged = diagnoses_in(rows)
        found = {episode: one for episode, one in logged.items() if one is not None}
        if len(found) == len(logged):
            return found
        return run(find_diagnoses, folder, reader, rows)


def kinds_of(folder: Path) -> dict[str, int]:
    """The number of a run's episodes of each kind, the most frequent first; for callers outside of
    an event loop. Raises LogError."""
    return count_kinds(diagnoses_of(folder).values())


async def diagnose_one(folder: Path, episode: str) -> Diagnosis:
    """The mistakes of one episode; none while it is not over. Raises LogError."""
    with open_reader(folder) as reader:
        trajectory = reader.trajectory(episode)
        if trajectory.ended is None:
            return Diagnosis()
        verdict = trajectory.judged[-1] if trajectory.judged else None
        if verdict is not None and verdict.diagnosis is not None:
            return verdict.diagnosis
        async with open_finder(folder, reader) as finder:
            return await finder.find(trajectory, verdict)


async def read_failures(folder: Path, done: Callable[[], Any] = lambda: None) -> Reading:
    """The episodes of a run that are over, with their mistakes. `done` is called after each. Raises
    LogError."""
    with open_reader(folder) as reader:
        rows = await anyio.to_thread.run_sync(reader.episodes)
        found = await find_diagnoses(folder, reader, rows, done)
        tools = await anyio.to_thread.run_sync(reader.called_tools)
        return _reading(str(folder), rows, tools, found)


def _reading(
    run: str,
    rows: Sequence[EpisodeRow],
    tools: Mapping[tuple[str, int], tuple[str, ...]],
    found: Mapping[str, Diagnosis],
) -> Reading:
    episodes = tuple(
        [
            Diagnosed(
                run=run,
                episode=row.episode,
                scenario=row.scenario,
                task=row.task,
                seed=row.seed,
                tags=row.tags,
                tools=tools.get((row.episode, row.attempt), ()),
                is_completed=row.label is Label.COMPLETED,
                mistakes=found[row.episode].mistakes,
            )
            for row in rows
            if row.episode in found
        ]
    )
    without = sum(not one.is_completed and not found[one.episode].has_solution for one in episodes)
    return Reading(episodes, without)
