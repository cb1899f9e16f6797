"""Whole runs with a real log, the real judge and real time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.bus.local import LocalBus, Subscription
from rehearsal_room.harness.core.errors import LogError, ModelOutageError, PolicyError
from rehearsal_room.harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    EventKind,
    Judged,
    Label,
    Record,
    WeightsPublished,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log import writer
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.reports.summary import report_of, without_times
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.monitor import Monitor
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.running import Judge, Link, RecordRunEvent
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.format import Scenario, read
from tests.support.mini_world import variant
from tests.support.run_context import DONE, LOOK, MovesPolicy, library, never, plans


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def tasks_of(*scenarios: Scenario) -> list[tuple[Scenario, Any]]:
    return [(scenario, task) for scenario in scenarios for task in scenario.tasks]


def oracle_plans(episodes: int = 24) -> list[EpisodePlan]:
    return list(plan_of(tasks_of(library()), episodes=episodes, group_size=2, seed=7))


def make_parts(
    policy: Policy | None = None,
    *,
    scenarios: Sequence[Scenario] = (),
    judge: Judge | None = None,
    judged: bool = True,
    link: Link | None = None,
    limits: Limits | None = None,
) -> RunParts:
    pool, dialect = LocalPool(), Native()
    judge = judge or ScenarioJudges(pool, scenarios or [library()])
    return RunParts(
        pool=pool,
        policy=policy or OraclePolicy(dialect),
        dialect=dialect,
        history=parse_history("last:3"),
        format=FormatSettings(),
        limits=limits or Limits(),
        judge=judge if judged else None,
        link=link,
    )


async def run(
    folder: Path,
    planned: Iterable[EpisodePlan],
    parts: RunParts,
    *,
    concurrency: int = 8,
    resume: bool = False,
) -> Monitor:
    return await run_session(
        folder, planned, parts, concurrency=concurrency, meters=Meters(), resume=resume
    )


def rows_of(folder: Path) -> dict[str, EpisodeRow]:
    with open_reader(folder) as reader:
        return {row.episode: row for row in reader.episodes()}


def records_of(folder: Path) -> list[Record]:
    with open_reader(folder) as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def check_whole(records: Sequence[Record]) -> None:
    """Each attempt's events are numbered without a gap, begin with a start, and have at most one
    end."""
    attempts: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        attempts.setdefault((record.episode, record.attempt), []).append(record)
    for facts in attempts.values():
        assert [fact.seq for fact in facts] == list(range(len(facts)))
        assert isinstance(facts[0].event, EpisodeStarted)
        assert sum(isinstance(fact.event, EpisodeEnded) for fact in facts) <= 1


async def test_a_run(tmp_path: Path) -> None:
    """When the run returns, every episode of the plan has been run and judged and is in the log."""
    planned = oracle_plans()
    monitor = await run(tmp_path, planned, make_parts())
    rows = rows_of(tmp_path)
    assert set(rows) == {plan.episode for plan in planned}
    assert {(row.ending, row.label, row.attempt) for row in rows.values()} == {
        (Ending.ANSWERED, Label.COMPLETED, 1)
    }
    check_whole(records_of(tmp_path))
    assert (monitor.num_started, monitor.num_ended, monitor.num_judged) == (24, 24, 24)
    assert (monitor.endings, monitor.labels) == ({"answered": 24}, {"completed": 24})
    assert monitor.num_steps == sum(row.num_steps for row in rows.values())
    assert monitor.pass_rate == 1.0


async def test_a_run_without_a_judge(tmp_path: Path) -> None:
    """Without a judge a run ends with its last episode; when it is resumed with a judge, its
    episodes are judged."""
    planned = oracle_plans()
    await run(tmp_path, planned, make_parts(judged=False))
    before = records_of(tmp_path)
    assert {row.judge for row in rows_of(tmp_path).values()} == {None}
    monitor = await run(tmp_path, planned, make_parts(), resume=True)
    assert monitor.labels == {"completed": 24}
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    assert {type(record.event) for record in after[len(before) :]} == {Judged}
    check_whole(after)


async def test_nothing_left_to_do(tmp_path: Path) -> None:
    """A finished run that is resumed adds nothing and counts the same."""
    planned = oracle_plans()
    first = await run(tmp_path, planned, make_parts())
    before = records_of(tmp_path)
    again = await run(tmp_path, planned, make_parts(), resume=True)
    assert records_of(tmp_path) == before
    assert (again.endings, again.labels, again.num_steps) == (
        first.endings,
        first.labels,
        first.num_steps,
    )


async def test_a_folder_that_has_a_log(tmp_path: Path) -> None:
    """Without `resume` a run does not write into an existing log."""
    await run(tmp_path, plans(2), make_parts())
    before = records_of(tmp_path)
    with pytest.raises(LogError, match="a log already exists"):
        await run(tmp_path, plans(2), make_parts())
    assert records_of(tmp_path) == before


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.97, 1.0])
async def test_resuming_after_a_crash(tmp_path: Path, share: float) -> None:
    """Wherever the log was cut off, a resumed run repeats the episodes without an end, judges those
    without a verdict, leaves the others alone, and has the same report as a run without a crash."""
    planned = oracle_plans()
    await run(tmp_path / "whole", planned, make_parts())
    records = records_of(tmp_path / "whole")
    logged = records[: round(share * len(records))]
    cut = tmp_path / "cut"
    async with open_log(cut) as log:
        for record in logged:
            log.append(record)
    await run(cut, planned, make_parts(), resume=True)

    after = records_of(cut)
    assert after[: len(logged)] == logged
    check_whole(after)
    begun = {record.episode for record in logged}
    ended = {record.episode for record in logged if isinstance(record.event, EpisodeEnded)}
    judged = {record.episode for record in logged if isinstance(record.event, Judged)}
    added: dict[str, list[Record]] = {}
    for record in after[len(logged) :]:
        added.setdefault(record.episode, []).append(record)
    for plan in planned:
        facts = added.get(plan.episode, [])
        if plan.episode in judged:
            assert facts == []
        elif plan.episode in ended:
            assert [(type(fact.event), fact.attempt) for fact in facts] == [(Judged, 1)]
        else:
            assert {fact.attempt for fact in facts} == {2 if plan.episode in begun else 1}
            assert isinstance(facts[0].event, EpisodeStarted)
            assert isinstance(facts[-1].event, Judged)
    rows, whole = rows_of(cut), rows_of(tmp_path / "whole")
    reports = [without_times(report_of(list(one.values()))) for one in (rows, whole)]
    assert reports[0] == reports[1]


async def test_a_cancelled_run_is_resumed(tmp_path: Path) -> None:
    """A cancelled run logs its live episodes as cancelled; resumed, it repeats them and runs those
    that had not begun."""
    planned = plans(12)
    moves: dict[str, Any] = {f"e{number:06d}": [LOOK, never] for number in range(3, 12)}
    oracle = OraclePolicy(Native())

    class Some:
        """The oracle for three episodes; the agents of the others never reply."""

        name = "some"

        def agent(self, assignment: Any) -> Any:
            policy = stuck if assignment.episode in moves else oracle
            return policy.agent(assignment)

    stuck: Policy = MovesPolicy(by_episode=moves)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            done = anyio.Event()
            seen: list[Record] = []

            async def stop() -> None:
                await done.wait()
                scope.cancel()

            def receive(batch: Sequence[tuple[int, Record]]) -> None:
                seen.extend(record for _, record in batch)
                judged = sum(isinstance(record.event, Judged) for record in seen)
                started = sum(isinstance(record.event, EpisodeStarted) for record in seen)
                if judged == 3 and started == 8:
                    done.set()

            tasks.start_soon(stop)
            await run(tmp_path, planned, make_parts(Some(), link=link_to(receive)), concurrency=5)
    assert scope.cancelled_caught
    rows = rows_of(tmp_path)
    assert {name: row.ending for name, row in rows.items()} == {
        f"e{number:06d}": Ending.ANSWERED if number < 3 else Ending.CANCELLED for number in range(8)
    }
    before = records_of(tmp_path)
    monitor = await run(tmp_path, planned, make_parts(), resume=True)
    assert (monitor.endings, monitor.labels) == ({"answered": 12}, {"completed": 12})
    assert [rows_of(tmp_path)[plan.episode].attempt for plan in planned] == (
        [1] * 3 + [2] * 5 + [1] * 4
    )
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    check_whole(after)


async def test_episodes_without_a_model_are_played_again(tmp_path: Path) -> None:
    """A resumed run repeats the episodes whose model could not answer as their next attempt (not
    without `repeat_failures`); its report counts the last attempts."""
    planned = plans(6)
    moves: dict[str, Any] = {f"e{n:06d}": [LOOK, PolicyError("gone")] for n in (1, 4)}
    await run(tmp_path, planned, make_parts(MovesPolicy(LOOK, DONE, by_episode=moves)))
    first = report_of(list(rows_of(tmp_path).values()))
    assert (first.model_failures, first.model_failure_causes) == (2, {"gone": 2})
    before = records_of(tmp_path)
    await run_session(
        *(tmp_path, planned, make_parts()),
        concurrency=8,
        meters=Meters(),
        resume=True,
        repeat_failures=False,
    )
    assert records_of(tmp_path) == before
    await run(tmp_path, planned, make_parts(MovesPolicy(LOOK, DONE)), resume=True)
    assert {name: row.attempt for name, row in rows_of(tmp_path).items()} == {
        f"e{n:06d}": 2 if n in (1, 4) else 1 for n in range(6)
    }
    again = report_of(list(rows_of(tmp_path).values()))
    assert (again.model_failures, again.endings) == (0, {"answered": 6})
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    check_whole(after)


async def test_an_outage_stops_the_run(tmp_path: Path) -> None:
    """When the model server goes away, the error is raised unchanged; the live episodes are logged
    as cancelled, and a resumed run finishes all of them."""
    outage = ModelOutageError("model 'm': 20 connection failures in a row")
    policy = MovesPolicy(LOOK, never, by_episode={"e000002": [LOOK, outage]})
    with pytest.raises(ModelOutageError) as caught:
        await run(tmp_path, plans(9), make_parts(policy), concurrency=4)
    assert caught.value is outage
    assert {row.ending for row in rows_of(tmp_path).values()} == {Ending.CANCELLED}
    monitor = await run(tmp_path, plans(9), make_parts(), resume=True)
    assert monitor.labels == {"completed": 9}


class Publisher:
    """A link that calls a function with each batch; before the next batch it waits for `permit`."""

    def __init__(
        self,
        receive: Callable[[Sequence[tuple[int, Record]]], None],
        permit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._receive = receive
        self._permit = permit

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        self._receive(batch)

    async def wait_for_room(self) -> None:
        if self._permit is not None:
            await self._permit()


def link_to(
    receive: Callable[[Sequence[tuple[int, Record]]], None],
    permit: Callable[[], Awaitable[None]] | None = None,
) -> Link:
    @asynccontextmanager
    async def link(position: int) -> AsyncIterator[Publisher]:
        yield Publisher(receive, permit)

    return link


async def test_a_link_gets_the_log(tmp_path: Path) -> None:
    """A link gets every event once, in the log's order, from the log's position on."""
    received: list[tuple[int, Record]] = []
    await run(tmp_path, plans(4), make_parts(link=link_to(received.extend)))
    assert received == list(enumerate(records_of(tmp_path), 1))
    num_first = len(received)
    await run(tmp_path, plans(9), make_parts(link=link_to(received.extend)), resume=True)
    assert received == list(enumerate(records_of(tmp_path), 1))
    assert len(received) > num_first


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> int:
    """All queues of a run are tiny; returns the log's capacity."""
    monkeypatch.setattr(writer, "CAPACITY", 4)
    monkeypatch.setattr(writer, "_MAX_ROWS", 3)
    defaults = LocalBus.subscribe.__wrapped__.__kwdefaults__  # type: ignore[attr-defined]
    monkeypatch.setitem(defaults, "depth", 1)
    return 4


@pytest.mark.parametrize("concurrency", [1, 3, 24])
async def test_no_deadlock(tmp_path: Path, tiny: int, concurrency: int) -> None:
    """With every queue full all the time, a run with a judge ends and its log is whole."""
    monitor = await run(tmp_path, oracle_plans(), make_parts(), concurrency=concurrency)
    assert monitor.labels == {"completed": 24}
    check_whole(records_of(tmp_path))


async def test_a_slow_link_slows_the_run(tmp_path: Path, tiny: int) -> None:
    """While a link has no room, the run makes only as many events as the log holds; none is
    lost."""
    received: list[tuple[int, Record]] = []
    permits = anyio.Semaphore(0)
    pool_leases: list[int] = []
    parts = make_parts(link=link_to(received.extend, permits.acquire))
    concurrency = 3
    async with anyio.create_task_group() as tasks:

        async def allow() -> None:
            for _ in range(5):
                await anyio.sleep(0.05)
                pool_leases.append(parts.pool.statistics()["calls"])
                permits.release()
            for _ in range(10_000):
                permits.release()

        tasks.start_soon(allow)
        await run(tmp_path, oracle_plans(), parts, concurrency=concurrency)
    assert received == list(enumerate(records_of(tmp_path), 1))
    # A batch and a full log, and the events that a worker adds without waiting for room: a start, a
    # step, an end.
    most = [(number + 1) * 3 + tiny + 3 * concurrency for number in range(5)]
    assert all(calls <= limit for calls, limit in zip(pool_leases, most, strict=True))


async def test_a_bug_in_a_policy(tmp_path: Path) -> None:
    """A bug is raised unchanged, not in an exception group; the live episodes are logged as
    cancelled and repeated when the run is resumed."""
    bug = ZeroDivisionError("a bug")
    policy = MovesPolicy(LOOK, never, by_episode={"e000002": [LOOK, bug]})
    with pytest.raises(ZeroDivisionError) as caught:
        await run(tmp_path, plans(6), make_parts(policy), concurrency=4)
    assert caught.value is bug
    assert [row.ending for row in rows_of(tmp_path).values()] == [Ending.CANCELLED] * 4
    monitor = await run(tmp_path, plans(6), make_parts(), resume=True)
    assert monitor.labels == {"completed": 6}


class BrokenJudge:
    """A judge with a bug that occurs at its third verdict, or at the first one from the log."""

    def __init__(self, bug: Exception) -> None:
        self._bug = bug

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Event], Awaitable[None]]
    ) -> None:
        num = 0
        while True:
            for record in await subscription.receive():
                num += isinstance(record.event, EpisodeEnded)
                if num == 3:
                    raise self._bug

    async def verdict(self, trajectory: Trajectory) -> Event:
        raise self._bug


async def test_a_bug_in_the_judge(tmp_path: Path) -> None:
    """A bug in the judge stops the run and is raised unchanged, live and from the log; episodes
    that ended are not repeated when the run is resumed."""
    bug = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError) as caught:
        await run(tmp_path, plans(30), make_parts(judge=BrokenJudge(bug)), concurrency=2)
    assert caught.value is bug
    with pytest.raises(ZeroDivisionError):
        await run(tmp_path, plans(30), make_parts(judge=BrokenJudge(bug)), resume=True)
    monitor = await run(tmp_path, plans(30), make_parts(), resume=True)
    assert monitor.labels == {"completed": 30}
    check_whole(records_of(tmp_path))
    ends = [
        record.episode
        for record in records_of(tmp_path)
        if isinstance(record.event, EpisodeEnded) and record.event.ending is not Ending.CANCELLED
    ]
    assert sorted(ends) == [plan.episode for plan in plans(30)]


async def test_a_bug_in_a_link(tmp_path: Path) -> None:
    """A bug in a link stops the run and is raised unchanged."""
    bug = ZeroDivisionError("a bug")

    def broken(batch: Sequence[tuple[int, Record]]) -> None:
        raise bug

    with pytest.raises(ZeroDivisionError):
        await run(tmp_path, plans(6), make_parts(link=link_to(broken)))


async def test_two_packages_of_one_name(tmp_path: Path) -> None:
    """Each episode is judged by the verifiers of its own package, also where two packages have one
    name."""
    first = library()
    second = read(variant(tmp_path, verify=("fine_cents=0", "fine_cents=1")))
    assert first.name == second.name and first.digest != second.digest
    tasks = [(scenario, scenario.task("pay-fine")) for scenario in (first, second)]
    planned = list(plan_of(tasks, episodes=4, group_size=1, seed=0))
    await run(tmp_path / "run", planned, make_parts(scenarios=[first, second]))
    labels = {row.scenario_digest: row.label for row in rows_of(tmp_path / "run").values()}
    assert labels[first.digest] is Label.COMPLETED
    assert labels[second.digest] is not Label.COMPLETED


async def test_episodes_begin_when_they_are_admitted(tmp_path: Path) -> None:
    """No episode begins before it is admitted; when one is refused, the run ends with the episodes
    that were admitted, and its log is whole."""
    asked: list[str] = []

    async def admit(plan: EpisodePlan) -> bool:
        asked.append(plan.episode)
        await anyio.lowlevel.checkpoint()
        return plan.episode < "e000010"

    parts = msgspec.structs.replace(make_parts(), admit=admit)
    monitor = await run(tmp_path, oracle_plans(), parts, concurrency=4)
    assert set(rows_of(tmp_path)) == {plan.episode for plan in oracle_plans(10)}
    assert (monitor.total, monitor.num_started, monitor.num_judged) == (10, 10, 10)
    assert asked == [plan.episode for plan in oracle_plans(14)]
    check_whole(records_of(tmp_path))
    monitor = await run(tmp_path, oracle_plans(), make_parts(), resume=True)
    assert (monitor.total, monitor.num_judged) == (24, 24)


class WeightPublishing:
    """A listener that records new weights after every verdict."""

    kinds: tuple[EventKind, ...] = ("judged", "weights")

    def __init__(self) -> None:
        self.received: list[Record] = []
        self.is_over = False
        self.num_asked = 0

    async def serve(self, subscription: Subscription, record: RecordRunEvent) -> None:
        try:
            while True:
                for received in await subscription.receive():
                    self.received.append(received)
                    if isinstance(received.event, Judged):
                        record(WeightsPublished(f"for {received.episode}", "out"))
        except anyio.EndOfStream:
            self.is_over = True

    async def wait_until_done(self) -> None:
        self.num_asked += 1


async def test_a_listener_gets_events_and_records_weights(tmp_path: Path) -> None:
    """A listener gets the events of its kinds and ends with the run; the weights that it records
    are in the log, their numbers continue in a resumed run, and they are not an episode."""
    learning = WeightPublishing()
    parts = msgspec.structs.replace(make_parts(), listeners=(learning,))
    await run(tmp_path, oracle_plans(4), parts)
    await run(tmp_path, oracle_plans(6), parts, resume=True)
    assert learning.is_over
    assert learning.num_asked == 2
    records = records_of(tmp_path)
    received = [record for record in records if isinstance(record.event, Judged)]
    assert [one for one in learning.received if isinstance(one.event, Judged)] == received
    weights = [record for record in records if isinstance(record.event, WeightsPublished)]
    assert {(one.episode, one.attempt) for one in weights} == {(WEIGHTS_EPISODE, 1)}
    assert [one.seq for one in weights] == list(range(6))
    assert {one.event.version for one in weights if isinstance(one.event, WeightsPublished)} == {
        f"for {plan.episode}" for plan in oracle_plans(6)
    }
    with open_reader(tmp_path) as reader:
        names = [plan.episode for plan in oracle_plans(6)]
        assert sorted(one.episode for one in reader.trajectories()) == names
        assert sorted(reader.progress()) == names


async def test_a_listener_keeps_the_run_open(tmp_path: Path) -> None:
    """The run stays open until a listener is done, and logs the events that it records, though all
    episodes are finished."""

    class Patient(WeightPublishing):
        async def serve(self, subscription: Subscription, record: RecordRunEvent) -> None:
            self.record = record
            await super().serve(subscription, record)

        async def wait_until_done(self) -> None:
            assert sum(isinstance(one.event, Judged) for one in self.received) == 4
            await anyio.wait_all_tasks_blocked()
            self.record(WeightsPublished("last", "out"))

    parts = msgspec.structs.replace(make_parts(), listeners=(Patient(),))
    await run(tmp_path, oracle_plans(4), parts)
    weights = [one.event for one in records_of(tmp_path) if isinstance(one.event, WeightsPublished)]
    assert weights[-1] == WeightsPublished("last", "out")
