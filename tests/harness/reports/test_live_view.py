"""The progress display: what it counts, and what it shows."""

import io
from pathlib import Path

import anyio
import msgspec
import pytest
from rich.console import Console

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import START, RunStatus
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    Event,
    HistorySummarized,
    Judged,
    Label,
    Record,
    StepTaken,
    WeightsPublished,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, FormatError, Reply
from rehearsal_room.harness.reports.live_view import RunTally, event_line, watch
from tests.support.broker import running_broker
from tests.support.events import STARTED, episode
from tests.support.mqtt_bus import PublishingBus


def step(at: float, *, results: tuple[ToolResult, ...]) -> Record:
    """A step with these results at a moment."""
    calls = tuple(AgentCall("book", {}, f"c{n}") for n in range(len(results)))
    return Record("e", 0, 1, at, StepTaken(Reply(), Act(calls), results))


def tally_of(*records: Record, planned: int = 0) -> RunTally:
    tally = RunTally(planned=planned)
    for record in records:
        tally.add(record)
    return tally


def test_a_run_is_counted() -> None:
    """Episodes, steps, calls, endings and labels are counted, and the pass rate is the share of
    `completed` among the labels."""
    good, failed = ToolResult("fine"), ToolResult("no", error="refused")
    tally = tally_of(
        *episode("a", 2),
        *episode("b", 1, ending=Ending.STEP_LIMIT),
        *episode("c", 0),
        episode("d", 0)[0],
        step(1001.0, results=(good, failed)),
        Record("b", 0, 9, 1.0, Judged("code", None, None, unjudged="broke")),
        planned=10,
    )
    assert tally.num_live == 1
    assert tally.statistics() == {
        "planned": 10,
        "started": 4,
        "ended": 3,
        "judged": 4,
        "steps": 4,
        "tool_calls": 2,
        "failed_calls": 1,
        "pass_rate": 2 / 3,
        "endings": {"answered": 2, "step_limit": 1},
        "labels": {"code": {"completed": 2, "agent_error": 1, "unjudged": 1}},
    }
    assert tally.line(state="night live") == (
        "night live · 4 of 10 started, 3 ended, 4 judged · 0 calls/s · pass rate 0.667 · "
        "answered 2, step_limit 1"
    )


def test_copies_are_not_counted() -> None:
    """The replies with which a resumed episode or a fork begins were taken before: only what
    follows counts. An attempt without copies counts whole."""
    begun, taken, *_ = episode("a", 1)
    again = msgspec.structs.replace(STARTED, kept=2)
    summary = HistorySummarized(Reply("What I did."), 1, 0)
    copies = [taken.event, summary]
    tally = tally_of(
        *(begun, taken),
        *(Record("a", 2, n, 1.0, event) for n, event in enumerate([again, *copies, taken.event])),
        *(Record("a", 3, n, 1.0, event) for n, event in enumerate([STARTED, taken.event])),
    )
    assert (tally.num_started, tally.num_steps) == (1, 3)


def test_an_empty_run_has_a_line() -> None:
    """Before the first label the line has "-" as pass rate."""
    expected = "live · 0 started, 0 ended, 0 judged · 0 calls/s · pass rate -"
    assert RunTally().line() == expected


def test_an_episode_that_is_tried_again_counts_once() -> None:
    """A second attempt after a crash counts as the same episode."""
    again = [Record("a", 1, r.seq, r.at, r.event) for r in episode("a", 1)]
    tally = tally_of(*episode("a", 3)[:2], *again)
    assert (tally.num_started, tally.num_ended, tally.num_live) == (1, 1, 0)


def test_speed_is_measured_by_the_times_of_the_records() -> None:
    """Calls per second are those of the run's last ten whole seconds, however fast the records are
    read; a pause of the run counts as time."""
    one, two = (ToolResult("a"),), (ToolResult("a"), ToolResult("b"))
    assert tally_of(step(5.0, results=two)).calls_per_s == 0
    assert tally_of(step(5.0, results=two), step(6.5, results=one)).calls_per_s == 2
    assert tally_of(step(5.0, results=two), step(9.5, results=one)).calls_per_s == 0.5
    steady = [step(second + part, results=two) for second in range(30) for part in (0.1, 0.6)]
    assert tally_of(*steady).calls_per_s == 4
    late = [step(5.0, results=two), step(6.0, results=two), step(5.9, results=two)]
    assert tally_of(*late, step(7.0, results=one)).calls_per_s == 3


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (STARTED, "started ledger/open with oracle"),
        (
            StepTaken(
                Reply(),
                Act(
                    (
                        AgentCall("get", {"id": 7, "name": "a\x1b[31m"}, "1"),
                        AgentCall("put", "no JSON", "2"),
                        AgentCall("put", {}, "3"),
                    )
                ),
                (ToolResult("x"), ToolResult("x", error="arguments")),
            ),
            "step get(id=7, name='a\\x1b[31m') -> ok; put('no JSON') -> arguments; "
            "put() -> not called",
        ),
        (
            StepTaken(Reply(), Answer("It is\n\nso.\x1b[31m")),
            "step answer: It is so.\\x1b[31m",
        ),
        (StepTaken(Reply(), FormatError("x" * 80)), f"step format error: {'x' * 59}…"),
        (EpisodeEnded(Ending.ANSWERED, "done", 3, None), "ended answered after 3 steps"),
        (
            EpisodeEnded(Ending.WORLD_ERROR, "", 1, None, error="disk is full"),
            "ended world_error after 1 steps: disk is full",
        ),
        (Judged("code", Label.COMPLETED, 1.0), "judged completed by code, reward 1.0"),
        (Judged("llm", None, None, unjudged="no answer"), "unjudged by llm: no answer"),
        (WeightsPublished("v3", "out/v3"), "weights v3"),
    ],
)
def test_an_event_has_a_line(event: Event, expected: str) -> None:
    """Each kind of event is one line, without characters that a terminal would act on."""
    assert event_line(Record("e7", 0, 4, 0.0, event)) == f"e7 #4 {expected}"


def test_the_attempt_is_shown_from_the_second_on() -> None:
    """The line has the number of a later attempt."""
    line = event_line(Record("e7", 1, 0, 0.0, WeightsPublished("v", "p")))
    assert line == "e7 (attempt 1) #0 weights v"


def screen(*, terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=200, color_system=None), text


STATUS = RunStatus("night", "ended", "log", START, episodes=2)
LAST = "night ended · 2 of 2 started, 2 ended, 2 judged · 0 calls/s · pass rate 0.500 · "


async def watch_it(console: Console, *, events: bool = False) -> RunTally:
    """Watch two episodes on a local bus."""
    bus = LocalBus()
    async with bus.subscribe() as subscription:
        for record in episode("a", 1) + episode("b", 0, ending=Ending.STEP_LIMIT):
            await bus.publish(record)
        bus.close()
        return await watch(subscription, console, events=events, status=lambda: STATUS)


async def test_away_from_a_terminal_plain_lines_are_written() -> None:
    """Without a terminal the last line is plain text."""
    console, text = screen(terminal=False)
    tally = await watch_it(console)
    assert tally.num_ended == 2
    assert text.getvalue() == LAST + "answered 1, step_limit 1\n"


async def test_lines_are_written_while_the_run_goes_on() -> None:
    """Without a terminal a line is printed at intervals, also before the first record."""
    console, text = screen(terminal=False)
    bus = LocalBus()
    async with bus.subscribe() as subscription, anyio.create_task_group() as tasks:

        async def show() -> None:
            await watch(subscription, console, every_s=0.001)

        tasks.start_soon(show)
        while text.getvalue().count("\n") < 3:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        bus.close()
    assert set(text.getvalue().splitlines()) == {RunTally().line()}


async def test_on_a_terminal_the_last_line_stays() -> None:
    """On a terminal the line changes in place, and the last one stays."""
    console, text = screen(terminal=True)
    await watch_it(console)
    assert text.getvalue().endswith(LAST + "answered 1, step_limit 1\n")


async def test_each_event_has_its_line() -> None:
    """With `events` every record is one line, and the counts are the last line."""
    console, text = screen(terminal=False)
    await watch_it(console, events=True)
    lines = text.getvalue().splitlines()
    expected = episode("a", 1) + episode("b", 0, ending=Ending.STEP_LIMIT)
    assert lines == [*map(event_line, expected), LAST + "answered 1, step_limit 1"]


class BrokenSubscription:
    """A subscription that yields one record and then fails."""

    def __init__(self) -> None:
        self._records = episode("a", 0)[:1]

    async def receive(self) -> list[Record]:
        if not self._records:
            raise KeyError("the broker is on fire")
        records, self._records = self._records, []
        return records


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_failure_comes_out_as_it_is(terminal: bool) -> None:
    """An exception of the subscription is raised unchanged."""
    console, _ = screen(terminal=terminal)
    with pytest.raises(KeyError, match="on fire"):
        await watch(BrokenSubscription(), console)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_run_is_watched_over_mqtt_by_a_late_comer(tmp_path: Path) -> None:
    """A watcher that connects after everything was published shows the whole run."""
    console, text = screen(terminal=False)
    with running_broker(tmp_path) as broker:
        settings = MqttSettings(url=broker.url, status_s=0.1)
        async with (
            PublishingBus(settings, "night") as run,
            PublishingBus(settings, "night") as other,
        ):
            for record in episode("a", 3) + episode("b", 3):
                await run.publish(record)
            async with other.subscribe() as follower, anyio.create_task_group() as tasks:

                async def show() -> None:
                    await watch(follower, console, events=True, status=lambda: follower.status)

                tasks.start_soon(show)
                await run.close()
    lines = text.getvalue().splitlines()
    assert sorted(lines[:-1]) == sorted(map(event_line, episode("a", 3) + episode("b", 3)))
    assert lines[-1].startswith("night ended · 2 started, 2 ended, 2 judged")
