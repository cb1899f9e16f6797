"""Deadlines of many episodes, on virtual time, on both event loops."""

from typing import Any

import anyio
import pytest

from rehearsal_room.harness.rollout.deadlines import Watch, Watchdog
from tests.support.virtual_time import BACKENDS


@pytest.fixture(params=BACKENDS, ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def ask_forever(watch: Watch, *, reply: float | None, latency: float) -> None:
    """Ask for replies for ever; each takes `latency` seconds and may take `reply` seconds."""
    while True:
        watch.expect_reply(reply)
        await anyio.sleep(latency)
        watch.got_reply()


@pytest.mark.parametrize(
    ("episode", "reply", "latency", "expired", "seconds"),
    [
        (10, None, 3, "episode", 10),
        (10, 5, 3, "episode", 10),
        (None, 2, 3, "reply", 2),
        (100, 2, 3, "reply", 2),
        (None, None, 3, None, 300),
        (None, 5, 3, None, 300),
    ],
)
async def test_deadlines(
    episode: float | None, reply: float | None, latency: float, expired: str | None, seconds: float
) -> None:
    """A block is cancelled within a twentieth of a second of its deadline, and the watch has which
    deadline it was; a block without a deadline is not cancelled."""
    watchdog = Watchdog()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        began = anyio.current_time()
        with anyio.move_on_after(300), watchdog.watch(episode) as watch:
            await ask_forever(watch, reply=reply, latency=latency)
        took = anyio.current_time() - began
        tasks.cancel_scope.cancel()
    assert watch.expired == expired
    assert watch.scope.cancelled_caught is (expired is not None)
    assert seconds - 0.05 <= took <= seconds + 0.11


async def test_each_has_its_own() -> None:
    """Of many watches only those whose time is up are cancelled, and none is kept afterwards."""
    watchdog = Watchdog()
    cut = []

    async def work(seconds: int) -> None:
        with watchdog.watch(10) as watch:
            await anyio.sleep(seconds)
        if watch.expired:
            cut.append(seconds)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        async with anyio.create_task_group() as workers:
            for seconds in range(1, 20):
                workers.start_soon(work, seconds)
        tasks.cancel_scope.cancel()
    assert sorted(cut) == list(range(10, 20)) or sorted(cut) == list(range(11, 20))
    assert watchdog._watches == set()


async def test_a_block_that_could_not_be_stopped_keeps_its_result() -> None:
    """A deadline that passes when the block has no await left does not undo its result."""
    watchdog = Watchdog()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        with watchdog.watch(1) as watch:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
            result = "done"
        tasks.cancel_scope.cancel()
    assert (result, watch.expired, watch.scope.cancelled_caught) == ("done", "episode", False)


async def test_cancellation_from_outside_passes() -> None:
    """A watch catches its own cancellation and no other."""
    watchdog = Watchdog()
    with anyio.move_on_after(5) as scope:
        with watchdog.watch(100):
            await anyio.sleep_forever()
    assert scope.cancelled_caught
