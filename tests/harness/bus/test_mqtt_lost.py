"""Copies that are cut off from the broker, killed there and started again; with a real broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiomqtt
import anyio
import anyio.abc
import pytest

from rehearsal_room.harness.bus import mqtt_client
from rehearsal_room.harness.bus.local import KINDS
from rehearsal_room.harness.bus.mqtt_client import MqttMessage, mark_on
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_runs import status_of
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import LOST, Heads, Presence, topic
from rehearsal_room.harness.core.events import Record
from tests.support.broker import Cable, Mosquitto
from tests.support.mqtt_runs import Log, by_episode, mixed, settings_for, take, until

FIRST, SECOND = Presence("copy", 1), Presence("copy", 2)
FACTS = mixed(6, 6)

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def quick_wills(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker publishes the last will of a client when it has noticed that it is lost."""
    monkeypatch.setattr(mqtt_client, "_WILL_DELAY_S", 0)


def copying(
    settings: MqttSettings, presence: Presence, have: Heads | None = None, *, depth: int = 4096
) -> Follower:
    known = None if have is None else ("a", have)
    return Follower(
        broker_of(settings), settings, "r", kinds=KINDS, depth=depth, have=known, presence=presence
    )


class Victim:
    """The first life of a copy, on a cable of its own."""

    def __init__(self, cable: Cable, follower: Follower) -> None:
        self.cable, self.follower = cable, follower
        self.scope = anyio.CancelScope()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Follow until it is killed."""
        with self.scope:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self.cable.serve)
                await tasks.start(self.follower.run)
                task_status.started()

    async def kill(self) -> None:
        """Cut it off, and end it before it can say anything."""
        await self.cable.cut()
        self.scope.cancel()


@asynccontextmanager
async def victim(broker: Mosquitto, tasks: anyio.abc.TaskGroup) -> AsyncIterator[Victim]:
    cable = Cable(broker)
    settings = settings_for(broker, url=cable.url, max_backoff_s=60)
    life = Victim(cable, copying(settings, FIRST))
    await tasks.start(life.run)
    try:
        yield life
    finally:
        life.scope.cancel()


@asynccontextmanager
async def wills(broker: Mosquitto) -> AsyncIterator[anyio.Event]:
    """An event that is set when the broker says that a follower is lost."""
    seen = anyio.Event()

    async def listen(client: aiomqtt.Client) -> None:
        async for message in client.messages:
            if not message.payload and is_lost(message):
                seen.set()

    async with aiomqtt.Client(
        "127.0.0.1", broker.port, protocol=aiomqtt.ProtocolVersion.V5
    ) as client:
        await client.subscribe(topic("r", "catchup") + "/+/here", qos=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen, client)
            yield seen
            tasks.cancel_scope.cancel()


def is_lost(message: MqttMessage) -> bool:
    return mark_on(message) == LOST


async def test_a_copy_killed_while_it_is_cut_off(broker: Mosquitto) -> None:
    """The run ends after the broker has noticed that the copy is lost, and before the copy is
    started again: it gets the rest, and the run ends when it has it."""
    log, settings = Log(), settings_for(broker)
    got: list[Record] = []
    closed = anyio.Event()
    async with (
        wills(broker) as seen,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", read_log=log.read) as link,
    ):

        async def close() -> None:
            await link.close()
            closed.set()

        link.put(log.commit(FACTS[:20]))
        async with victim(broker, tasks) as first:
            await take(first.follower, got, until=20)
            have = first.follower.have("a")
            await first.kill()
            await seen.wait()
        link.put(log.commit(FACTS[20:]))
        tasks.start_soon(close)
        while (await status_of(settings, "r")).state != "ended":  # noqa: ASYNC110  # the broker's
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)
        assert not closed.is_set()
        second = copying(settings, SECOND, have)
        await tasks.start(second.run)
        await take(second, got)
        with anyio.fail_after(5):
            await closed.wait()
    assert by_episode(got) == by_episode(FACTS)
    assert len(got) == len(FACTS)


async def test_the_will_of_an_earlier_life_comes_late(broker: Mosquitto) -> None:
    """The broker notices that an earlier life of a copy is lost when the later one follows the run
    already: the run waits for that as for any other."""
    log, settings = Log(page=5), settings_for(broker, linger_s=0.1, batch=5)
    got: list[Record] = []
    async with (
        wills(broker) as seen,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", read_log=log.read) as link,
    ):
        async with victim(broker, tasks) as first:
            await until(lambda: link.statistics()["followers"] == 1)
            second = copying(settings, SECOND, depth=1)
            await tasks.start(second.run)
            link.put(log.commit(FACTS[:20]))
            await take(second, got, until=20)
            assert link.statistics()["followers"] == 1
            await first.kill()
            await seen.wait()
        link.put(log.commit(FACTS[20:]))

        async def take_late() -> None:
            await anyio.sleep(0.5)
            await take(second, got)

        tasks.start_soon(take_late)
    assert by_episode(got) == by_episode(FACTS)
    assert len(got) == len(FACTS)


@pytest.mark.slow
async def test_a_copy_that_does_not_come_back(broker: Mosquitto) -> None:
    """A copy that is lost keeps the run open for a while, and no longer."""
    log, settings = Log(), settings_for(broker, linger_s=0.1, session_s=1)
    async with wills(broker) as seen, anyio.create_task_group() as tasks:
        async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
            async with victim(broker, tasks) as first:
                await until(lambda: link.statistics()["followers"] == 1)
                await first.kill()
                await seen.wait()
            began = anyio.current_time()
        assert 0.5 < anyio.current_time() - began < 5
