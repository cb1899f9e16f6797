"""Whole runs: a real log, the real judge, real time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from envpool.inprocess.pool import LocalPool
from harness.bus.local import LocalBus, Subscription
from harness.core.errors import LogError
from harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Judged,
    Kind,
    Label,
    Record,
    WeightsPublished,
)
from harness.core.trajectory import Trajectory
from harness.dialects.format_rules import FormatSettings
from harness.dialects.native import Native
from harness.history.windows import parse_history
from harness.log import writer
from harness.log.reader import open_reader
from harness.log.schema import EpisodeRow
from harness.log.writer import open_log
from harness.policies.base import Policy
from harness.policies.oracle import OraclePolicy
from harness.reports.summary import report_of
from harness.rollout.episode import Limits
from harness.rollout.meters import Meters
from harness.rollout.monitor import Monitor
from harness.rollout.plan import EpisodePlan, plan_of
from harness.rollout.session import Judge, Link, RunParts, Tell, run_session
from judge.verdicts.code_judges import ScenarioJudges
from scenarios.format import Scenario, read
from tests.support.mini_world import variant
from tests.support.run_context import LOOK, MovesPolicy, library, never, plans


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def tasks_of(*scenarios: Scenario) -> list[tuple[Scenario, Any]]:
    return [(scenario, task) for scenario in scenarios for task in scenario.tasks]


def oracle_plans(episodes: int = 24) -> list[EpisodePlan]:
    return list(plan_of(tasks_of(library()), episodes=episodes, group_size=2, seed=7))


def open_run_parts(
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
    wanted: Iterable[EpisodePlan],
    parts: RunParts,
    *,
    concurrency: int = 8,
    resume: bool = False,
) -> Monitor:
    return await run_session(
        folder, wanted, parts, concurrency=concurrency, meters=Meters(), resume=resume
    )


def rows_of(folder: Path) -> dict[str, EpisodeRow]:
    with open_reader(folder) as reader:
        return {row.episode: row for row in reader.episodes()}


def records_of(folder: Path) -> list[Record]:
    with open_reader(folder) as reader:
        return [record for _, record in reader.records_after(0, 1_000_000)]


def check_whole(records: Sequence[Record]) -> None:
    """Each attempt's facts are numbered without a gap, begin with a start; at most one end."""
    attempts: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        attempts.setdefault((record.episode, record.attempt), []).append(record)
    for facts in attempts.values():
        assert [fact.seq for fact in facts] == list(range(len(facts)))
        assert isinstance(facts[0].event, EpisodeStarted)
        assert sum(isinstance(fact.event, EpisodeEnded) for fact in facts) <= 1


async def test_a_run(tmp_path: Path) -> None:
    """Every episode of the plan is run, judged and in the log when the run returns."""
    wanted = oracle_plans()
    monitor = await run(tmp_path, wanted, open_run_parts())
    rows = rows_of(tmp_path)
    assert set(rows) == {plan.episode for plan in wanted}
    assert {(row.ending, row.label, row.attempt) for row in rows.values()} == {
        (Ending.ANSWERED, Label.COMPLETED, 1)
    }
    check_whole(records_of(tmp_path))
    assert (monitor.num_started, monitor.num_ended, monitor.num_judged) == (24, 24, 24)
    assert (monitor.endings, monitor.labels) == ({"answered": 24}, {"completed": 24})
    assert monitor.num_steps == sum(row.num_steps for row in rows.values())
    assert monitor.pass_rate == 1.0


async def test_a_run_without_a_judge(tmp_path: Path) -> None:
    """Without a judge the run is over when the episodes are; it can be judged when it goes on."""
    wanted = oracle_plans()
    await run(tmp_path, wanted, open_run_parts(judged=False))
    before = records_of(tmp_path)
    assert {row.judge for row in rows_of(tmp_path).values()} == {None}
    monitor = await run(tmp_path, wanted, open_run_parts(), resume=True)
    assert monitor.labels == {"completed": 24}
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    assert {type(record.event) for record in after[len(before) :]} == {Judged}
    check_whole(after)


async def test_nothing_left_to_do(tmp_path: Path) -> None:
    """A finished run that is resumed adds nothing and counts the same."""
    wanted = oracle_plans()
    first = await run(tmp_path, wanted, open_run_parts())
    before = records_of(tmp_path)
    again = await run(tmp_path, wanted, open_run_parts(), resume=True)
    assert records_of(tmp_path) == before
    assert (again.endings, again.labels, again.num_steps) == (
        first.endings,
        first.labels,
        first.num_steps,
    )


async def test_a_folder_that_has_a_log(tmp_path: Path) -> None:
    """Without `resume` a run does not write into another's log."""
    await run(tmp_path, plans(2), open_run_parts())
    before = records_of(tmp_path)
    with pytest.raises(LogError, match="a log already exists"):
        await run(tmp_path, plans(2), open_run_parts())
    assert records_of(tmp_path) == before


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.97, 1.0])
async def test_going_on_after_a_crash(tmp_path: Path, share: float) -> None:
    """From wherever the log was cut off, a run that goes on does again what has no end, judges what
    has no verdict, leaves the rest alone, and reports the same as a run that was left alone."""
    wanted = oracle_plans()
    await run(tmp_path / "whole", wanted, open_run_parts())
    records = records_of(tmp_path / "whole")
    kept = records[: round(share * len(records))]
    cut = tmp_path / "cut"
    async with open_log(cut) as log:
        for record in kept:
            log.append(record)
    await run(cut, wanted, open_run_parts(), resume=True)

    after = records_of(cut)
    assert after[: len(kept)] == kept
    check_whole(after)
    begun = {record.episode for record in kept}
    ended = {record.episode for record in kept if isinstance(record.event, EpisodeEnded)}
    judged = {record.episode for record in kept if isinstance(record.event, Judged)}
    added: dict[str, list[Record]] = {}
    for record in after[len(kept) :]:
        added.setdefault(record.episode, []).append(record)
    for plan in wanted:
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
    assert report_of(list(rows.values())) == report_of(list(whole.values()))


async def test_a_cancelled_run_goes_on(tmp_path: Path) -> None:
    """Cancelled, a run logs `cancelled` for what was live; going on, it does those again and what
    had not begun."""
    wanted = plans(12)
    moves: dict[str, Any] = {f"e{number:06d}": [LOOK, never] for number in range(3, 12)}
    oracle = OraclePolicy(Native())

    class Some:
        """The oracle for three episodes; the others hang."""

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

            def heard(batch: Sequence[tuple[int, Record]]) -> None:
                seen.extend(record for _, record in batch)
                judged = sum(isinstance(record.event, Judged) for record in seen)
                started = sum(isinstance(record.event, EpisodeStarted) for record in seen)
                if judged == 3 and started == 8:
                    done.set()

            tasks.start_soon(stop)
            await run(tmp_path, wanted, open_run_parts(Some(), link=link_to(heard)), concurrency=5)
    assert scope.cancelled_caught
    rows = rows_of(tmp_path)
    assert {name: row.ending for name, row in rows.items()} == {
        f"e{number:06d}": Ending.ANSWERED if number < 3 else Ending.CANCELLED for number in range(8)
    }
    before = records_of(tmp_path)
    monitor = await run(tmp_path, wanted, open_run_parts(), resume=True)
    assert (monitor.endings, monitor.labels) == ({"answered": 12}, {"completed": 12})
    assert [rows_of(tmp_path)[plan.episode].attempt for plan in wanted] == (
        [1] * 3 + [2] * 5 + [1] * 4
    )
    after = records_of(tmp_path)
    assert after[: len(before)] == before
    check_whole(after)


class Publisher:
    """A link to a function; before each further batch it waits for `permit`."""

    def __init__(
        self,
        heard: Callable[[Sequence[tuple[int, Record]]], None],
        permit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._heard = heard
        self._permit = permit

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        self._heard(batch)

    async def wait_for_room(self) -> None:
        if self._permit is not None:
            await self._permit()


def link_to(
    heard: Callable[[Sequence[tuple[int, Record]]], None],
    permit: Callable[[], Awaitable[None]] | None = None,
) -> Link:
    @asynccontextmanager
    async def link(position: int) -> AsyncIterator[Publisher]:
        yield Publisher(heard, permit)

    return link


async def test_a_link_hears_the_log(tmp_path: Path) -> None:
    """Other processes are told every fact once, in the log's order, from where the log stands."""
    heard: list[tuple[int, Record]] = []
    await run(tmp_path, plans(4), open_run_parts(link=link_to(heard.extend)))
    assert heard == list(enumerate(records_of(tmp_path), 1))
    num_first = len(heard)
    await run(tmp_path, plans(9), open_run_parts(link=link_to(heard.extend)), resume=True)
    assert heard == list(enumerate(records_of(tmp_path), 1))
    assert len(heard) > num_first


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> int:
    """Every queue of a run holds next to nothing; gives the log's capacity."""
    monkeypatch.setattr(writer, "CAPACITY", 4)
    monkeypatch.setattr(writer, "_MAX_ROWS", 3)
    defaults = LocalBus.subscribe.__wrapped__.__kwdefaults__  # type: ignore[attr-defined]
    monkeypatch.setitem(defaults, "depth", 1)
    return 4


@pytest.mark.parametrize("concurrency", [1, 3, 24])
async def test_no_deadlock(tmp_path: Path, tiny: int, concurrency: int) -> None:
    """With every queue full all the time, a run with a judge comes to its end and is whole."""
    monitor = await run(tmp_path, oracle_plans(), open_run_parts(), concurrency=concurrency)
    assert monitor.labels == {"completed": 24}
    check_whole(records_of(tmp_path))


async def test_a_slow_listener_slows_the_run(tmp_path: Path, tiny: int) -> None:
    """While a listener has no room, no more is run than the log may hold; nothing is lost."""
    heard: list[tuple[int, Record]] = []
    permits = anyio.Semaphore(0)
    pool_leases: list[int] = []
    parts = open_run_parts(link=link_to(heard.extend, permits.acquire))
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
    assert heard == list(enumerate(records_of(tmp_path), 1))
    # A batch and a full log, and what each worker may add without asking: a start, a step, an end.
    most = [(number + 1) * 3 + tiny + 3 * concurrency for number in range(5)]
    assert all(calls <= limit for calls, limit in zip(pool_leases, most, strict=True))


async def test_a_bug_in_a_policy(tmp_path: Path) -> None:
    """A bug comes out as it is, in no group; what was live is logged as cancelled and done again
    when the run goes on."""
    bug = ZeroDivisionError("a bug")
    policy = MovesPolicy(LOOK, never, by_episode={"e000002": [LOOK, bug]})
    with pytest.raises(ZeroDivisionError) as caught:
        await run(tmp_path, plans(6), open_run_parts(policy), concurrency=4)
    assert caught.value is bug
    assert [row.ending for row in rows_of(tmp_path).values()] == [Ending.CANCELLED] * 4
    monitor = await run(tmp_path, plans(6), open_run_parts(), resume=True)
    assert monitor.labels == {"completed": 6}


class BrokenCourt:
    """A judge with a bug, shown by its third verdict or by the first one from the log."""

    def __init__(self, bug: Exception) -> None:
        self._bug = bug

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Event], Awaitable[None]]
    ) -> None:
        num = 0
        while True:
            for news in await subscription.receive():
                num += isinstance(news.event, EpisodeEnded)
                if num == 3:
                    raise self._bug

    async def verdict(self, trajectory: Trajectory) -> Event:
        raise self._bug


async def test_a_bug_in_the_judge(tmp_path: Path) -> None:
    """A bug in the judge stops the run as it is, live and from the log; nothing that ended is run
    again when the run goes on."""
    bug = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError) as caught:
        await run(tmp_path, plans(30), open_run_parts(judge=BrokenCourt(bug)), concurrency=2)
    assert caught.value is bug
    with pytest.raises(ZeroDivisionError):
        await run(tmp_path, plans(30), open_run_parts(judge=BrokenCourt(bug)), resume=True)
    monitor = await run(tmp_path, plans(30), open_run_parts(), resume=True)
    assert monitor.labels == {"completed": 30}
    check_whole(records_of(tmp_path))
    ends = [
        record.episode
        for record in records_of(tmp_path)
        if isinstance(record.event, EpisodeEnded) and record.event.ending is not Ending.CANCELLED
    ]
    assert sorted(ends) == [plan.episode for plan in plans(30)]


async def test_a_listener_that_breaks(tmp_path: Path) -> None:
    """A listener's bug stops the run as it is."""
    bug = ZeroDivisionError("a bug")

    def broken(batch: Sequence[tuple[int, Record]]) -> None:
        raise bug

    with pytest.raises(ZeroDivisionError):
        await run(tmp_path, plans(6), open_run_parts(link=link_to(broken)))


async def test_two_packages_of_one_name(tmp_path: Path) -> None:
    """Each episode is judged by the verifiers of its own package, whatever the package's name."""
    first = library()
    second = read(variant(tmp_path, verify=("fine_cents=0", "fine_cents=1")))
    assert first.name == second.name and first.digest != second.digest
    tasks = [(scenario, scenario.task("pay-fine")) for scenario in (first, second)]
    wanted = list(plan_of(tasks, episodes=4, group_size=1, seed=0))
    await run(tmp_path / "run", wanted, open_run_parts(scenarios=[first, second]))
    labels = {row.scenario_digest: row.label for row in rows_of(tmp_path / "run").values()}
    assert labels[first.digest] is Label.COMPLETED
    assert labels[second.digest] is not Label.COMPLETED


async def test_episodes_begin_when_they_are_admitted(tmp_path: Path) -> None:
    """No episode begins before it is admitted; when no more are wanted the run ends, whole, with
    those that were."""
    asked: list[str] = []

    async def admit(plan: EpisodePlan) -> bool:
        asked.append(plan.episode)
        await anyio.lowlevel.checkpoint()
        return plan.episode < "e000010"

    parts = msgspec.structs.replace(open_run_parts(), admit=admit)
    monitor = await run(tmp_path, oracle_plans(), parts, concurrency=4)
    assert set(rows_of(tmp_path)) == {plan.episode for plan in oracle_plans(10)}
    assert (monitor.total, monitor.num_started, monitor.num_judged) == (10, 10, 10)
    assert asked == [plan.episode for plan in oracle_plans(14)]
    check_whole(records_of(tmp_path))
    monitor = await run(tmp_path, oracle_plans(), open_run_parts(), resume=True)
    assert (monitor.total, monitor.num_judged) == (24, 24)


class Learning:
    """A listener that publishes weights after every verdict."""

    kinds: tuple[Kind, ...] = ("judged", "weights")

    def __init__(self) -> None:
        self.heard: list[Record] = []
        self.is_over = False
        self.num_asked = 0

    async def serve(self, subscription: Subscription, tell: Tell) -> None:
        try:
            while True:
                for record in await subscription.receive():
                    self.heard.append(record)
                    if isinstance(record.event, Judged):
                        tell(WeightsPublished(f"for {record.episode}", "out"))
        except anyio.EndOfStream:
            self.is_over = True

    async def over(self) -> None:
        self.num_asked += 1


async def test_a_listener_hears_and_tells(tmp_path: Path) -> None:
    """A listener hears the facts of its kinds and ends with the run; what it tells of the weights
    is in the log, numbered on when the run goes on, and is no episode."""
    learning = Learning()
    parts = msgspec.structs.replace(open_run_parts(), listeners=(learning,))
    await run(tmp_path, oracle_plans(4), parts)
    await run(tmp_path, oracle_plans(6), parts, resume=True)
    assert learning.is_over
    assert learning.num_asked == 2
    records = records_of(tmp_path)
    heard = [record for record in records if isinstance(record.event, Judged)]
    assert [one for one in learning.heard if isinstance(one.event, Judged)] == heard
    told = [record for record in records if isinstance(record.event, WeightsPublished)]
    assert {(one.episode, one.attempt) for one in told} == {(WEIGHTS_EPISODE, 1)}
    assert [one.seq for one in told] == list(range(6))
    assert {one.event.version for one in told if isinstance(one.event, WeightsPublished)} == {
        f"for {plan.episode}" for plan in oracle_plans(6)
    }
    with open_reader(tmp_path) as reader:
        names = [plan.episode for plan in oracle_plans(6)]
        assert sorted(one.episode for one in reader.trajectories()) == names
        assert sorted(reader.progress()) == names


async def test_a_listener_keeps_the_run_open(tmp_path: Path) -> None:
    """While a listener does not let go, the run is open for what it tells, though all episodes are
    done."""

    class Patient(Learning):
        async def serve(self, subscription: Subscription, tell: Tell) -> None:
            self.tell = tell
            await super().serve(subscription, tell)

        async def over(self) -> None:
            assert sum(isinstance(one.event, Judged) for one in self.heard) == 4
            await anyio.wait_all_tasks_blocked()
            self.tell(WeightsPublished("last", "out"))

    parts = msgspec.structs.replace(open_run_parts(), listeners=(Patient(),))
    await run(tmp_path, oracle_plans(4), parts)
    told = [one.event for one in records_of(tmp_path) if isinstance(one.event, WeightsPublished)]
    assert told[-1] == WeightsPublished("last", "out")
