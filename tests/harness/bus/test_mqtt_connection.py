"""Connections and brokers that go away: no record is lost or repeated."""

import signal
import sys

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_runs import status_of
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record
from tests.support.broker import Cable, Mosquitto, free_port
from tests.support.events import episode
from tests.support.mqtt_bus import PublishingBus
from tests.support.mqtt_runs import Log, by_episode, following, mixed, settings_for, take, until
from tests.support.paths import ROOT


async def test_a_connection_that_is_cut_costs_nothing(broker: Mosquitto) -> None:
    """While a follower is cut off, the broker stores its messages: it need not request any record
    again."""
    log = Log()
    facts = mixed(10, 10)
    got: list[Record] = []
    async with anyio.create_task_group() as tasks:
        cable = Cable(broker)
        await tasks.start(cable.serve)
        async with following(settings_for(broker, url=cable.url)) as follower:
            async with MqttLink(settings_for(broker), "r", log="a", read_log=log.read) as link:
                link.put(log.commit(facts[:40]))
                await take(follower, got, until=40)
                await cable.cut()
                link.put(log.commit(facts[40:]))
                await until(lambda: link.statistics()["sent"] == len(facts))
            await take(follower, got)
            assert follower.statistics()["connects"] == 2
            assert follower.statistics()["requests"] == 0
        tasks.cancel_scope.cancel()
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)


async def test_a_cancelled_run_still_sends_its_records(broker: Mosquitto) -> None:
    """When the run around a link is cancelled, followers get every record put so far, and the
    end."""
    log, settings = Log(), settings_for(broker)
    facts = mixed(20, 20)
    got: list[Record] = []
    async with following(settings) as follower:
        with anyio.CancelScope() as scope:
            async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
                link.put(log.commit(facts))
                scope.cancel()
                await anyio.sleep_forever()
        await take(follower, got)
    assert by_episode(got) == by_episode(facts)


@pytest.mark.slow
async def test_a_broker_that_dies_in_the_middle_costs_nothing(broker: Mosquitto) -> None:
    """A broker that is killed and started again, empty, three times still delivers every record
    once; meanwhile publishers wait."""
    log = Log()
    facts = mixed(40, 20)
    settings = settings_for(broker, outbox=60, batch=8)
    got: list[Record] = []
    async with (
        following(settings) as follower,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", read_log=log.read) as link,
    ):
        tasks.start_soon(take, follower, got)

        async def publish() -> None:
            for start in range(0, len(facts), 5):
                link.put(log.commit(facts[start : start + 5]))
                await link.wait_for_room()
                await anyio.sleep(0.001)

        async with anyio.create_task_group() as publishing:
            publishing.start_soon(publish)
            for goal, times in ((100, 2), (300, 3), (500, 4)):
                await until(lambda goal=goal: len(got) >= goal)  # type: ignore[misc]
                await anyio.to_thread.run_sync(broker.kill)
                await anyio.to_thread.run_sync(broker.start)
                await until(lambda times=times: link.statistics()["connects"] == times)  # type: ignore[misc]
        # The link serves the log until it is left: a slow follower asks it for what is missing.
        await until(lambda: len(got) >= len(facts))
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)


async def test_publishers_wait_while_the_broker_is_away(broker: Mosquitto) -> None:
    """Without a broker the outbox fills to its limit and then publishers wait; when the broker is
    back, they continue and every record arrives."""
    settings = settings_for(broker, outbox=20, batch=5, in_flight=2)
    got: list[Record] = []
    facts = episode("e", 100)
    published = 0
    async with PublishingBus(settings, "r") as bus, bus.subscribe() as follower:
        await bus.publish(facts[0])
        await take(follower, got, until=1)
        broker.kill()

        async def publish() -> None:
            nonlocal published
            for record in facts[1:]:
                await bus.publish(record)
                published += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            await anyio.sleep(0.3)
            await anyio.wait_all_tasks_blocked()
            assert 20 <= published <= 20 + 2 * 5 + 5  # the outbox, in flight, packed
            await anyio.to_thread.run_sync(broker.start)
            tasks.start_soon(take, follower, got)
            await until(lambda: published == len(facts) - 1)
            await bus.close()
        assert bus.statistics()["sent"] == len(facts)
    assert got == facts


async def test_unsent_records_are_reported(broker: Mosquitto) -> None:
    """Closing a bus without its broker raises an error with the number of unsent records."""
    settings = settings_for(broker, close_s=0.2)
    with pytest.raises(BusError, match=r"[1-9]\d* records could not be sent"):
        async with PublishingBus(settings, "r") as bus:
            await bus.publish(episode("e", 0)[0])
            broker.kill()
            for record in episode("e", 5):
                await bus.publish(record)


@pytest.mark.slow
async def test_a_publisher_that_dies_is_reported_lost(broker: Mosquitto) -> None:
    """When the publishing process is killed, the broker reports to followers that the run is
    lost."""
    code = (
        "import anyio, sys\n"
        "from rehearsal_room.harness.bus import mqtt_client\n"
        "from tests.support.mqtt_bus import PublishingBus\n"
        "from rehearsal_room.harness.bus.mqtt_settings import MqttSettings\n"
        "from tests.support.events import episode\n"
        "mqtt_client._WILL_DELAY_S = 0\n"
        "async def main():\n"
        "    async with PublishingBus(MqttSettings(url=sys.argv[1]), 'r') as bus:\n"
        "        for record in episode('e', 3):\n"
        "            await bus.publish(record)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    settings = settings_for(broker)
    process = await anyio.open_process([sys.executable, "-c", code, broker.url], cwd=ROOT)
    async with process:
        got: list[Record] = []
        async with following(settings) as follower:
            await take(follower, got, until=6)
            assert (await status_of(settings, "r")).state == "live"
            process.send_signal(signal.SIGKILL)
            await until(lambda: follower.status is not None and follower.status.state == "lost")
    assert got == episode("e", 3)


async def test_the_end_can_be_cancelled(broker: Mosquitto) -> None:
    """A link that waits for a follower at its end stops waiting when it is cancelled."""
    log, settings = Log(), settings_for(broker, linger_s=1000)
    async with following(settings, depth=1):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
                        await until(lambda: link.statistics()["followers"] > 0)
                        link.put(log.commit(mixed(9, 9)))

                tasks.start_soon(run)
                async with following(settings, kinds=["weights"]) as quick:
                    with pytest.raises(anyio.EndOfStream):  # no record of its kinds comes
                        await quick.receive()
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught


async def test_cancelling_the_first_publication(broker: Mosquitto) -> None:
    """After the cancellation of the publication that connects the bus, later ones succeed."""
    settings = settings_for(broker)
    cancelled, *facts = episode("e", 3)
    got: list[Record] = []
    async with PublishingBus(settings, "r") as bus, bus.subscribe() as follower:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.publish, cancelled)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, follower, got)
            for record in facts:
                await bus.publish(record)
            await bus.close()
    assert got in (facts, [cancelled, *facts])


async def test_every_publication_fails_without_a_broker() -> None:
    """Every publication fails with the same sentence as the first."""
    settings = MqttSettings(url=f"mqtt://127.0.0.1:{free_port()}")
    async with PublishingBus(settings, "r") as bus:
        for record in episode("e", 1):
            with pytest.raises(BusError, match="cannot be reached"):
                await bus.publish(record)
