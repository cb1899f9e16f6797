"""Finding the mistakes of episodes, with each task's solution played once in its world.

The judges of a run find them together with their verdicts (`Diagnoser.add_to`), in the worlds that
the run has hosted. What an old log lacks is found later (see judge.failures.reading).
"""

from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol, TypeGuard

import anyio
import msgspec
import structlog

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.mistakes import Diagnosis, Mistake
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.runners import LeasingPool
from rehearsal_room.judge.failures.calls import enumerated_arguments
from rehearsal_room.judge.failures.diagnose import diagnose, needs_reference
from rehearsal_room.judge.failures.reference import Reference, TableKeys, reference_of, tables_in
from rehearsal_room.scenarios.core.dialogue import ModelUser, UserCall
from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.format import Call, Scenario, Task

_MAX_REFERENCES = 4_096  # tasks whose solutions are kept
_DEADLINE_S = 60.0  # for a solution that is played outside of this process
_LONGEST_WHY = 1_000  # characters
_log = structlog.get_logger(__name__)
_TaskKey = tuple[str, str]  # scenario digest and task
Find = Callable[[Trajectory, Judged | None], Awaitable[Diagnosis]]


class Hosting(Protocol):
    """A pool that hosts the scenarios; one that leases worlds is a LeasingPool, too."""

    def hosted(self, scenario: Scenario) -> States:
        """A scenario that is hosted already."""


class Diagnoser:
    """Finds the mistakes of episodes that are over, of these scenarios. `pool` hosts them."""

    def __init__(self, pool: Hosting | None, scenarios: Iterable[Scenario]) -> None:
        self._pool = pool
        found = {scenario.digest: scenario for scenario in scenarios}
        self._scenarios = (
            {}
            if pool is None
            else {
                digest: scenario
                for digest, scenario in found.items()
                if scenario.foreign is None and any(task.oracle for task in scenario.tasks)
            }
        )
        self._tasks: dict[_TaskKey, Task] = {
            (digest, task.id): task
            for digest, scenario in self._scenarios.items()
            for task in scenario.tasks
            if task.oracle or task.kind != "open"
        }
        self._tables: dict[str, dict[str, TableKeys]] = {}  # by scenario digest
        self._references: OrderedDict[_TaskKey, Reference] = OrderedDict()
        self._playing = defaultdict[_TaskKey, anyio.Lock](anyio.Lock)

    def suspends(self, trajectory: Trajectory) -> bool:
        """Whether finding the mistakes may have to wait for a world outside of this process."""
        started = trajectory.started
        key = started.scenario_digest, started.task
        if key not in self._tasks or key in self._references:
            return False
        return not _answers_at_once(self._hosted(self._scenarios[key[0]]))

    async def add_to(self, trajectory: Trajectory, judged: Judged) -> Judged:
        """The verdict with the episode's mistakes. Where they cannot be found, it is given without
        them: a verdict is never lost for its reasons, and they can be found later."""
        return await with_diagnosis(trajectory, judged, self.diagnosis)

    async def diagnosis(self, trajectory: Trajectory, verdict: Judged | None) -> Diagnosis:
        """The mistakes of an episode that is over. Raises PoolError, and TimeoutError, where the
        task's solution cannot be played."""
        started = trajectory.started
        key = started.scenario_digest, started.task
        task = self._tasks.get(key)
        if task is None:
            found = diagnose(trajectory, verdict, None)
            return Diagnosis(tuple(map(_bounded, found)), has_solution=False)
        scenario, reference = self._scenarios[key[0]], None
        # The solution of a benchmark's task takes as long as an episode: habits are not worth it.
        is_cheap = scenario.suite is None or verdict is None or verdict.label is not Label.COMPLETED
        if is_cheap and needs_reference(trajectory, verdict, task):
            reference = await self._reference(scenario, task)
        found = diagnose(trajectory, verdict, reference, solution=task.oracle)
        return Diagnosis(tuple(map(_bounded, found)))

    def _hosted(self, scenario: Scenario) -> States:
        assert self._pool is not None
        return self._pool.hosted(scenario)

    async def _reference(self, scenario: Scenario, task: Task) -> Reference:
        """The solution of a task, played once."""
        key = scenario.digest, task.id
        if (known := self._references.get(key)) is not None:
            self._references.move_to_end(key)
            return known
        world = self._hosted(scenario)
        if _answers_at_once(world):  # so nothing comes in between
            lease = world.lease()
            played = [
                (is_own, lease.call(call.name, call.arguments, call_id))
                for is_own, call, call_id in _calls(task)
            ]
            return self._keep(scenario, task, world, played, world.tools)
        assert isinstance(self._pool, LeasingPool)
        async with self._playing[key]:  # many verdicts on one task may be due at once
            if (known := self._references.get(key)) is not None:
                return known
            with anyio.fail_after(_DEADLINE_S):
                async with self._pool.lease(scenario, task) as env:
                    played = [
                        (is_own, await env.call(call.name, call.arguments, call_id))
                        for is_own, call, call_id in _calls(task)
                    ]
                    tools = env.tools
            return self._keep(scenario, task, world, played, tools)

    def _keep(
        self,
        scenario: Scenario,
        task: Task,
        world: States,
        played: list[tuple[bool, ToolResult]],
        tools: Iterable[ToolSpec],
    ) -> Reference:
        tables = self._tables.get(scenario.digest)
        if tables is None:
            tables = self._tables[scenario.digest] = tables_in(world.template.image)
        results = [result for is_own, result in played if not is_own]
        found = reference_of(task, results, tables, enumerated_arguments(tools))
        self._references[scenario.digest, task.id] = found
        if len(self._references) > _MAX_REFERENCES:
            dropped, _ = self._references.popitem(last=False)
            self._playing.pop(dropped, None)
        return found


def _answers_at_once(world: States) -> TypeGuard[BlockingWorld]:
    """Whether a world's tools run in this process. The world of a benchmark does not: what its pool
    hosts here is the mirror of its records."""
    return world.scenario.suite is None and isinstance(world, BlockingWorld)


async def with_diagnosis(trajectory: Trajectory, judged: Judged, find: Find) -> Judged:
    """The verdict with what `find` gives; without it where that fails."""
    try:
        found = await find(trajectory, judged)
    except Exception as exc:
        _log.warning("not_diagnosed", episode=trajectory.episode, error=repr(exc))
        return judged
    return msgspec.structs.replace(judged, diagnosis=found)


def _calls(task: Task) -> Iterator[tuple[bool, Call | UserCall, str]]:
    """The solution's calls with their ids; where a user acts in it, its calls stand between them
    (True: it is the user's)."""
    turns = task.user.solution if isinstance(task.user, ModelUser) else ()
    acting = {one.after: turn.calls for one, turn in zip(task.utterances, turns, strict=False)}
    for index, call in enumerate(task.oracle):
        for number, own in enumerate(acting.get(index, ())):
            yield True, own, f"u{index}-{number}"
        yield False, call, f"c{index}-0"


def _bounded(mistake: Mistake) -> Mistake:
    if len(mistake.why) <= _LONGEST_WHY:
        return mistake
    return msgspec.structs.replace(mistake, why=shortened(mistake.why, _LONGEST_WHY))
