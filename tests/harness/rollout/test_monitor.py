"""The progress of a run."""

import io
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from rich.console import Console

from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.core.events import Ending, Judged, Label, Record
from rehearsal_room.harness.log.schema import EpisodeRow, encoded
from rehearsal_room.harness.rollout.monitor import Monitor, show_progress
from tests.support.events import episode
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def publish(monitor: Monitor, records: Sequence[Record]) -> None:
    """Publish records on a bus to which the monitor is subscribed."""
    bus = LocalBus()
    async with bus.subscribe() as subscription, anyio.create_task_group() as tasks:
        tasks.start_soon(monitor.serve, subscription)
        for record in records:
            await bus.publish(record)
        bus.close()


async def is_finished(monitor: Monitor) -> bool:
    with anyio.move_on_after(1):
        await monitor.wait_until_finished()
        return True
    return False


async def test_counts() -> None:
    """Every event is counted once; the pass rate is that of the episodes with a label."""
    monitor = Monitor(total=4, judged=True)
    assert monitor.pass_rate is None
    third = episode("e3", 1, ending=Ending.POLICY_ERROR)
    third[-1] = Record("e3", 0, 3, 0.0, Judged("code", None, None, unjudged="it was cut off"))
    await publish(
        monitor,
        [
            *episode("e1", 3),
            *episode("e2", 2, ending=Ending.STEP_LIMIT),
            *third,
            *episode("e4", 5)[:3],
        ],
    )
    assert (monitor.num_started, monitor.num_ended, monitor.num_judged) == (4, 3, 3)
    assert (monitor.num_steps, monitor.finished) == (8, 3)
    assert monitor.endings == {"answered": 1, "step_limit": 1, "policy_error": 1}
    assert monitor.labels == {"completed": 1, "agent_error": 1}
    assert monitor.pass_rate == 0.5
    assert repr(monitor) == "<Monitor [3 of 4 finished, 4 started]>"


@pytest.mark.parametrize(("judged", "num_facts"), [(True, 5), (False, 4)])
async def test_the_last_event_finishes_a_run(judged: bool, num_facts: int) -> None:
    """With a judge a run is finished with the last verdict, without a judge with the last end."""
    monitor = Monitor(total=2, judged=judged)
    await publish(monitor, episode("e1", 2))
    facts = episode("e2", 2)
    await publish(monitor, facts[: num_facts - 1])
    assert not await is_finished(monitor)
    await publish(monitor, facts[num_facts - 1 : num_facts])
    assert await is_finished(monitor)


def row(name: str, label: Label | None) -> EpisodeRow:
    return EpisodeRow(
        name, 1, "ledger", "open", "g0", 0, "oracle", "p", 0.0, 3, Ending.ANSWERED, label=label
    )


async def test_a_resumed_run() -> None:
    """Episodes that are already in the log are counted; without a verdict they are not finished."""
    monitor = Monitor(total=3, judged=True)
    monitor.restore([row("e1", Label.COMPLETED)], judged=True)
    monitor.restore([row("e2", None)], judged=False)
    assert (monitor.num_ended, monitor.finished, monitor.num_steps) == (2, 1, 6)
    assert not await is_finished(monitor)
    monitor.restore([row("e3", None)], judged=True)  # judged, without a label
    assert monitor.finished == 2
    await publish(monitor, episode("e2", 3)[-1:])
    assert await is_finished(monitor)
    assert monitor.labels == {"completed": 2}


async def test_a_run_without_missing_episodes() -> None:
    """A run whose episodes are all in the log is finished at once."""
    monitor = Monitor(total=1, judged=True)
    monitor.restore([row("e1", Label.COMPLETED)], judged=True)
    assert await is_finished(monitor)


async def test_plain_lines() -> None:
    """Without a terminal the progress is plain lines, one for each change and no others; before the
    first verdict there is no pass rate."""
    out = io.StringIO()
    monitor = Monitor(total=1024, judged=True)
    console = Console(file=out, width=200)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show_progress, monitor, console)
        await anyio.sleep(11)
        await publish(monitor, episode("e1", 3))
        await anyio.sleep(11)
        tasks.cancel_scope.cancel()
    assert out.getvalue().splitlines() == [
        "0 of 1,024 episodes: 0 calls/s, pass rate -",
        "1 of 1,024 episodes: 0 calls/s, pass rate 1.000",
    ]


async def test_a_first_reply_that_takes_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a model takes long to load, a line says so now and then, until the reply is there."""
    monkeypatch.setattr("rehearsal_room.harness.rollout.monitor.time.monotonic", anyio.current_time)
    monitor, out = Monitor(total=2, judged=True), io.StringIO()
    records = episode("e1", 3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show_progress, monitor, Console(file=out, width=200))
        await publish(monitor, records[:1])
        await anyio.sleep(125)
        await publish(monitor, records[1:])
        await anyio.sleep(5)
        tasks.cancel_scope.cancel()
    notes = [line.partition("pass rate ")[2] for line in out.getvalue().splitlines()]
    waits = ("32 s", "1 min", "2 min", "2 min")
    waiting = [f"-, 1 waiting for its first reply, {wait}" for wait in waits]
    assert notes == ["-", *waiting, "1.000"]


async def test_a_bar_on_a_terminal() -> None:
    """On a terminal the progress is one bar, which is removed at the end."""
    out = io.StringIO()
    monitor = Monitor(total=4, judged=True)
    console = Console(file=out, width=100, force_terminal=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show_progress, monitor, console)
        await publish(monitor, episode("e1", 3))
        await anyio.sleep(1)
        tasks.cancel_scope.cancel()
    assert "1 of 4" in out.getvalue() and "pass rate 1.000" in out.getvalue()


@pytest.mark.anyio
@pytest.mark.parametrize("judged", [True, False])
async def test_encoded_records_are_counted_like_others(judged: bool) -> None:
    """The same records give the same counts, whether another process has encoded them or not."""
    records = [*episode("e1", 3), *episode("e2", 2)]
    verdict = Judged(judge="code", label=Label.COMPLETED, reward=1.0)
    records.append(Record("e1", 1, 99, 0.0, verdict))
    plain, coded = (Monitor(total=2, judged=judged) for _ in range(2))
    await publish(plain, records)
    coded.count_entries(map(encoded, records))
    assert {**vars(coded), "_done": None} == {**vars(plain), "_done": None}
    assert coded.num_steps == 5
    assert await is_finished(coded) == await is_finished(plain)
