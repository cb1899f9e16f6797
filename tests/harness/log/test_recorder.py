"""Stamping facts with episode, attempt, sequence number and time."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.log.recorder import Recorder
from tests.support.events import STARTED, step
from tests.support.run_context import MemorySink
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_each_attempt_counts_its_facts() -> None:
    """A record has its episode, attempt, number and time; each episode counts its own facts."""
    times = iter([10.0, 11.0, 12.0, 13.0])
    sink = MemorySink()
    recorder = Recorder(sink, now=lambda: next(times))
    recorder.open("a")
    recorder.open("b", seq=5)
    recorded = [
        await recorder.record("a", 1, STARTED),
        recorder.stamp("b", 2, step(0)),
        await recorder.record("a", 1, step(0)),
        await recorder.record("b", 2, step(1)),
    ]
    assert (
        sink.records
        == recorded
        == [
            Record("a", 1, 0, 10.0, STARTED),
            Record("b", 2, 5, 11.0, step(0)),
            Record("a", 1, 1, 12.0, step(0)),
            Record("b", 2, 6, 13.0, step(1)),
        ]
    )


async def test_an_episode_that_is_not_open() -> None:
    """No fact can be added to an episode that was not opened, or was closed."""
    sink = MemorySink()
    recorder = Recorder(sink)
    recorder.open("a")
    recorder.close("a")
    recorder.close("a")
    with pytest.raises(KeyError):
        recorder.stamp("a", 1, STARTED)
    assert sink.records == []


async def test_recording_waits_for_room() -> None:
    """A full sink slows the task that records; the fact is in the sink before the wait."""
    sink = MemorySink(capacity=2)
    recorder = Recorder(sink)
    recorder.open("a")
    numbers = []

    async def work() -> None:
        for number in range(5):
            await recorder.record("a", 1, step(number))
            numbers.append(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        assert (numbers, len(sink.records)) == ([0], 2)
        sink.take(2)
        await checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert (numbers, len(sink.records)) == ([0, 1, 2], 4)
        sink.take(10)
        await anyio.wait_all_tasks_blocked()
        sink.take(10)
    assert numbers == [0, 1, 2, 3, 4]
    assert [record.seq for record in sink.records] == numbers
