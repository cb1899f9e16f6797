"""Faults on the way to a real broker: a follower gets every record once and in order all the
same."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import aiomqtt
import anyio
import msgspec
import pytest

from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.bus.mqtt_client import mark_on
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.chaos.broker_proxy import BrokerProxy
from rehearsal_room.harness.chaos.bus import FaultyBus
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import FaultInjected, Judged, Record
from rehearsal_room.harness.following.external_judge import OpenExternalJudge
from rehearsal_room.harness.following.signed_verdicts import VerdictSeal, verdict_key
from rehearsal_room.harness.following.verdict_log import verdicts_topic
from rehearsal_room.harness.settings.run import Settings, log_id_of
from tests.support.broker import Mosquitto, free_port, mosquitto, running_broker
from tests.support.chaos import chaos_of, injecting
from tests.support.events import episode
from tests.support.mqtt_bus import PublishingBus
from tests.support.mqtt_runs import Log, by_episode, following, mixed, settings_for, take

_RECORDS = mixed(12, 12)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Published:
    """What publishes a log that is not in a folder, as PublishedLog does one that is."""

    def __init__(self, settings: MqttSettings, log: Log, near: Any = nullcontext) -> None:
        self.settings, self.log, self.near = settings, log, near
        self.links: list[MqttLink] = []

    def through(self, near: Any) -> "_Published":
        self.near = near
        return self

    @asynccontextmanager
    async def __call__(self, position: int) -> AsyncIterator[MqttLink]:
        async with self.near(self.settings) as way:
            self.links.append(MqttLink(way, "r", log="a", read_log=self.log.read))
            async with self.links[0] as link:
                yield link


async def publish(
    settings: MqttSettings, tables: dict[str, dict[str, Any]], *, seconds: float = 0.0
) -> list[FaultInjected]:
    """Publish all records through a faulty bus, in small batches over some seconds; check that a
    follower gets them; returns the faults."""
    injector, log = Injector(chaos_of({"bus": tables})), Log()
    bus = FaultyBus(injector)

    got: list[Record] = []
    published = _Published(settings, log)
    async with (
        bus.link(published)(0) as link,  # type: ignore[arg-type]  # it has no folder
        following(settings) as follower,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(take, follower, got)
        async with injecting(injector) as faults:
            for start in range(0, len(_RECORDS), 8):
                link.put(log.commit(_RECORDS[start : start + 8]))
                await link.wait_for_room()
                await anyio.sleep(seconds * 8 / len(_RECORDS))
        await published.links[0].close()
    assert by_episode(got) == by_episode(_RECORDS)
    return faults


@asynccontextmanager
async def overhearing(broker: Mosquitto) -> AsyncIterator[list[str]]:
    """The marks of all messages of steps, in the order in which the broker gets them."""
    marks: list[str] = []
    async with aiomqtt.Client(
        "127.0.0.1", broker.port, protocol=aiomqtt.ProtocolVersion.V5
    ) as client:
        await client.subscribe("rehearse/r/step/#", qos=1)

        async def listen() -> None:
            async for message in client.messages:
                marks.append(mark_on(message) or "")  # noqa: PERF401 - it is read meanwhile

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            yield marks
            await anyio.sleep(0.05)  # what is on its way
            tasks.cancel_scope.cancel()


async def test_messages_that_come_twice_or_in_another_order(tmp_path: Path) -> None:
    """Duplicates and swapped messages reach the broker, and the follower puts them right."""
    with running_broker(tmp_path) as broker:
        settings = settings_for(broker, batch=8, gather_s=0)
        tables = {"duplicate": {"share": 0.5}, "reorder": {"share": 0.4}}
        async with overhearing(broker) as marks:
            faults = await publish(settings, tables, seconds=0.3)
    landed = [fault.fault for fault in faults if fault.landed]
    assert landed.count("bus.duplicate") >= 3
    assert landed.count("bus.reorder") >= 3
    assert 3 <= len(marks) - len(set(marks)) <= landed.count("bus.duplicate")
    since = [int(mark.split()[1]) for mark in dict.fromkeys(marks)]
    assert since != sorted(since)


async def test_a_broker_that_is_out_of_reach(tmp_path: Path) -> None:
    """Connections are cut and refused for a while; later nothing passes for a while."""
    with running_broker(tmp_path) as broker:
        settings = settings_for(broker, batch=8, connect_s=2)
        tables = {
            "restart": {"at": [0.1], "seconds": 0.1},
            "partition": {"at": [0.7], "seconds": 0.2},
        }
        faults = await publish(settings, tables, seconds=1.2)
    what = ("the broker",)
    assert faults == [
        FaultInjected("bus.restart", True, True, "", 0, 0, "", *what, 0.1),
        FaultInjected("bus.partition", True, False, "", 0, 0, "", *what, 0.2),
    ]


async def test_a_broker_that_is_restarted_by_a_command(tmp_path: Path) -> None:
    """The command of the file really restarts it: all that it knew is lost."""
    pid = tmp_path / "pid"
    with running_broker(tmp_path, f"allow_anonymous true\npid_file {pid}") as broker:
        first = pid.read_text()
        config = tmp_path / "mosquitto.conf"
        command = f"kill -9 $(cat {pid}); sleep 0.1; {mosquitto()} -d -c {config}"
        settings = settings_for(broker, batch=8)
        tables = {"restart": {"at": [0.1], "command": command}}
        try:
            faults = await publish(settings, tables, seconds=1.0)
            assert pid.read_text() != first
        finally:
            await anyio.run_process(f"kill -9 $(cat {pid})", check=False)
    assert [(fault.fault, fault.landed, fault.retried) for fault in faults] == [
        ("bus.restart", True, True)
    ]


async def test_a_partition_lets_nothing_pass(tmp_path: Path) -> None:
    """What is sent meanwhile arrives afterwards."""
    ping, pong = b"\xc0\x00", b"\xd0\x00"
    with running_broker(tmp_path) as broker:
        injector = Injector(chaos_of({"bus": {"partition": {"at": [9.0]}}}))
        async with (
            BrokerProxy(broker_of(settings_for(broker)), injector) as proxy,
            await anyio.connect_tcp("127.0.0.1", proxy.port) as stream,
        ):
            await stream.send(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc")
            assert (await stream.receive())[0] == 0x20  # CONNACK
            proxy.hold()
            await stream.send(ping)
            with anyio.move_on_after(0.1) as silence:
                await stream.receive()
            assert silence.cancelled_caught
            proxy.release()
            assert await stream.receive() == pong


async def test_slow_listeners_let_the_log_wait(tmp_path: Path) -> None:
    """Each batch waits, and nothing is lost."""
    with running_broker(tmp_path) as broker:
        tables = {"slow": {"share": 1.0, "seconds": 0.01}}
        began = time.monotonic()
        faults = await publish(settings_for(broker), tables)
    assert time.monotonic() - began >= sum(fault.seconds for fault in faults)
    assert set(faults) == {FaultInjected("bus.slow", seconds=0.01)}
    assert len(faults) == -(-len(_RECORDS) // 8)


async def test_a_wrong_broker_is_named_as_without_faults() -> None:
    """The message has the broker's address, not the proxy's."""
    injector = Injector(chaos_of({"bus": {"duplicate": {"share": 0.5}}}))
    settings = MqttSettings(url=f"mqtt://127.0.0.1:{free_port()}")
    link = FaultyBus(injector).link(_Published(settings, Log()))  # type: ignore[arg-type]
    with pytest.raises(BusError, match=f"the broker at {settings.url} cannot be reached"):
        async with link(0):
            pass


async def test_verdicts_of_a_judge_elsewhere(tmp_path: Path) -> None:
    """They come through the faults, too: twice, in another order and after a partition; the run
    takes each once, and each fault that hit one is recorded."""
    run = tmp_path / "night"
    run.mkdir()
    (run / "run.toml").write_text('[environment]\nlog_id = "a"\n')
    records = [one for number in range(20) for one in episode(f"e{number}", 1)]
    seal = VerdictSeal(verdict_key(), "a")
    plain = [one for one in records if isinstance(one.event, Judged)]
    verdicts = [
        msgspec.structs.replace(one, event=seal.sealed(one.episode, one.attempt, one.event))
        for one in plain
        if isinstance(one.event, Judged)
    ]
    tables: dict[str, dict[str, Any]] = {
        "duplicate": {"share": 0.5},
        "reorder": {"share": 0.4},
        "partition": {"at": [0.1], "seconds": 0.2},
    }
    got: list[tuple[str, Judged]] = []

    async def record(name: str, _attempt: int, judged: Judged) -> None:
        got.append((name, judged))

    with running_broker(tmp_path) as broker:
        settings = settings_for(broker, batch=1, gather_s=0)
        injector, bus = Injector(chaos_of({"bus": tables})), LocalBus()
        opening = OpenExternalJudge(settings).through(FaultyBus(injector).near)
        topic = verdicts_topic(run.name, log_id_of(run / "run.toml"))
        async with (
            opening(folder=run) as judge,
            PublishingBus(settings, topic) as there,
            bus.subscribe() as subscription,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(judge.serve, subscription, record)
            for one in records:
                if one not in plain:
                    await bus.publish(one)
            async with injecting(injector) as faults:
                for one in verdicts:
                    await there.publish(one)
                    await anyio.sleep(0.03)
                with anyio.fail_after(10):
                    while len(got) < len(verdicts) or not _partitions(faults):  # noqa: ASYNC110
                        await anyio.sleep(0.01)
            bus.close()
    assert sorted(got, key=str) == sorted(((one.episode, one.event) for one in verdicts), key=str)
    landed = {(one.fault, one.target) for one in faults if one.landed}
    assert landed >= {
        ("bus.partition", "the broker"),
        ("bus.duplicate", "message from the broker"),
        ("bus.reorder", "message from the broker"),
    }


def _partitions(faults: list[FaultInjected]) -> list[FaultInjected]:
    return [one for one in faults if one.fault == "bus.partition"]


def test_a_run_takes_its_verdicts_through_the_faults(tmp_path: Path) -> None:
    """With faults of the bus the opener of an external judge gets their way to the broker; without
    them, or with another judge, it stays as it is."""
    settings = Settings()
    opening = OpenExternalJudge(MqttSettings(url="mqtt://127.0.0.1:1"))
    faulty = Chaos(chaos_of({"bus": {"partition": {"at": [9.0]}}}), settings.model)
    assert faulty.judge(opening).near != opening.near
    assert faulty.judge(None) is None
    assert (
        Chaos(chaos_of({"tools": {"error": {"share": 0.5}}}), settings.model).judge(opening)
        is opening
    )
