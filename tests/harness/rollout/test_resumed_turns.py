"""Resuming at the turn: whole runs that are cut off at some record of their log, and go on."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalEnv, LocalPool
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.random_calls import RandomPolicy
from rehearsal_room.harness.replay.run import replay
from rehearsal_room.harness.reports.summary import report_of, without_times
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import repeats
from tests.support.run_context import (
    DONE,
    LOOK,
    MALFORMED,
    MovesPolicy,
    calls,
    library,
    never,
    pay,
    plans,
)

HISTORIES = ("full", "last:2", "tokens:300", "retrieve:1", "summary:300")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Listening:
    """A policy that notes the windows that each episode's agents were asked with."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.windows: dict[str, list[Window]] = defaultdict(list)

    @property
    def name(self) -> str:
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        return _ListeningAgent(self._inner.agent(assignment), self.windows[assignment.episode])


class _ListeningAgent:
    def __init__(self, inner: Agent, windows: list[Window]) -> None:
        self._inner = inner
        self._windows = windows

    async def reply(self, window: Window) -> Reply:
        self._windows.append(window)
        return await self._inner.reply(window)


class Mixed:
    """Random calls in every other episode, the oracle's, which change the world, in the rest."""

    name = "mixed"

    def __init__(self) -> None:
        self._policies = (RandomPolicy(Native()), OraclePolicy(Native()))

    def agent(self, assignment: Assignment) -> Agent:
        return self._policies[assignment.member].agent(assignment)


class WatchedPool(LocalPool):
    """A pool that notes the ids of the calls made in each of its worlds, lease by lease. A call
    with the id `stops_at` never returns."""

    def __init__(self, stops_at: str = "", *, awaits: bool = False) -> None:
        super().__init__()
        self.stops_at = stops_at
        self.awaits = awaits  # what its worlds say of themselves
        self.stopped = anyio.Event()
        self.leases: list[list[str]] = []

    @asynccontextmanager
    async def _watched(self, scenario: Scenario) -> AsyncIterator[Env]:
        async with super().lease(scenario) as env:
            assert isinstance(env, LocalEnv)
            self.leases.append([])
            yield _WatchedEnv(env, self, self.leases[-1])

    def lease(self, scenario: Scenario, task: Any = None) -> Any:
        return self._watched(scenario)


class _WatchedEnv(LocalEnv):
    def __init__(self, env: LocalEnv, pool: WatchedPool, made: list[str]) -> None:
        super().__init__(env.lease, pool)
        self._watcher = pool
        self._made = made
        self.awaits = pool.awaits

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        if call_id == self._watcher.stops_at:
            self._watcher.stopped.set()
            await anyio.sleep_forever()
        self._made.append(call_id)
        return await super().call(name, arguments, call_id)


def planned(episodes: int = 6) -> list[EpisodePlan]:
    scenario = library()
    tasks = [(scenario, task) for task in scenario.tasks]
    return list(plan_of(tasks, episodes=episodes, group_size=2, seed=7))


def parts(
    policy: Policy,
    history: str = "full",
    *,
    pool: LocalPool | None = None,
    format: FormatSettings | None = None,
    limits: Limits | None = None,
) -> RunParts:
    pool = pool or LocalPool()
    return RunParts(
        pool=pool,
        policy=policy,
        dialect=Native(),
        history=parse_history(history),
        format=format or FormatSettings(),
        limits=limits or Limits(),
        judge=ScenarioJudges(pool, [library()]),
    )


async def run(folder: Path, plan: Sequence[EpisodePlan], given: RunParts) -> None:
    await run_session(folder, plan, given, concurrency=3, meters=Meters(), resume=True)


def records_of(folder: Path) -> list[Record]:
    with open_reader(folder) as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def trajectories_of(folder: Path) -> dict[str, Trajectory]:
    with open_reader(folder) as reader:
        return {one.episode: one for one in reader.trajectories()}


async def write(folder: Path, records: Sequence[Record]) -> None:
    async with open_log(folder) as log:
        for record in records:
            log.append(record)


def replies_logged(records: Sequence[Record]) -> dict[str, int]:
    """How many replies each episode has, in any of its attempts."""
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for record in records:
        if isinstance(record.event, StepTaken | HistorySummarized):
            counts[record.episode, record.attempt] += 1
    best: dict[str, int] = defaultdict(int)
    for (episode, _), count in counts.items():
        best[episode] = max(best[episode], count)
    return best


def facts(trajectory: Trajectory) -> list[Any]:
    """What happened in an episode, without times."""
    timeless = {"policy_s": 0.0}
    return [
        msgspec.structs.replace(event, **timeless)
        if isinstance(event, HistorySummarized)
        else msgspec.structs.replace(event, calls_s=0.0, **timeless)
        for event in trajectory.replies()
    ] + [msgspec.structs.replace(trajectory.ended, seconds=0.0) if trajectory.ended else None]


def cuts_of(num_records: int, count: int) -> list[int]:
    return [round(number * num_records / count) for number in range(1, count)]


async def check_resumed(
    folder: Path,
    logged: Sequence[Record],
    whole: Path,
    asked: dict[str, list[Window]],
    history: str,
) -> list[Record]:
    """Resume a log that was cut off, and compare it with a run that was not; returns its records.

    `asked` are the windows of the whole run's agents.
    """
    await write(folder, logged)
    policy, pool = Listening(Mixed()), WatchedPool()
    await run(folder, planned(), parts(policy, history, pool=pool))
    after, expected = trajectories_of(folder), trajectories_of(whole)
    assert {name: facts(one) for name, one in after.items()} == {
        name: facts(one) for name, one in expected.items()
    }
    had = replies_logged(logged)
    for name, windows in asked.items():
        # Never asked for what is in the log, and asked for the rest with the very same windows.
        assert policy.windows[name] == windows[had[name] :], name
    assert all(len(made) == len(set(made)) for made in pool.leases)
    with open_reader(folder) as one, open_reader(whole) as other:
        reports = [without_times(report_of(reader.episodes())) for reader in (one, other)]
        assert reports[0] == reports[1]
    return records_of(folder)


@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES)
async def test_a_resumed_run_is_the_undisturbed_run(tmp_path: Path, history: str) -> None:
    """Wherever a crash cuts a run off, and cuts the resumed run off again while it copies the kept
    turns, the episodes end as those of an undisturbed run: with equal windows, replies, results
    and digests, and no logged reply is asked for again."""
    policy = Listening(Mixed())
    whole = tmp_path / "whole"
    await run(whole, planned(), parts(policy, history))
    records = records_of(whole)
    for cut in cuts_of(len(records), repeats(short=4, long=16)):
        folder = tmp_path / f"cut{cut}"
        after = await check_resumed(folder, records[:cut], whole, policy.windows, history)
        for second in cuts_of(len(after) - cut, 3):
            logged = after[: cut + second]
            folder = tmp_path / f"cut{cut}-{second}"
            await check_resumed(folder, logged, whole, policy.windows, history)


async def test_the_log_of_a_resumed_episode(tmp_path: Path) -> None:
    """The next attempt says how many replies it keeps, and begins with them; replay finds it equal
    at every step."""
    whole = tmp_path / "whole"
    await run(whole, plans(1), parts(OraclePolicy(Native())))
    records = records_of(whole)
    cut = tmp_path / "cut"
    await write(cut, records[:3])  # the start and two steps
    await run(cut, plans(1), parts(OraclePolicy(Native())))
    second = [record for record in records_of(cut) if record.attempt == 2]
    started = second[0].event
    assert isinstance(started, EpisodeStarted)
    assert (started.kept, started.forked_from) == (2, None)
    assert [record.event for record in second[1:3]] == [record.event for record in records[1:3]]
    pool = LocalPool()
    with open_reader(cut) as reader:
        report = await replay(reader, pool, lambda name, digest: library())
    assert (report.episodes, report.divergences) == (1, ())


ENDS = {
    "answered": (DONE, Ending.ANSWERED, Limits()),
    "format_error": (MALFORMED, Ending.FORMAT_ERROR, Limits()),
    "token_limit": (
        Reply("Half of", finish="length"),
        Ending.TOKEN_LIMIT,
        Limits(),
    ),
    "all tokens": (calls("list_overdue", tokens=9), Ending.TOKEN_LIMIT, Limits(token_limit=9)),
    "step_limit": (LOOK, Ending.STEP_LIMIT, Limits(max_steps=2)),
}


@pytest.mark.parametrize("name", ENDS)
async def test_only_the_end_is_missing(tmp_path: Path, name: str) -> None:
    """Where the crash came between the last reply and the end, the end is what it would have been,
    and the agent is not asked again."""
    last, ending, limits = ENDS[name]
    whole = tmp_path / "whole"
    await run(whole, plans(1), parts(MovesPolicy(LOOK, last), limits=limits))
    records = records_of(whole)
    ended = records[3].event
    assert isinstance(ended, EpisodeEnded)
    assert ended.ending is ending
    cut = tmp_path / "cut"
    await write(cut, records[:3])
    silent = MovesPolicy(never)
    await run(cut, plans(1), parts(silent, limits=limits))
    assert facts(trajectories_of(cut)["e000000"]) == facts(trajectories_of(whole)["e000000"])
    assert all(not agent.windows for agent in silent.agents.values())


async def test_a_cancelled_run_goes_on_after_the_calls_that_it_made(tmp_path: Path) -> None:
    """A reply whose calls were cancelled half-way is not asked for again; all of its calls are
    made, in a world that has seen none of them."""

    moves = [LOOK, _pay_twice(), DONE]
    stopping = WatchedPool(stops_at="c1-1")
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await stopping.stopped.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(stop)
        await run(tmp_path, plans(1), parts(MovesPolicy(*moves), pool=stopping))
    cancelled = trajectories_of(tmp_path)["e000000"]
    assert cancelled.ended is not None
    assert cancelled.ended.ending is Ending.CANCELLED
    assert [len(step.results) for step in cancelled.steps] == [1, 1]
    policy, pool = MovesPolicy(DONE), WatchedPool()
    await run(tmp_path, plans(1), parts(policy, pool=pool))
    after = trajectories_of(tmp_path)["e000000"]
    assert [len(step.results) for step in after.steps] == [1, 2, 0]
    assert pool.leases == [["c0-0", "c1-0", "c1-1"]]
    assert [len(kept) for kept in _kept_by(policy)] == [2]
    assert len(policy.agents["e000000"].windows) == 1


def _pay_twice() -> Reply:
    first, second = pay(100), pay(50)
    return Reply("", (first.calls[0], msgspec.structs.replace(second.calls[0], id="x1")), "tool")


def _kept_by(policy: MovesPolicy) -> list[Any]:
    return [assignment.kept for one in policy.assignments.values() for assignment in one]


async def test_a_model_that_failed_is_asked_from_there(tmp_path: Path) -> None:
    """An episode whose model could not answer goes on at the turn that has no reply."""
    failing = MovesPolicy(LOOK, pay(100), PolicyError("the model is gone"))
    await run(tmp_path, plans(1), parts(failing))
    policy = MovesPolicy(DONE)
    await run(tmp_path, plans(1), parts(policy))
    after = trajectories_of(tmp_path)["e000000"]
    assert (after.attempt, after.started.kept, len(after.steps)) == (2, 2, 3)
    assert after.ended is not None
    assert after.ended.ending is Ending.ANSWERED
    assert len(policy.agents["e000000"].windows) == 1


async def test_a_log_that_the_world_does_not_repeat(tmp_path: Path) -> None:
    """Where a kept call has another result now, the episode begins at its start, in a world without
    a trace of it."""
    whole = tmp_path / "whole"
    await run(whole, plans(1), parts(MovesPolicy(LOOK, pay(100), LOOK, DONE)))
    records = records_of(whole)
    step = records[2].event
    assert isinstance(step, StepTaken)
    result = msgspec.structs.replace(step.results[0], text="another text")
    changed = msgspec.structs.replace(step, results=(result,))
    cut = tmp_path / "cut"
    await write(cut, [*records[:2], msgspec.structs.replace(records[2], event=changed)])
    policy = MovesPolicy(LOOK, DONE)
    await run(cut, plans(1), parts(policy))
    after = trajectories_of(cut)["e000000"]
    assert (after.attempt, after.started.kept, len(after.steps)) == (2, 0, 2)
    assert after.ended is not None
    assert after.ended.state is not None
    assert after.ended.state.digest == after.started.start_digest


async def test_a_kept_call_that_hangs(tmp_path: Path) -> None:
    """A kept call that does not return is cut off like any call: it has another result than the
    logged one then, so the episode begins at its start."""
    await run(tmp_path / "whole", plans(1), parts(MovesPolicy(LOOK, LOOK, DONE)))
    await write(tmp_path / "cut", records_of(tmp_path / "whole")[:3])
    policy, pool = MovesPolicy(DONE), WatchedPool(stops_at="c1-0", awaits=True)
    limits = Limits(call_timeout=0.05)
    with anyio.fail_after(10):
        await run(tmp_path / "cut", plans(1), parts(policy, pool=pool, limits=limits))
    after = trajectories_of(tmp_path / "cut")["e000000"]
    assert (after.started.kept, len(after.steps), pool.leases) == (0, 1, [["c0-0"]])


async def test_time_before_the_crash_counts(tmp_path: Path) -> None:
    """The time limit and the length of a resumed episode include the turns before the crash."""
    whole = tmp_path / "whole"
    await run(whole, plans(1), parts(MovesPolicy(LOOK, LOOK, DONE)))
    records = records_of(whole)
    slow = [
        msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, policy_s=40.0))
        for record in records[1:3]
    ]
    cut = tmp_path / "cut"
    await write(cut, [records[0], *slow])
    await run(cut, plans(1), parts(MovesPolicy(never), limits=Limits(time_limit=80.1)))
    ended = trajectories_of(cut)["e000000"].ended
    assert ended is not None
    assert ended.ending is Ending.TIME_LIMIT
    assert 80.0 < ended.seconds < 90.0
