"""The runs of a broker, and what other clients do there."""

import aiomqtt
import anyio
import anyio.abc
import anyio.lowlevel
import pytest
import structlog
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_runs import runs_on, status_of
from rehearsal_room.harness.bus.mqtt_wire import START, RunStatus, encode, topic
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record
from tests.support.broker import Mosquitto
from tests.support.events import episode
from tests.support.mqtt_runs import Log, following, settings_for, take, until


async def test_the_runs_of_a_broker_are_listed_and_picked(broker: Mosquitto) -> None:
    """The runs of a broker are listed with their state; without a name, the only live run is
    picked, and when there is not exactly one, the error lists the runs."""
    settings = settings_for(broker)
    assert await runs_on(settings) == []
    with pytest.raises(BusError, match=r"0 runs are live on .* its runs: none"):
        await status_of(settings)
    log = Log()
    async with MqttLink(settings, "old", log="a", read_log=log.read, now=lambda: 1.0) as link:
        link.put(log.commit(episode("e", 2)))
    async with MqttLink(
        settings, "new", log="b", read_log=log.read, episodes=7, digest="d", now=lambda: 2.0
    ):
        new, old = await runs_on(settings)
        assert (new.run, new.state, new.episodes, new.digest) == ("new", "live", 7, "d")
        assert (old.run, old.state) == ("old", "ended")
        assert old.counts == {"started": 1, "step": 2, "ended": 1, "judged": 1}
        assert (await status_of(settings)).run == "new"
        assert (await status_of(settings, "old")).state == "ended"
        with pytest.raises(BusError, match=r"no run 'odd' .*: new \(live\), old \(ended\)"):
            await status_of(settings, "odd")


async def test_foreign_messages_are_ignored(broker: Mosquitto) -> None:
    """Messages of other programs on a run's topics are ignored, with a line in the log."""
    log, settings = Log(), settings_for(broker)
    got: list[Record] = []
    with structlog.testing.capture_logs() as logs:
        async with (
            MqttLink(settings, "r", log="a", read_log=log.read) as link,
            following(settings) as follower,
            anyio.create_task_group() as tasks,
        ):
            await write_foreign_message(broker, topic("r", "step", "x"), b"\xc1junk")
            await write_foreign_message(broker, topic("r", "catchup", "x", "request"), b"\xc1junk")
            link.put(log.commit(episode("e", 2)))
            tasks.start_soon(take, follower, got)
            await link.close()
    assert got == episode("e", 2)
    events = {line["event"] for line in logs}
    assert {"mqtt_message_without_mark", "mqtt_unreadable_request"} <= events


_HEADS = b"\xa5heads" + bytes([0x90 + len(START)])  # a list of so many
_STATUS = encode(RunStatus("r", "live", "a", START))
assert _HEADS in _STATUS
MALFORMED = [
    b"\xc1junk",
    b"",
    b"\x80",
    _STATUS[:-3],
    _STATUS.replace(b"\xa1r", b"\xa1\xff"),  # a run whose name is not UTF-8
    _STATUS.replace(b"live", b"dead"),
    _STATUS.replace(_HEADS + b"\x00", _HEADS + b"\xff"),  # a negative position
    encode({"run": "r", "state": "live", "log": "a", "heads": [2**64 - 1] * len(START)}),
]


async def test_a_malformed_message_does_not_end_a_follower(broker: Mosquitto) -> None:
    """A status, a page and records that cannot be read are ignored with one line for each kind; the
    follower gets every record, and the run and the list of runs go on."""
    log, settings = Log(), settings_for(broker)
    got: list[Record] = []
    facts = episode("e", 4)
    with structlog.testing.capture_logs() as logs:
        async with (
            MqttLink(settings, "r", log="a", read_log=log.read) as link,
            following(settings) as follower,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(take, follower, got)
            link.put(log.commit(facts[:3]))
            inbox = topic("r", "catchup", follower.name, "answer")
            requests = topic("r", "catchup", "x", "request")
            marks = (
                "a 0 1 0 0 0 0 0 0 0",
                "a 0 1",
                f"a {'9' * 5000} 1 0 0 0 0 0 0 0",
                "a -1 1 0 0 0 0 0 0 0",
            )
            for payload in MALFORMED:
                for name in (topic("r", "status", "a"), topic("r", "status"), inbox, requests):
                    await write_foreign_message(broker, name, payload)
                for mark in marks:
                    await write_foreign_message(broker, topic("r", "step", "e"), payload, mark)
            await write_foreign_message(broker, topic("x", "status"), MALFORMED[4], retain=True)
            assert [status.run for status in await runs_on(settings)] == ["r"]
            link.put(log.commit(facts[3:]))
            await link.close()
    assert got == facts
    unreadable = [line for line in logs if line["event"] == "mqtt_unreadable_message"]
    assert len(unreadable) == 3  # the status, the page, the step
    assert any(line["event"] == "mqtt_unreadable_status" for line in logs)


async def write_foreign_message(
    broker: Mosquitto, name: str, payload: bytes, mark: str = "", *, retain: bool = False
) -> None:
    """Publish a message, by default without the library's mark."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho
    if mark:
        properties.UserProperty = ("mark", mark)
    async with aiomqtt.Client("127.0.0.1", broker.port, protocol=aiomqtt.ProtocolVersion.V5) as it:
        await it.publish(name, payload, qos=1, properties=properties, retain=retain)


async def test_a_follower_leaves_nothing_behind(broker: Mosquitto) -> None:
    """A publisher does not wait at the end for a follower that has left."""
    log, settings = Log(), settings_for(broker, linger_s=30)
    async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
        async with following(settings):
            await until(lambda: link.statistics()["followers"] == 1)
        await until(lambda: link.statistics()["followers"] == 0)
        assert "followers=0" in repr(link)


async def test_visitors_do_not_keep_a_run_open(broker: Mosquitto) -> None:
    """Followers that come and go after the end, while one that is lost never says that it left, do
    not make the publisher wait for ever."""
    log, settings = Log(), settings_for(broker, linger_s=0.3)
    closed = anyio.Event()

    async def visit() -> None:
        number = 0
        while not closed.is_set():
            number += 1
            here = topic("r", "catchup", f"visitor-{number}", "here")
            await write_foreign_message(broker, here, b"here")
            await write_foreign_message(broker, here, b"")

    async with anyio.create_task_group() as tasks:
        async with MqttLink(settings, "r", log="a", read_log=log.read) as link:
            lost = topic("r", "catchup", "lost", "here")
            await write_foreign_message(broker, lost, b"here")
            await until(lambda: link.statistics()["followers"] == 1)
            tasks.start_soon(visit)
        closed.set()
