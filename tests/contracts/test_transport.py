"""The Transport contract: messages arrive in order and once, and the end of one side is seen.

Run against every implementation; the one that is carried by Ray is carried by a task here.
"""

import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from rehearsal_room.harness.fleet.connection import FrameConnection
from rehearsal_room.harness.fleet.messages import Heartbeat, content_of
from rehearsal_room.harness.fleet.transport import CarriedTransport, Transport

Ends = tuple[Transport, Transport, Callable[[], Awaitable[None]]]  # here, there, close there


@asynccontextmanager
async def _by_socket() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()
    here, there = FrameConnection(ours), FrameConnection(theirs)

    async def close() -> None:
        there.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.send_all)
        tasks.start_soon(there.send_all)
        yield here, there, close
        tasks.cancel_scope.cancel()
    here.close()
    there.close()


@asynccontextmanager
async def _carried() -> AsyncIterator[Ends]:
    here, there = CarriedTransport(), CarriedTransport()

    async def carry(source: CarriedTransport, target: CarriedTransport) -> None:
        batches: AsyncGenerator[list[bytes]] = source.batches()
        async for batch in batches:
            target.deliver(batch)
        target.close()

    async def close() -> None:
        there.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(carry, here, there)
        tasks.start_soon(carry, there, here)
        yield here, there, close
        here.close()
        there.close()


@pytest.mark.parametrize("opened", [_by_socket, _carried])
async def test_messages_arrive_in_order_and_once(
    opened: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    """Many messages, small and large, put at once, arrive as they were put, in both directions."""
    sent = [Heartbeat(float(number), "x" * (number % 7) * 40_000) for number in range(200)]
    async with opened() as (here, there, _):
        with anyio.fail_after(20):
            for one in sent:
                here.put(one)
                there.put(one)
            for end in (there, here):
                assert [await end.receive() for _ in sent] == [content_of(one) for one in sent]
            await here.wait_until_sent()


@pytest.mark.parametrize("opened", [_by_socket, _carried])
async def test_what_was_put_before_the_end_arrives_and_then_the_end(
    opened: Callable[[], AbstractAsyncContextManager[Ends]],
) -> None:
    """A side that has sent everything and closes: the other gets all of it, then EndOfStream."""
    async with opened() as (here, there, close_there):
        with anyio.fail_after(20):
            there.put(Heartbeat(1.0))
            there.put(Heartbeat(2.0))
            await there.wait_until_sent()
            await close_there()
            found = [await here.receive(), await here.receive()]
            with pytest.raises(anyio.EndOfStream):
                await here.receive()
    assert found == [content_of(Heartbeat(1.0)), content_of(Heartbeat(2.0))]


async def test_a_carried_transport_gives_no_more_than_is_taken() -> None:
    """What is not taken stays queued, and counts as not sent: a slow carrier slows the sender."""
    transport = CarriedTransport()
    large = Heartbeat(0.0, "x" * 2**20)
    for _ in range(4):
        transport.put(large)
    batches = transport.batches()
    assert [len(await anext(batches)) for _ in range(2)] == [1, 1]
    with anyio.move_on_after(0.05) as scope:
        await transport.wait_until_sent(at_most=2)
    assert scope.cancelled_caught
    assert len(await anext(batches)) == 1  # asking for the next one says that the last was sent
    with anyio.fail_after(5):
        await transport.wait_until_sent(at_most=2)
    await batches.aclose()


async def test_a_carried_transport_gathers_until_there_is_a_hurry() -> None:
    """Messages wait for others; in a hurry they go, and with them what has waited."""
    transport = CarriedTransport(gather_s=60.0)
    batches = transport.batches()
    transport.put(Heartbeat(1.0))
    async with anyio.create_task_group() as tasks:

        async def hurry() -> None:
            await anyio.sleep(0.05)
            transport.put(Heartbeat(2.0))
            transport.hurry(True)

        tasks.start_soon(hurry)
        with anyio.fail_after(5):
            assert len(await anext(batches)) == 2
            transport.put(Heartbeat(3.0))
            assert len(await anext(batches)) == 1
    transport.hurry(False)
    transport.put(Heartbeat(4.0))
    with anyio.move_on_after(0.1) as scope:
        await anext(batches)
    assert scope.cancelled_caught
