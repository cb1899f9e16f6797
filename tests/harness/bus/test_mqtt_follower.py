"""Followers of a run that come late, are slow, or outlive a run; with a real broker."""

from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record
from tests.support.broker import Mosquitto, running_broker
from tests.support.events import episode
from tests.support.mqtt_bus import PublishingBus
from tests.support.mqtt_runs import (
    Log,
    by_episode,
    dying,
    following,
    mixed,
    settings_for,
    take,
    until,
)


async def test_a_late_follower_gets_the_whole_run(broker: Mosquitto) -> None:
    """A follower that subscribes in the middle gets the log from its beginning and then the live
    records, without loss or repetition."""
    log = Log(page=37)
    got: list[Record] = []
    facts = mixed(20, 20)
    async with MqttLink(settings_for(broker), "r", log="a", read_log=log.read) as link:
        link.put(log.commit(facts[:150]))
        async with following(settings_for(broker)) as follower, anyio.create_task_group() as tasks:
            tasks.start_soon(take, follower, got)
            for start in range(150, len(facts), 10):
                link.put(log.commit(facts[start : start + 10]))
                await link.wait_for_room()
                await anyio.lowlevel.checkpoint()
            await link.close()
    assert by_episode(got) == by_episode(facts)


async def test_a_resumed_run_is_followed_from_its_beginning(broker: Mosquitto) -> None:
    """A link to a log that has records already sends the new ones; a late follower gets all of
    them, and one that followed the first part gets only the new ones."""
    facts = mixed(6, 6)
    log, settings = Log(), settings_for(broker)
    steady: list[Record] = []
    late: list[Record] = []
    async with PublishingBus(settings, "r") as bus, bus.subscribe() as follower:
        link = MqttLink(settings, "r", log="a", read_log=log.read)
        async with dying(link):
            link.put(log.commit(facts[:20]))
            await take(follower, steady, until=20)
        assert by_episode(steady) == by_episode(facts[:20])
        async with MqttLink(
            settings, "r", log="a", read_log=log.read, position=20, counts={"step": 13}
        ) as link:
            link.put(log.commit(facts[20:]))
            async with bus.subscribe() as second, anyio.create_task_group() as tasks:
                tasks.start_soon(take, follower, steady)
                tasks.start_soon(take, second, late)
                await link.close()
    assert by_episode(steady) == by_episode(late) == by_episode(facts)
    assert len(steady) == len(late) == len(facts)


async def test_a_run_resumed_on_another_broker(broker: Mosquitto) -> None:
    """On a broker that never got the first part of the run, followers get that part too."""
    facts = mixed(6, 6)
    log, settings = Log(facts[:20]), settings_for(broker)
    got: list[Record] = []
    async with following(settings) as follower, anyio.create_task_group() as tasks:
        tasks.start_soon(take, follower, got)
        async with MqttLink(settings, "r", log="a", read_log=log.read, position=20) as link:
            link.put(log.commit(facts[20:]))
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)


async def test_messages_without_room_stay_at_the_broker(broker: Mosquitto) -> None:
    """A follower whose subscriber does not read has in memory its depth, one message and the few
    in flight."""
    log, settings = Log(), settings_for(broker, batch=5, in_flight=4)
    facts = mixed(30, 30)
    got: list[Record] = []
    async with (
        following(settings, depth=10) as follower,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", read_log=log.read) as link,
    ):
        link.put(log.commit(facts))
        await until(lambda: link.statistics()["sent"] == len(facts))
        # One message waits for room; at most one other has arrived after it.
        await until(lambda: follower.statistics()["queued"] > 10)
        for _ in range(5):
            got += await follower.receive()
            await until(lambda: follower.statistics()["queued"] > 10)
            assert follower.statistics()["queued"] <= 15
            assert follower.statistics()["unread_messages"] <= 1
        tasks.start_soon(take, follower, got)
    assert by_episode(got) == by_episode(facts)
    assert follower.statistics()["requests"] == 0


@pytest.mark.slow
async def test_a_slow_follower_loses_nothing(tmp_path: Path) -> None:
    """A follower so slow that the broker drops messages gets their records from the log, and never
    has more in memory than its depth and one message."""
    log = Log(page=40)
    facts = mixed(30, 30)
    got: list[Record] = []
    max_queued = 0
    lines = "allow_anonymous true\nmax_queued_messages 3\nmax_inflight_messages 2"
    with running_broker(tmp_path, lines) as broker:
        settings = settings_for(broker, batch=5, in_flight=2)
        async with (
            following(settings, depth=10) as follower,
            MqttLink(settings, "r", log="a", read_log=log.read) as link,
        ):
            for start in range(0, len(facts), 50):
                link.put(log.commit(facts[start : start + 50]))
            # The broker accepts all messages, and drops most of them.
            await until(lambda: link.statistics()["sent"] == len(facts))

            async def take_slowly() -> None:
                nonlocal max_queued
                while len(got) < len(facts):
                    max_queued = max(max_queued, follower.statistics()["queued"])
                    got.extend(await follower.receive())
                    await anyio.sleep(0.001)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_slowly)
            assert follower.statistics()["requests"] > 0
            assert link.statistics()["pages"] > 0
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)
    assert max_queued <= 10 + 40


async def test_a_run_that_has_ended_is_refused(broker: Mosquitto) -> None:
    """A follower that comes after the end gets one sentence on where to read the records."""
    log, settings = Log(), settings_for(broker, answer_s=0.05)
    async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
        link.put(log.commit(episode("e", 3)))
    async with following(settings) as follower:
        with pytest.raises(BusError, match="'r' has ended and no process serves its log"):
            await follower.receive()


async def test_two_publishers_of_one_run(broker: Mosquitto) -> None:
    """The records of both publishers of a run arrive; the run ends with its owner."""
    settings = settings_for(broker)
    got: list[Record] = []
    async with (
        PublishingBus(settings, "r") as owner,
        PublishingBus(settings, "r", owner=False) as second,
    ):
        for record in episode("a", 5):
            await owner.publish(record)
        for record in episode("b", 5):
            await second.publish(record)
        async with following(settings) as follower, anyio.create_task_group() as tasks:
            tasks.start_soon(take, follower, got)
            await until(lambda: len(got) >= 16)
            await owner.close()
    assert by_episode(got) == {"a": episode("a", 5), "b": episode("b", 5)}


async def test_another_run_of_the_same_name(broker: Mosquitto) -> None:
    """A follower of a run that died gets the new run of that name from its beginning."""
    settings = settings_for(broker)
    first, again = Log(), Log()
    got: list[Record] = []
    async with following(settings) as follower:
        link = MqttLink(settings, "r", log="a", read_log=first.read)
        async with dying(link):
            link.put(first.commit(episode("e", 2)))
            await take(follower, got, until=5)
        async with MqttLink(settings, "r", log="b", read_log=again.read) as link:
            link.put(again.commit(episode("e", 7)))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take, follower, got)
                await link.close()
    assert got == episode("e", 2) + episode("e", 7)


async def test_a_dead_run_does_not_delay_the_next(broker: Mosquitto) -> None:
    """A follower that waits in vain for the log of a dead run follows the next run of that name."""
    settings = settings_for(broker)
    first, again = Log(), Log()
    got: list[Record] = []
    link = MqttLink(settings, "r", log="a", read_log=first.read)
    async with dying(link):
        link.put(first.commit(episode("dead", 2)))
        await until(lambda: link.statistics()["sent"] == 5)
        # The next status covers the records; the broker retains it.
        await until(lambda: link.statistics()["statuses"] > 2)
    async with following(settings) as follower, anyio.create_task_group() as tasks:
        tasks.start_soon(take, follower, got)
        await until(lambda: follower.statistics()["requests"] > 0)
        async with MqttLink(settings, "r", log="b", read_log=again.read) as link:
            link.put(again.commit(episode("e", 7)))
    assert got == episode("e", 7)
