"""MQTT: exactly once through whatever brokers do, and secrets that stay secret. The brokers are
real, and started by these tests."""

import base64
import gc
import hashlib
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import aiomqtt
import anyio
import anyio.abc
import anyio.lowlevel
import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr

from harness.bus.local import KINDS
from harness.bus.mqtt_client import LIBRARY_LOG
from harness.bus.mqtt_follower import Follower
from harness.bus.mqtt_publisher import MqttBus, MqttLink, runs_on, status_of
from harness.bus.mqtt_settings import MqttSettings, Secret, broker_of
from harness.bus.mqtt_wire import (
    MAX_PAGE_BYTES,
    NOWHERE,
    Ledger,
    Mark,
    Packer,
    Parcel,
    Request,
    decode_page,
    decode_records,
    mark_of,
    page_of,
    topic,
)
from harness.core.errors import BusError, SettingsError
from harness.core.events import HistorySummarized, Kind, Record, StepTaken, kind_of
from harness.core.messages import Act, AgentCall, Answer, Reply
from tests.support.broker import Cable, Mosquitto, free_port, running_broker
from tests.support.events import episode
from tests.support.paths import ROOT

PASSWORD = "p4ss w/rd@:%?"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as running:
        yield running


def settings_for(broker: Mosquitto, **more: object) -> MqttSettings:
    """Settings in which nothing takes long."""
    return msgspec.convert(
        {
            "url": broker.url,
            "status_s": 0.1,
            "answer_s": 0.2,
            "linger_s": 1.0,
            "max_backoff_s": 0.3,
            **more,
        },
        MqttSettings,
    )


class Log:
    """A log as the roof has it: records with positions, read in pages."""

    def __init__(self, records: Sequence[Record] = (), *, page: int = 50) -> None:
        self.rows = list(enumerate(records, 1))
        self._page = page

    async def history(self, after: int) -> list[tuple[int, Record]]:
        return self.rows[after : after + self._page]

    def commit(self, records: Sequence[Record]) -> list[tuple[int, Record]]:
        batch = list(enumerate(records, len(self.rows) + 1))
        self.rows += batch
        return batch

    @property
    def records(self) -> list[Record]:
        return [record for _, record in self.rows]


def mixed(num_episodes: int, num_steps: int, *, seed: int = 0) -> list[Record]:
    """Episodes at a time, as a run writes them into its log."""
    random = Random(seed)
    left = [deque(episode(f"e{number}", num_steps)) for number in range(num_episodes)]
    records = []
    while left:
        chosen = random.choice(left)
        records.append(chosen.popleft())
        if not chosen:
            left.remove(chosen)
    return records


def summed_up(records: Sequence[Record]) -> list[Record]:
    """The same episodes with a summary before every second step."""
    following: dict[str, int] = {}
    told = []
    for record in records:
        seq = following.get(record.episode, 0)
        if isinstance(record.event, StepTaken) and record.seq % 2 == 0:
            told.append(
                Record(record.episode, 0, seq, record.at, HistorySummarized(Reply("So far."), 1))
            )
            seq += 1
        told.append(msgspec.structs.replace(record, seq=seq))
        following[record.episode] = seq + 1
    return told


def by_episode(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.episode, []).append(record)
    return found


async def take(follower: Follower, got: list[Record], *, until: int | None = None) -> None:
    """Receive until there are so many, or (None) until the end."""
    try:
        while until is None or len(got) < until:
            got.extend(await follower.receive())
    except anyio.EndOfStream:
        assert until is None, f"the end came after {len(got)} records, not {until}"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process brings about, and tells nobody of."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.005)


@asynccontextmanager
async def dying(link: MqttLink) -> AsyncIterator[None]:
    """A publisher that is gone after the block, without having said that the run has ended."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(link.run)
        yield
        link.stop()


@asynccontextmanager
async def following(
    settings: MqttSettings, *, kinds: Sequence[Kind] | None = None, depth: int = 4096
) -> AsyncIterator[Follower]:
    async with MqttBus(settings, "r") as bus, bus.subscribe(kinds=kinds, depth=depth) as follower:
        yield follower


# -- what is decided, without a broker


class Line:
    """A broker at its worst: loses, repeats and reorders messages as it likes."""

    def __init__(self, random: Random, *, batch: int, page: int) -> None:
        self.random = random
        self.log = Log(page=page)
        self.outbox: deque[tuple[int, Record]] = deque()
        self.packer = Packer("r", "log", batch=batch)
        self.flying: list[Parcel] = []

    def send(self) -> None:
        """Pack something, and do it harm."""
        for parcel in self.packer.pack(self.outbox):
            for _ in range(self.random.choice([0, 1, 1, 1, 2])):
                place = len(self.flying) - self.random.choice([0, 0, 0, 0, 1, 3])
                self.flying.insert(max(place, 0), parcel)

    async def answer(self, request: Request) -> bytes:
        """What the publisher answers."""
        boundary = self.packer.boundary
        return page_of(request, await self.log.history(request.lowest), boundary)


@given(
    seed=st.integers(0, 2**32),
    batch=st.integers(1, 20),
    page=st.integers(1, 30),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
)
async def test_exactly_once_whatever_the_broker_does(
    seed: int, batch: int, page: int, kinds: list[Kind]
) -> None:
    """Through loss, repetition and reordering of messages, requests and answers, the follower gets
    every record of its kinds once, and those of an episode in order."""
    random = Random(seed)
    line = Line(random, batch=batch, page=page)
    ledger = Ledger(kinds)
    got: list[Record] = []
    answers: list[bytes] = []
    unwritten = deque(summed_up(mixed(5, 6, seed=seed)))
    while unwritten or line.outbox or line.flying:
        if unwritten and random.random() < 0.4:
            taken = [unwritten.popleft() for _ in range(min(len(unwritten), random.randint(1, 9)))]
            line.outbox.extend(line.log.commit(taken))
        if random.random() < 0.5:
            line.send()
        if line.flying and random.random() < 0.6:
            parcel = line.flying.pop(0)
            kind = parcel.topic.split("/")[2]
            if kind in kinds and ledger.take(kind, mark_of(parcel.mark)):
                got.extend(decode_records(bytes(parcel.payload)))
        if ledger.behind() and random.random() < 0.3:
            answers.append(await line.answer(ledger.request("log")))
        if answers and random.random() < 0.5:
            answer = random.choice(answers)  # perhaps again, perhaps late
            got.extend(ledger.take_page(decode_page(answer)))
    ledger.hear("log", line.packer.heads)  # as the status tells every second
    for _ in range(200):
        if not ledger.behind():
            break
        got.extend(ledger.take_page(decode_page(await line.answer(ledger.request("log")))))
    wanted = [record for record in line.log.records if kind_of(record.event) in kinds]
    assert len(got) == len(wanted)
    assert by_episode(got) == by_episode(wanted)


def test_a_mark_is_written_and_read() -> None:
    """A mark's text reads back as the mark; a text with another number of heads is refused."""
    mark = Mark("9f3a", 190, 200, (190, 187, 12, 0, 0, 0))
    assert str(mark) == "9f3a 190 200 190 187 12 0 0 0"
    assert mark_of(str(mark)) == mark
    with pytest.raises(ValueError, match="6 heads, not 1"):
        mark_of("9f3a 1 2 3")


def test_a_single_record_has_its_episode_in_the_topic() -> None:
    """One record goes under its episode's name, escaped where MQTT wants it; more of a kind go as
    a batch."""
    outbox: deque[tuple[int, Record]] = deque(enumerate(episode("shop/1+#", 2), 1))
    parcels = Packer("night run", "log", batch=100).pack(outbox)
    assert [(parcel.topic, parcel.num_records) for parcel in parcels] == [
        ("rehearse/night%20run/started/shop%2F1%2B%23", 1),
        ("rehearse/night%20run/step/_batch", 2),
        ("rehearse/night%20run/ended/shop%2F1%2B%23", 1),
        ("rehearse/night%20run/judged/shop%2F1%2B%23", 1),
    ]


def test_what_a_model_says_beyond_messagepack_is_sent_as_it_is_stored() -> None:
    """Integers beyond 64 bits and half surrogate pairs in a reply stop nothing."""
    call = AgentCall("book", {"amount": 2**70, "note": "\ud83d"}, "c0")
    record = Record("e", 0, 0, 1.0, StepTaken(Reply(calls=(call,)), Act((call,))))
    stored = AgentCall("book", {"amount": str(2**70), "note": "?"}, "c0")
    expected = Record("e", 0, 0, 1.0, StepTaken(Reply(calls=(stored,)), Act((stored,))))
    (parcel,) = Packer("r", "log", batch=10).pack(deque([(1, record)]))
    assert decode_records(bytes(parcel.payload)) == (expected,)
    page = decode_page(page_of(Request("log", NOWHERE, KINDS), [(1, record)], 1))
    assert page.records == [(1, expected)]


def test_a_request_without_kinds_is_refused() -> None:
    """A request that a publisher could not answer is not decoded."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"log": "l", "after": NOWHERE, "kinds": ()}, Request)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"log": "l", "after": (0,), "kinds": ("step",)}, Request)


def test_a_page_ends_where_publishing_does() -> None:
    """A page tells nothing beyond the boundary of what was published, and says when it has come to
    it; before, it says how far it goes."""
    rows = list(enumerate(episode("e", 5), 1))
    request = Request("log", (2, 1, 0, 0, 0, 0), ("started", "step"))
    assert request.lowest == 1
    page = decode_page(page_of(request, rows[1:6], 4))
    assert (page.upto, page.end, page.records) == (4, True, rows[1:4])
    page = decode_page(page_of(request, rows[1:3], 4))
    assert (page.upto, page.end, page.records) == (3, False, rows[1:3])
    page = decode_page(page_of(Request("log", (4,) * 6, KINDS), [], 4))
    assert (page.upto, page.end, page.records) == (4, True, [])


def test_a_page_that_would_be_too_large_is_cut() -> None:
    """A page of large records bears fewer of them and says how far it goes, so that nothing is
    passed over."""
    rows = [
        (n, Record("e", 0, n, 1.0, StepTaken(Reply("x" * 900_000), Answer(""))))
        for n in range(1, 9)
    ]
    have, got = NOWHERE, []
    ledger = Ledger(KINDS)
    ledger.hear("log", (0, 8, 0, 0, 0, 0))
    while ledger.behind():
        request = ledger.request("log")
        payload = page_of(request, rows[request.lowest :], 8)
        assert len(payload) <= MAX_PAGE_BYTES
        got += ledger.take_page(decode_page(payload))
        assert request.after != have or have == NOWHERE
        have = request.after
    assert got == [record for _, record in rows]


def test_a_page_that_does_not_follow_on_is_not_taken() -> None:
    """A page that begins after what the follower has would leave a gap; it is passed over."""
    rows = list(enumerate(episode("e", 5), 1))
    late = decode_page(page_of(Request("log", (3,) * 6, KINDS), rows[3:], 8))
    ledger = Ledger(KINDS)
    ledger.hear("log", (1, 6, 7, 8, 0))
    assert ledger.take_page(late) == []
    assert ledger.request("log").after == NOWHERE


# -- coming late, being slow


async def test_a_late_follower_gets_the_whole_run(broker: Mosquitto) -> None:
    """Who subscribes in the middle gets the log from its beginning, then what comes live, without
    a seam."""
    log = Log(page=37)
    got: list[Record] = []
    facts = mixed(20, 20)
    async with MqttLink(settings_for(broker), "r", log="a", history=log.history) as link:
        link.put(log.commit(facts[:150]))
        async with following(settings_for(broker)) as follower, anyio.create_task_group() as tasks:
            tasks.start_soon(take, follower, got)
            for start in range(150, len(facts), 10):
                link.put(log.commit(facts[start : start + 10]))
                await link.wait_for_room()
                await anyio.lowlevel.checkpoint()
            await link.close()
    assert by_episode(got) == by_episode(facts)


async def test_a_run_that_goes_on_is_followed_from_its_beginning(broker: Mosquitto) -> None:
    """A link to a log that has records already sends the new ones, and followers get all; who
    followed the first part gets only what is new."""
    facts = mixed(6, 6)
    log, settings = Log(), settings_for(broker)
    steady: list[Record] = []
    late: list[Record] = []
    async with MqttBus(settings, "r") as bus, bus.subscribe() as follower:
        link = MqttLink(settings, "r", log="a", history=log.history)
        async with dying(link):
            link.put(log.commit(facts[:20]))
            await take(follower, steady, until=20)
        assert by_episode(steady) == by_episode(facts[:20])
        async with MqttLink(
            settings, "r", log="a", history=log.history, position=20, counts={"step": 13}
        ) as link:
            link.put(log.commit(facts[20:]))
            async with bus.subscribe() as second, anyio.create_task_group() as tasks:
                tasks.start_soon(take, follower, steady)
                tasks.start_soon(take, second, late)
                await link.close()
    assert by_episode(steady) == by_episode(late) == by_episode(facts)
    assert len(steady) == len(late) == len(facts)


async def test_a_run_that_goes_on_elsewhere_is_asked_for_its_beginning(broker: Mosquitto) -> None:
    """On a broker that has never heard of the run's first part, followers get that too."""
    facts = mixed(6, 6)
    log, settings = Log(facts[:20]), settings_for(broker)
    got: list[Record] = []
    async with following(settings) as follower, anyio.create_task_group() as tasks:
        tasks.start_soon(take, follower, got)
        async with MqttLink(settings, "r", log="a", history=log.history, position=20) as link:
            link.put(log.commit(facts[20:]))
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)


async def test_what_a_follower_has_no_room_for_stays_at_the_broker(broker: Mosquitto) -> None:
    """A follower that is not read from holds its depth, one message and the few in flight."""
    log, settings = Log(), settings_for(broker, batch=5, in_flight=4)
    facts = mixed(30, 30)
    got: list[Record] = []
    async with (
        following(settings, depth=10) as follower,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", history=log.history) as link,
    ):
        link.put(log.commit(facts))
        await until(lambda: link.statistics()["sent"] == len(facts))
        # One message waits for room; behind it at most one other has come.
        await until(lambda: follower.statistics()["queued"] > 10)
        for _ in range(5):
            got += await follower.receive()
            await until(lambda: follower.statistics()["queued"] > 10)
            assert follower.statistics()["queued"] <= 15
            assert follower.statistics()["held"] <= 1
        tasks.start_soon(take, follower, got)
    assert by_episode(got) == by_episode(facts)
    assert follower.statistics()["requests"] == 0


async def test_a_slow_follower_loses_nothing_to_the_broker(tmp_path: Path) -> None:
    """A follower so slow that the broker drops messages gets all of them from the log, and has
    never more in memory than its depth and what one message bears."""
    log = Log(page=40)
    facts = mixed(30, 30)
    got: list[Record] = []
    most = 0
    lines = "allow_anonymous true\nmax_queued_messages 3\nmax_inflight_messages 2"
    with running_broker(tmp_path, lines) as broker:
        settings = settings_for(broker, batch=5, in_flight=2)
        async with (
            following(settings, depth=10) as follower,
            MqttLink(settings, "r", log="a", history=log.history) as link,
        ):
            for start in range(0, len(facts), 50):
                link.put(log.commit(facts[start : start + 50]))
            # The broker takes it all, and drops most of it.
            await until(lambda: link.statistics()["sent"] == len(facts))

            async def take_slowly() -> None:
                nonlocal most
                while len(got) < len(facts):
                    most = max(most, follower.statistics()["queued"])
                    got.extend(await follower.receive())
                    await anyio.sleep(0.001)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_slowly)
            assert follower.statistics()["requests"] > 0
            assert link.statistics()["pages"] > 0
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)
    assert most <= 10 + 40


async def test_an_ended_run_is_not_waited_for(broker: Mosquitto) -> None:
    """Who comes after the end is told in one sentence where the run can be read."""
    log, settings = Log(), settings_for(broker, answer_s=0.05)
    async with MqttLink(settings, "r", log="a", history=log.history) as link:
        link.put(log.commit(episode("e", 3)))
    async with following(settings) as follower:
        with pytest.raises(BusError, match="'r' has ended and nobody serves its log"):
            await follower.receive()


async def test_two_publishers_of_one_run(broker: Mosquitto) -> None:
    """A second publisher's records arrive beside the owner's; the run ends with the owner."""
    settings = settings_for(broker)
    got: list[Record] = []
    async with MqttBus(settings, "r") as owner, MqttBus(settings, "r", owner=False) as second:
        for record in episode("a", 5):
            await owner.publish(record)
        for record in episode("b", 5):
            await second.publish(record)
        async with following(settings) as follower, anyio.create_task_group() as tasks:
            tasks.start_soon(take, follower, got)
            await until(lambda: len(got) >= 16)
            await owner.close()
    assert by_episode(got) == {"a": episode("a", 5), "b": episode("b", 5)}


async def test_another_run_of_the_same_name_is_told_apart(broker: Mosquitto) -> None:
    """A follower of a run that died gets the new run of that name from its beginning."""
    settings = settings_for(broker)
    first, again = Log(), Log()
    got: list[Record] = []
    async with following(settings) as follower:
        link = MqttLink(settings, "r", log="a", history=first.history)
        async with dying(link):
            link.put(first.commit(episode("e", 2)))
            await take(follower, got, until=5)
        async with MqttLink(settings, "r", log="b", history=again.history) as link:
            link.put(again.commit(episode("e", 7)))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take, follower, got)
                await link.close()
    assert got == episode("e", 2) + episode("e", 7)


async def test_a_run_that_died_unread_does_not_hold_up_the_next(broker: Mosquitto) -> None:
    """A follower that waits in vain for the log of a dead run goes over to the new run of that
    name."""
    settings = settings_for(broker)
    first, again = Log(), Log()
    got: list[Record] = []
    link = MqttLink(settings, "r", log="a", history=first.history)
    async with dying(link):
        link.put(first.commit(episode("dead", 2)))
        await until(lambda: link.statistics()["sent"] == 5)
        # The next status tells of the records; it is what the broker retains.
        await until(lambda: link.statistics()["statuses"] > 2)
    async with following(settings) as follower, anyio.create_task_group() as tasks:
        tasks.start_soon(take, follower, got)
        await until(lambda: follower.statistics()["requests"] > 0)
        async with MqttLink(settings, "r", log="b", history=again.history) as link:
            link.put(again.commit(episode("e", 7)))
    assert got == episode("e", 7)


# -- brokers that go away


async def test_a_connection_that_is_cut_costs_nothing(broker: Mosquitto) -> None:
    """While a follower is cut off, the broker keeps what comes for it: nothing need be asked for
    again."""
    log = Log()
    facts = mixed(10, 10)
    got: list[Record] = []
    async with anyio.create_task_group() as tasks:
        cable = Cable(broker)
        await tasks.start(cable.serve)
        async with following(settings_for(broker, url=cable.url)) as follower:
            async with MqttLink(settings_for(broker), "r", log="a", history=log.history) as link:
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


async def test_a_run_that_is_cancelled_still_sends_what_it_had(broker: Mosquitto) -> None:
    """When the run around a link is cancelled, followers get what was handed over, and the end."""
    log, settings = Log(), settings_for(broker)
    facts = mixed(20, 20)
    got: list[Record] = []
    async with following(settings) as follower:
        with anyio.CancelScope() as scope:
            async with MqttLink(settings, "r", log="a", history=log.history) as link:
                link.put(log.commit(facts))
                scope.cancel()
                await anyio.sleep_forever()
        await take(follower, got)
    assert by_episode(got) == by_episode(facts)


async def test_a_broker_that_dies_in_the_middle_costs_nothing(broker: Mosquitto) -> None:
    """Killed and started again, empty, three times in mid-stream, the broker has brought everything
    once; meanwhile publishers wait."""
    log = Log()
    facts = mixed(40, 20)
    settings = settings_for(broker, outbox=60, batch=8)
    got: list[Record] = []
    async with (
        following(settings) as follower,
        anyio.create_task_group() as tasks,
        MqttLink(settings, "r", log="a", history=log.history) as link,
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
    assert by_episode(got) == by_episode(facts)
    assert len(got) == len(facts)


async def test_publishers_wait_while_the_broker_is_away(broker: Mosquitto) -> None:
    """Without a broker the outbox fills to its bound and then publishers wait; when it is back,
    they go on and everything arrives."""
    settings = settings_for(broker, outbox=20, batch=5, in_flight=2)
    got: list[Record] = []
    facts = episode("e", 100)
    published = 0
    async with MqttBus(settings, "r") as bus, bus.subscribe() as follower:
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


async def test_what_could_not_be_sent_is_told(broker: Mosquitto) -> None:
    """A bus that is closed without its broker says how many records nobody got."""
    settings = settings_for(broker, close_s=0.2)
    with pytest.raises(BusError, match=r"[1-9]\d* records could not be sent"):
        async with MqttBus(settings, "r") as bus:
            await bus.publish(episode("e", 0)[0])
            broker.kill()
            for record in episode("e", 5):
                await bus.publish(record)


async def test_a_publisher_that_dies_is_told_lost(broker: Mosquitto) -> None:
    """When the publishing process is killed, the broker tells followers that the run is lost."""
    code = (
        "import anyio, sys\n"
        "from harness.bus.mqtt_publisher import MqttBus\n"
        "from harness.bus.mqtt_settings import MqttSettings\n"
        "from tests.support.events import episode\n"
        "async def main():\n"
        "    async with MqttBus(MqttSettings(url=sys.argv[1]), 'r') as bus:\n"
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
    """A link that waits for a follower at its end lets go when it is cancelled."""
    log, settings = Log(), settings_for(broker, linger_s=1000)
    async with following(settings, depth=1):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    async with MqttLink(settings, "r", log="a", history=log.history) as link:
                        await until(lambda: link.statistics()["followers"] > 0)
                        link.put(log.commit(mixed(9, 9)))

                tasks.start_soon(run)
                async with following(settings, kinds=["weights"]) as quick:
                    with pytest.raises(anyio.EndOfStream):  # it has nothing to wait for
                        await quick.receive()
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught


async def test_a_bus_whose_first_publication_was_cancelled_goes_on(broker: Mosquitto) -> None:
    """Cancelling the publication that connects the bus breaks nothing for those after it."""
    settings = settings_for(broker)
    cancelled, *facts = episode("e", 3)
    got: list[Record] = []
    async with MqttBus(settings, "r") as bus, bus.subscribe() as follower:
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


async def test_a_bus_without_a_broker_says_so_each_time() -> None:
    """Every publication fails with the sentence of the first."""
    settings = MqttSettings(url=f"mqtt://127.0.0.1:{free_port()}")
    async with MqttBus(settings, "r") as bus:
        for record in episode("e", 1):
            with pytest.raises(BusError, match="cannot be reached"):
                await bus.publish(record)


# -- who may, and who is there


def password_line(user: str, password: str) -> str:
    """A line of mosquitto's password file (PBKDF2 with SHA-512)."""
    salt = b"salt for test"[:12]
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that lets in ada, with her password, and bob, who may only read."""
    passwords, rights = tmp_path / "passwords", tmp_path / "rights"
    passwords.write_text(password_line("ada", PASSWORD) + password_line("bob", "b"))
    rights.write_text("user ada\ntopic readwrite #\nuser bob\ntopic read rehearse/other/#\n")
    os.chmod(passwords, 0o600)
    os.chmod(rights, 0o600)
    lines = f"password_file {passwords}\nacl_file {rights}\nallow_anonymous false"
    with running_broker(tmp_path, lines) as running:
        yield running


async def test_user_and_password_open_the_door(
    guarded: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User and password are taken from the URL, the settings or the environment."""
    escaped = guarded.url.replace("//", "//ada:p4ss%20w%2Frd%40%3A%25%3F@")
    await runs_on(settings_for(guarded, url=escaped))
    await runs_on(settings_for(guarded, user="ada", password=PASSWORD))
    monkeypatch.setenv("REHEARSE_MQTT_USER", "ada")
    monkeypatch.setenv("REHEARSE_MQTT_PASSWORD", PASSWORD)
    await runs_on(settings_for(guarded))


@pytest.mark.parametrize("who", [{}, {"user": "ada", "password": PASSWORD + "!"}])
async def test_who_is_not_let_in_is_told_so(guarded: Mosquitto, who: dict[str, str]) -> None:
    """A refused connection is one sentence that names the broker and no password."""
    sentence = rf"the broker at mqtt://127.0.0.1:{guarded.port} refused the connection: .*Not auth"
    with pytest.raises(BusError, match=sentence) as caught:
        await runs_on(settings_for(guarded, **who))
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


async def test_who_may_not_publish_is_told_so(guarded: Mosquitto) -> None:
    """A broker that lets us in and refuses what we publish ends the publishing with a sentence."""
    settings = settings_for(guarded, user="bob", password="b")
    with pytest.raises(BusError, match="does not let us write rehearse/r/status"):
        async with MqttLink(settings, "r", log="a", history=Log().history):
            pass


async def test_no_broker_is_told_at_once() -> None:
    """Where nobody listens, entering fails with a sentence that names the address."""
    settings = MqttSettings(url=f"mqtt://127.0.0.1:{free_port()}")
    with pytest.raises(BusError, match=r"mqtt://127.0.0.1:\d+ cannot be reached: .*refused"):
        await runs_on(settings)
    with pytest.raises(BusError, match="cannot be reached"):
        async with MqttLink(settings, "r", log="a", history=Log().history):
            pass
    with pytest.raises(BusError, match="cannot be reached"):
        async with following(settings):
            pass


async def test_a_broker_that_hangs_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A server that greets and then hangs up is a sentence, and leaves no loose end behind."""

    async def greet(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"\x20\x03\x00\x00\x00")  # connected
            await stream.receive()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        with pytest.raises(BusError, match=f"mqtt://127.0.0.1:{port} cannot be reached"):
            await runs_on(MqttSettings(url=f"mqtt://127.0.0.1:{port}", connect_s=0.3))
        tasks.cancel_scope.cancel()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_the_password_is_never_shown(
    guarded: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    """No repr, log line, message or stored setting bears the password, also when the broker dies
    and everything is logged."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger=LIBRARY_LOG.name)
    escaped = "p4ss%20w%2Frd%40%3A%25%3F"
    in_url = settings_for(guarded, url=guarded.url.replace("//", f"//ada:{escaped}@"), close_s=0.1)
    beside = settings_for(guarded, user="ada", password=PASSWORD)
    shown: list[object] = []
    with structlog.testing.capture_logs() as logs:
        link = MqttLink(in_url, "r", log="a", history=Log().history)
        async with link:
            guarded.kill()
            link.put([(1, episode("e", 0)[0])])
            await until(lambda: any(line["event"] == "mqtt_connection_lost" for line in logs))
            shown += [link, link.statistics(), vars(link)]
    assert any(line["event"] == "mqtt_closed_unsent" for line in logs)
    for settings in (in_url, beside):
        shown += [settings, broker_of(settings), str(broker_of(settings)), pretty_repr(settings)]
        shown += [msgspec.json.encode(settings.public()), f"{settings}", [settings]]
        shown += [MqttBus(settings, "r"), Secret(PASSWORD)]
    text = "\n".join([caplog.text, *map(str, logs), *map(repr, shown)])
    assert "mqtt_connection_lost" in text
    assert "Sending CONNECT" in text
    assert PASSWORD not in text
    assert escaped not in text


@pytest.mark.parametrize(
    "url",
    [
        "http://broker",
        "broker:1883",
        "mqtt://",
        "mqtt://ada:se/cret@broker",
        "mqtt://ada:secret@broker:port",
        "mqtt://ada:secret@broker/topic",
        "mqtt://ada:secret@broker?x=1",
        "mqtt://ada:secret@broker#part",
        "mqtt://ada:secret@[::1",
    ],
)
def test_a_bad_url_is_refused_without_showing_it(url: str) -> None:
    """Whatever is wrong with the URL, the sentence tells the form and shows nothing of it, as part
    of the password may be anywhere."""
    with pytest.raises(SettingsError, match="the broker's URL does not read mqtt://") as caught:
        broker_of(MqttSettings(url=url), environ={})
    assert "cret" not in "".join(traceback.format_exception(caught.value))
    assert "se/cret" not in repr(MqttSettings(url=url))


def test_public_settings_can_be_used_again() -> None:
    """Settings stored without their password take it from the environment when they are read."""
    settings = MqttSettings(url="mqtt://ada:secret@host", ahead=2)
    assert settings.public() == MqttSettings(url="mqtt://ada@host", ahead=2)
    assert MqttSettings(user="ada", password="secret").public() == MqttSettings(user="ada")
    assert "url='mqtt://ada:***@host'" in repr(settings)
    assert "password='***'" in repr(MqttSettings(password="secret"))
    again = broker_of(settings.public(), environ={"REHEARSE_MQTT_PASSWORD": "secret"})
    assert again.user == "ada"
    assert again.password is not None
    assert again.password.reveal() == "secret"


def test_settings_are_strict() -> None:
    """Unknown fields, impossible numbers, missing files and a password for nobody are refused,
    each by its name."""
    with pytest.raises(msgspec.ValidationError, match="pasword"):
        msgspec.convert({"pasword": "x"}, MqttSettings)
    with pytest.raises(msgspec.ValidationError, match=r">= 1 - at `\$.in_flight`"):
        msgspec.convert({"in_flight": 0}, MqttSettings)
    with pytest.raises(SettingsError, match=r"ca_file: there is no file nowhere\.pem"):
        broker_of(MqttSettings(url="mqtts://broker", ca_file="nowhere.pem"), environ={})
    with pytest.raises(SettingsError, match="no user to go with it"):
        broker_of(MqttSettings(password="x"), environ={})


def test_where_the_broker_is() -> None:
    """Ports have their defaults; IPv6 and escaped characters are understood."""
    environ = {"REHEARSE_MQTT_USER": "eve", "REHEARSE_MQTT_PASSWORD": "e"}
    plain = broker_of(MqttSettings(url="mqtt://[::1]"), environ=environ)
    assert (str(plain), plain.user) == ("mqtt://[::1]:1883", "eve")
    named = broker_of(MqttSettings(url="mqtt://a%40b:c%2Fd@host:1999"), environ=environ)
    assert (str(named), named.user) == ("mqtt://host:1999", "a@b")
    assert named.password is not None
    assert named.password.reveal() == "c/d"
    secure = broker_of(MqttSettings(url="mqtts://host"), environ={})
    assert (str(secure), secure.user, secure.password) == ("mqtts://host:8883", None, None)


async def test_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    """Over mqtts the broker must show a certificate of our authority, and we ours to it; without
    the authority the connection is refused with a sentence."""
    make_certificates(tmp_path)
    lines = (
        f"cafile {tmp_path}/ca.pem\ncertfile {tmp_path}/broker.pem\nkeyfile {tmp_path}/broker.key\n"
        "require_certificate true\nallow_anonymous true"
    )
    with running_broker(tmp_path, lines) as running:
        settings = settings_for(
            running,
            url=f"mqtts://localhost:{running.port}",
            ca_file=f"{tmp_path}/ca.pem",
            cert_file=f"{tmp_path}/client.pem",
            key_file=f"{tmp_path}/client.key",
        )
        got: list[Record] = []
        facts = mixed(5, 40)
        async with (
            MqttBus(settings, "r") as bus,
            bus.subscribe() as follower,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(take, follower, got)
            for record in facts:
                await bus.publish(record)
            await bus.close()
        assert by_episode(got) == by_episode(facts)
        stranger = msgspec.structs.replace(settings, ca_file="")
        with pytest.raises(BusError, match=r"cannot be reached: .*certificate"):
            await runs_on(stranger)


def make_certificates(folder: Path) -> None:
    """An authority, and what it signed for a broker on localhost and for a client."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("broker", "client"):
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        sign = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        openssl(*sign, "-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "names")


async def test_the_runs_of_a_broker_are_listed_and_picked(broker: Mosquitto) -> None:
    """A broker's runs are listed with how they stand; without a name, the one live run is picked,
    and when there is not one, the sentence lists what there is."""
    settings = settings_for(broker)
    assert await runs_on(settings) == []
    with pytest.raises(BusError, match=r"no live runs, not one, on .* knows of: none"):
        await status_of(settings)
    log = Log()
    async with MqttLink(settings, "old", log="a", history=log.history, now=lambda: 1.0) as link:
        link.put(log.commit(episode("e", 2)))
    async with MqttLink(
        settings, "new", log="b", history=log.history, episodes=7, digest="d", now=lambda: 2.0
    ):
        new, old = await runs_on(settings)
        assert (new.run, new.state, new.episodes, new.digest) == ("new", "live", 7, "d")
        assert (old.run, old.state) == ("old", "ended")
        assert old.counts == {"started": 1, "step": 2, "ended": 1, "judged": 1}
        assert (await status_of(settings)).run == "new"
        assert (await status_of(settings, "old")).state == "ended"
        with pytest.raises(BusError, match=r"no run 'odd' .*: new \(live\), old \(ended\)"):
            await status_of(settings, "odd")


async def test_messages_of_strangers_do_no_harm(broker: Mosquitto) -> None:
    """What others write on a run's topics is passed over, with a line in the log."""
    log, settings = Log(), settings_for(broker)
    got: list[Record] = []
    with structlog.testing.capture_logs() as logs:
        async with (
            MqttLink(settings, "r", log="a", history=log.history) as link,
            following(settings) as follower,
            anyio.create_task_group() as tasks,
        ):
            await write_as_stranger(broker, topic("r", "step", "x"), b"\xc1junk")
            await write_as_stranger(broker, topic("r", "catchup", "x", "request"), b"\xc1junk")
            link.put(log.commit(episode("e", 2)))
            tasks.start_soon(take, follower, got)
            await link.close()
    assert got == episode("e", 2)
    events = {line["event"] for line in logs}
    assert {"mqtt_message_without_mark", "mqtt_unreadable_request"} <= events


async def write_as_stranger(broker: Mosquitto, name: str, payload: bytes) -> None:
    """Publish with nothing of ours."""
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.publish(name, payload, qos=1)


async def test_a_follower_leaves_nothing_behind(broker: Mosquitto) -> None:
    """When a follower leaves, the publisher knows, and does not wait for it at the end."""
    log, settings = Log(), settings_for(broker, linger_s=30)
    async with MqttLink(settings, "r", log="a", history=log.history) as link:
        async with following(settings):
            await until(lambda: link.statistics()["followers"] == 1)
        await until(lambda: link.statistics()["followers"] == 0)
        assert "followers=0" in repr(link)
