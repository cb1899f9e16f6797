"""The promises of every bus: LocalBus on both event loops, MqttBus through a real mosquitto."""

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from anyio.abc import TaskStatus

from rehearsal_room.harness.bus.local import Bus, LocalBus, Subscription
from rehearsal_room.harness.bus.mqtt_bus import MqttBus
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.events import EventKind, Record, kind_of
from tests.support.broker import running_broker
from tests.support.events import episode
from tests.support.mqtt_bus import PublishingBus

EPISODES = [episode(f"e{number}", 9) for number in range(12)]
NUM_RECORDS = sum(map(len, EPISODES))


class Buses(NamedTuple):
    """The bus where a test publishes, the one where it subscribes, and how the publisher closes."""

    publisher: Bus
    listener: Bus
    close: Callable[[], Awaitable[None]]


Opener = Callable[[], AbstractAsyncContextManager[Buses]]


@pytest.fixture(params=["local-asyncio", "local-trio", "mqtt-asyncio"])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(case: str) -> str:
    backend = case.partition("-")[2]
    if backend == "trio":
        pytest.importorskip("trio")
    return backend


@pytest.fixture
def buses(case: str, tmp_path: Path) -> Opener:
    """Opens the buses of the case."""
    return local_buses if case.startswith("local") else lambda: mqtt_buses(tmp_path)


@asynccontextmanager
async def local_buses() -> AsyncIterator[Buses]:
    bus = LocalBus()

    async def close() -> None:
        bus.close()

    yield Buses(bus, bus, close)


@asynccontextmanager
async def mqtt_buses(folder: Path) -> AsyncIterator[Buses]:
    with running_broker(folder) as broker:
        settings = MqttSettings(url=broker.url, outbox=8, batch=4, status_s=0.1, linger_s=0.5)
        async with (
            MqttBus(settings, "r") as listener,
            PublishingBus(settings, "r") as publisher,
        ):
            yield Buses(publisher, listener, publisher.close)


async def publish_all(bus: Bus, episodes: Sequence[list[Record]] = EPISODES) -> None:
    """Publish episodes concurrently, each in its order."""

    async def publish(records: list[Record]) -> None:
        for record in records:
            await bus.publish(record)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for records in episodes:
            tasks.start_soon(publish, records)


async def take(subscription: Subscription, got: list[Record]) -> None:
    """Receive until the end."""
    with pytest.raises(anyio.EndOfStream):
        while True:
            batch = await subscription.receive()
            assert batch, "receive returned no record"
            got.extend(batch)


def by_episode(records: list[Record]) -> dict[str, list[Record]]:
    found = defaultdict(list)
    for record in records:
        found[record.episode].append(record)
    return dict(found)


EXPECTED = {records[0].episode: records for records in EPISODES}


async def test_everything_arrives_in_the_order_of_its_episode(buses: Opener) -> None:
    """Every record arrives once and unchanged, those of each episode in order, and then the end."""
    got: list[Record] = []
    async with (
        buses() as bus,
        bus.listener.subscribe() as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(take, subscription, got)
        await publish_all(bus.publisher)
        await bus.close()
    assert by_episode(got) == EXPECTED


async def test_every_subscriber_gets_everything(buses: Opener) -> None:
    """Subscribers do not share records: each gets all."""
    received: list[list[Record]] = [[], [], []]
    async with buses() as bus, anyio.create_task_group() as tasks:

        async def follow(
            got: list[Record], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
        ) -> None:
            async with bus.listener.subscribe() as subscription:
                task_status.started()
                await take(subscription, got)

        for got in received:
            await tasks.start(follow, got)
        await publish_all(bus.publisher)
        await bus.close()
    assert [by_episode(got) for got in received] == [EXPECTED] * 3


@pytest.mark.parametrize("kinds", [("ended",), ("started", "judged"), ("fault",)])
async def test_a_subscriber_gets_the_kinds_it_asked_for(
    buses: Opener, kinds: tuple[EventKind, ...]
) -> None:
    """A subscription to some kinds receives all records of those kinds, and no others."""
    got: list[Record] = []
    async with (
        buses() as bus,
        bus.listener.subscribe(kinds=kinds) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(take, subscription, got)
        await publish_all(bus.publisher)
        await bus.close()
    expected = [
        record for records in EPISODES for record in records if kind_of(record.event) in kinds
    ]
    assert by_episode(got) == by_episode(expected)


async def test_an_unknown_kind_is_refused(buses: Opener) -> None:
    """The error for an unknown kind names the kinds that exist."""
    async with buses() as bus:
        with pytest.raises(
            ValueError, match=r"'stepp'.*expected started, step, summary, model, output, spans, "
        ):
            async with bus.listener.subscribe(kinds=["stepp"]):  # type: ignore[list-item]
                pass


async def test_a_slow_subscriber_loses_nothing(buses: Opener) -> None:
    """A slow subscriber with a tiny queue gets every record in order."""
    got: list[Record] = []
    async with buses() as bus, bus.listener.subscribe(depth=2) as subscription:

        async def take_slowly() -> None:
            with pytest.raises(anyio.EndOfStream):
                while True:
                    got.extend(await subscription.receive())
                    await anyio.sleep(0.001)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_slowly)
            await publish_all(bus.publisher)
            await bus.close()
    assert by_episode(got) == EXPECTED


async def test_a_subscriber_that_leaves_releases_the_publishers(buses: Opener) -> None:
    """A full subscriber that leaves in the middle stops no publisher, and the others get all."""
    got: list[Record] = []
    async with (
        buses() as bus,
        bus.listener.subscribe() as steady,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(take, steady, got)
        async with (
            anyio.create_task_group() as publishers,
            bus.listener.subscribe(depth=1) as leaver,
        ):
            publishers.start_soon(publish_all, bus.publisher)
            await leaver.receive()
            await anyio.wait_all_tasks_blocked()  # a local bus is full now
        await bus.close()
    assert by_episode(got) == EXPECTED


async def test_closing_drains(buses: Opener) -> None:
    """Records published before the close are received after it; then every `receive` raises the
    end."""
    got: list[Record] = []
    async with buses() as bus, bus.listener.subscribe() as subscription:
        await publish_all(bus.publisher)
        await bus.close()
        await take(subscription, got)
        with pytest.raises(anyio.EndOfStream):
            await subscription.receive()
    assert by_episode(got) == EXPECTED


async def test_a_closed_bus_accepts_nothing(buses: Opener) -> None:
    """Publishing after the close is an error, not a loss."""
    async with buses() as bus:
        await bus.publisher.publish(EPISODES[0][0])
        await bus.close()
        with pytest.raises(anyio.ClosedResourceError):
            await bus.publisher.publish(EPISODES[0][1])


async def test_a_cancelled_receive_loses_nothing(buses: Opener) -> None:
    """After a cancelled `receive`, the next one gets the records."""
    got: list[Record] = []
    async with buses() as bus, bus.listener.subscribe() as subscription:
        for _ in range(3):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(subscription.receive)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, subscription, got)
            await publish_all(bus.publisher)
            await bus.close()
    assert by_episode(got) == EXPECTED


async def test_a_cancelled_publisher_has_published(buses: Opener) -> None:
    """The records of publishers that were cancelled while they waited for room arrive."""
    first = episode("first", 0)[0]
    published = [first]
    got: list[Record] = []

    async def publish(bus: Bus, records: list[Record]) -> None:
        for record in records:
            published.append(record)
            await bus.publish(record)

    async with buses() as bus, bus.listener.subscribe(depth=3) as subscription:
        await bus.publisher.publish(first)
        async with anyio.create_task_group() as tasks:
            for records in EPISODES:
                tasks.start_soon(publish, bus.publisher, records)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, subscription, got)
            await bus.close()
    assert by_episode(got) == by_episode(published)
    assert len(published) > len(EPISODES)


@pytest.mark.parametrize("published", [0, 1])
async def test_an_exception_of_a_block_is_not_wrapped(buses: Opener, published: int) -> None:
    """An exception in a block of a bus or a subscription is neither wrapped nor swallowed."""
    with pytest.raises(KeyError, match="mine"):
        async with buses() as bus, bus.listener.subscribe():
            for record in EPISODES[0][:published]:
                await bus.publisher.publish(record)
            raise KeyError("mine")


async def test_cancellation_passes_through(buses: Opener) -> None:
    """A block of a bus or a subscription that is cancelled from outside ends cancelled."""
    left = False
    with anyio.CancelScope() as scope:
        async with buses() as bus, bus.listener.subscribe():
            await bus.publisher.publish(EPISODES[0][0])
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        left = True
    assert scope.cancelled_caught
    assert not left
