"""The MQTT protocol without a broker: exactly once through any loss, repetition and reordering."""

from collections import deque
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.bus.local import KINDS
from rehearsal_room.harness.bus.mqtt_wire import (
    MAX_PAGE_BYTES,
    START,
    FollowedPositions,
    Mark,
    Packer,
    Parcel,
    RecordsRequest,
    decode_page,
    decode_records,
    mark_of,
    page_of,
)
from rehearsal_room.harness.core.events import EventKind, Record, StepTaken, kind_of
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply
from tests.support.events import episode
from tests.support.mqtt_runs import Log, by_episode, mixed, with_other_replies


class BadBroker:
    """A broker that loses, repeats and reorders messages at random."""

    def __init__(self, random: Random, *, batch: int, page: int) -> None:
        self.random = random
        self.log = Log(page=page)
        self.outbox: deque[tuple[int, Record]] = deque()
        self.packer = Packer("r", "log", batch=batch)
        self.flying: list[Parcel] = []

    def send(self) -> None:
        """Pack some records, and lose, repeat or reorder their messages."""
        for parcel in self.packer.pack(self.outbox):
            for _ in range(self.random.choice([0, 1, 1, 1, 2])):
                index = len(self.flying) - self.random.choice([0, 0, 0, 0, 1, 3])
                self.flying.insert(max(index, 0), parcel)

    async def answer(self, request: RecordsRequest) -> bytes:
        """The publisher's answer to a request."""
        boundary = self.packer.boundary
        return page_of(request, await self.log.read(request.lowest), boundary)


@given(
    seed=st.integers(0, 2**32),
    batch=st.integers(1, 20),
    page=st.integers(1, 30),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
)
async def test_exactly_once_whatever_the_broker_does(
    seed: int, batch: int, page: int, kinds: list[EventKind]
) -> None:
    """Through loss, repetition and reordering of messages, requests and answers, the follower gets
    every record of its kinds once, and those of an episode in order."""
    random = Random(seed)
    broker = BadBroker(random, batch=batch, page=page)
    ledger = FollowedPositions(kinds)
    got: list[Record] = []
    answers: list[bytes] = []
    unwritten = deque(with_other_replies(mixed(5, 6, seed=seed)))
    while unwritten or broker.outbox or broker.flying:
        if unwritten and random.random() < 0.4:
            count = min(len(unwritten), random.randint(1, 9))
            batch_of_log = [unwritten.popleft() for _ in range(count)]
            broker.outbox.extend(broker.log.commit(batch_of_log))
        if random.random() < 0.5:
            broker.send()
        if broker.flying and random.random() < 0.6:
            parcel = broker.flying.pop(0)
            kind = parcel.topic.split("/")[2]
            if kind in kinds and ledger.accept(kind, mark_of(parcel.mark)):
                got.extend(decode_records(bytes(parcel.payload)))
        if ledger.incomplete_logs() and random.random() < 0.3:
            answers.append(await broker.answer(ledger.request("log")))
        if answers and random.random() < 0.5:
            answer = random.choice(answers)  # perhaps again, perhaps late
            got.extend(ledger.accept_page(decode_page(answer)))
    ledger.note_published("log", broker.packer.heads)  # as the status reports every second
    for _ in range(200):
        if not ledger.incomplete_logs():
            break
        got.extend(ledger.accept_page(decode_page(await broker.answer(ledger.request("log")))))
    expected = [record for record in broker.log.records if kind_of(record.event) in kinds]
    assert len(got) == len(expected)
    assert by_episode(got) == by_episode(expected)


def test_a_mark_is_written_and_read() -> None:
    """The text of a mark is read back as the mark; one with another number of heads is refused."""
    mark = Mark("9f3a", 190, 200, (190, 187, 12, 0, 0, 0, 0, 0, 0, 0))
    assert str(mark) == "9f3a 190 200 190 187 12 0 0 0 0 0 0 0"
    assert mark_of(str(mark)) == mark
    with pytest.raises(ValueError, match="10 heads, not 1"):
        mark_of("9f3a 1 2 3")


def test_a_single_record_has_its_episode_in_the_topic() -> None:
    """One record is sent under its episode's name, with escapes for what MQTT does not allow;
    several records of a kind are sent as a batch."""
    outbox: deque[tuple[int, Record]] = deque(enumerate(episode("shop/1+#", 2), 1))
    parcels = Packer("night run", "log", batch=100).pack(outbox)
    assert [(parcel.topic, parcel.num_records) for parcel in parcels] == [
        ("rehearse/night%20run/started/shop%2F1%2B%23", 1),
        ("rehearse/night%20run/step/_batch", 2),
        ("rehearse/night%20run/ended/shop%2F1%2B%23", 1),
        ("rehearse/night%20run/judged/shop%2F1%2B%23", 1),
    ]


def test_values_that_messagepack_cannot_hold_are_sent_as_stored() -> None:
    """Integers beyond 64 bits and half surrogate pairs in a reply are sent as the log stores
    them."""
    call = AgentCall("book", {"amount": 2**70, "note": "\ud83d"}, "c0")
    record = Record("e", 0, 0, 1.0, StepTaken(Reply(calls=(call,)), Act((call,))))
    stored = AgentCall("book", {"amount": str(2**70), "note": "?"}, "c0")
    expected = Record("e", 0, 0, 1.0, StepTaken(Reply(calls=(stored,)), Act((stored,))))
    (parcel,) = Packer("r", "log", batch=10).pack(deque([(1, record)]))
    assert decode_records(bytes(parcel.payload)) == (expected,)
    page = decode_page(page_of(RecordsRequest("log", START, KINDS), [(1, record)], 1))
    assert page.records == [(1, expected)]


def test_a_request_without_kinds_is_refused() -> None:
    """A request that a publisher could not answer is refused when it is decoded."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"log": "l", "after": START, "kinds": ()}, RecordsRequest)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"log": "l", "after": (0,), "kinds": ("step",)}, RecordsRequest)


def test_a_page_ends_where_publishing_does() -> None:
    """A page contains nothing beyond the boundary of what was published, and states whether it
    reaches the boundary, or else how far it reaches."""
    rows = list(enumerate(episode("e", 5), 1))
    request = RecordsRequest("log", (2, 1, *START[2:]), ("started", "step"))
    assert request.lowest == 1
    page = decode_page(page_of(request, rows[1:6], 4))
    assert (page.upto, page.end, page.records) == (4, True, rows[1:4])
    page = decode_page(page_of(request, rows[1:3], 4))
    assert (page.upto, page.end, page.records) == (3, False, rows[1:3])
    page = decode_page(page_of(RecordsRequest("log", (4,) * len(KINDS), KINDS), [], 4))
    assert (page.upto, page.end, page.records) == (4, True, [])


def test_a_page_that_would_be_too_large_is_cut() -> None:
    """A page of large records contains fewer of them and states how far it reaches, so that no
    record is skipped."""
    rows = [
        (n, Record("e", 0, n, 1.0, StepTaken(Reply("x" * 900_000), Answer(""))))
        for n in range(1, 9)
    ]
    have, got = START, []
    ledger = FollowedPositions(KINDS)
    ledger.note_published("log", (0, 8, *START[2:]))
    while ledger.incomplete_logs():
        request = ledger.request("log")
        payload = page_of(request, rows[request.lowest :], 8)
        assert len(payload) <= MAX_PAGE_BYTES
        got += ledger.accept_page(decode_page(payload))
        assert request.after != have or have == START
        have = request.after
    assert got == [record for _, record in rows]


def test_a_page_after_a_gap_is_ignored() -> None:
    """A page that begins after a gap in what the follower has is ignored."""
    rows = list(enumerate(episode("e", 5), 1))
    late = decode_page(page_of(RecordsRequest("log", (3,) * len(KINDS), KINDS), rows[3:], 8))
    ledger = FollowedPositions(KINDS)
    ledger.note_published("log", (1, 6, 7, *START[3:]))
    assert ledger.accept_page(late) == []
    assert ledger.request("log").after == START
