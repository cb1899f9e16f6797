"""What passes over the broker, and how arriving at least once becomes arriving exactly once.

    rehearse/<run>/<kind>/<episode>            one record, MessagePack
    rehearse/<run>/<kind>/_batch               an array of records of one kind
    rehearse/<run>/status                      how the run stands (retained; last will: lost)
    rehearse/<run>/status/<log>                the same of a second publisher
    rehearse/<run>/catchup/<client>/here       a follower is there (retained; last will: gone)
    rehearse/<run>/catchup/<client>/request    a follower asks for what it misses
    rehearse/<run>/catchup/<client>/answer     a page of the log for it

A publisher writes under its run and reads catchup; a follower reads the run, and writes under its
own catchup topics; who lists runs reads rehearse/+/status and writes rehearse/_probe. (A broker
tells a client that it may not write; mosquitto does not tell one that it may not read.)

Each record has a position in its publisher's log: a number that grows, so that the order of
positions is the order within every episode. A message of records carries a Mark: which log, which
positions it covers for its kind, and the heads, which tell for each kind up to which position
everything had been sent before. A Ledger keeps how far its follower has got, six numbers for each
log, and reads off each message whether it is new, known, or has a gap before it. A gap is filled
from the log. So whatever brokers and networks lose, repeat or reorder, the follower gets each
(episode, attempt, seq) once and in order, and its memory does not grow with the run.

A Packer sends up to a boundary that all kinds share, and catching up ends at such a boundary. So a
follower that has caught up meets no message of which it has a part.
"""

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec

from harness.bus.local import KINDS
from harness.core.events import Kind, Record, kind_of
from harness.log.schema import record_of, row_of

ROOT = "rehearse"
MAX_BYTES = 1 << 20  # of one message's records, unless one record is larger
MAX_PAGE_BYTES = 4 << 20

Position = int
Heads = Annotated[  # one position for each of KINDS
    tuple[Position, ...], msgspec.Meta(min_length=len(KINDS), max_length=len(KINDS))
]
SomeKinds = Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)]
State = Literal["live", "ended", "lost"]

_INDEX: dict[str, int] = {kind: index for index, kind in enumerate(KINDS)}
_ARRAY = b"\xdd\0\0\0\0"  # MessagePack's array with 32 bits for the length, to be filled in
NOWHERE: Heads = (0,) * len(KINDS)


class Mark(msgspec.Struct, frozen=True, gc=False):
    """What a message of records covers: everything of its kind in (since, upto]."""

    log: str
    since: Position
    upto: Position
    heads: Heads  # what was sent before this message, kind by kind

    def __str__(self) -> str:
        return " ".join((self.log, str(self.since), str(self.upto), *map(str, self.heads)))


def mark_of(text: str) -> Mark:
    """The inverse of `str(mark)`. Raises ValueError.

    Example: "9f3a 190 200 190 187 12 0 0 0" -> Mark("9f3a", 190, 200, (190, 187, 12, 0, 0, 0))
    """
    log, since, upto, *heads = text.split(" ")
    if len(heads) != len(KINDS):
        raise ValueError(f"a mark has {len(KINDS)} heads, not {len(heads)}")
    return Mark(log, int(since), int(upto), tuple(map(int, heads)))


class Status(msgspec.Struct, frozen=True):
    """How a run stands, as its publisher tells every second."""

    run: str
    state: State
    log: str
    heads: Heads
    owner: bool = True  # whether the run ends with this publisher
    digest: str = ""  # of the run's settings
    episodes: int = 0  # planned; 0: not known
    counts: dict[str, int] = {}  # records by kind, from the log's beginning
    at: float = 0.0  # Unix seconds


class Request(msgspec.Struct, frozen=True):
    """A follower wants what a log has of these kinds, each after its position."""

    log: str
    after: Heads
    kinds: SomeKinds

    @property
    def lowest(self) -> Position:
        """Up to where nothing is missing."""
        return min(self.after[_INDEX[kind]] for kind in self.kinds)


class Page(msgspec.Struct, frozen=True):
    """Everything that the log has of the wanted kinds in (after, upto]."""

    log: str
    after: Heads
    upto: Position
    end: bool  # this is as far as has been published
    records: list[tuple[Position, Record]]


class Parcel(msgspec.Struct, frozen=True):
    """A message of records, ready to be sent."""

    topic: str
    payload: bytearray
    mark: str
    num_records: int
    heads: Heads  # once this parcel is sent


_encoder = msgspec.msgpack.Encoder()
_status_decoder: msgspec.msgpack.Decoder[Status] = msgspec.msgpack.Decoder(Status)
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_page_decoder: msgspec.msgpack.Decoder[Page] = msgspec.msgpack.Decoder(Page)
_records_decoder: msgspec.msgpack.Decoder[Record | list[Record]] = msgspec.msgpack.Decoder(
    Record | list[Record]
)
encode = _encoder.encode
decode_status = _status_decoder.decode
decode_request = _request_decoder.decode
decode_page = _page_decoder.decode


def decode_records(payload: bytes) -> Sequence[Record]:
    """The records of a message. Raises msgspec.DecodeError."""
    records = _records_decoder.decode(payload)
    return (records,) if isinstance(records, Record) else records


def topic(run: str, *levels: str) -> str:
    """A topic of a run; what MQTT does not allow in a level is written %XX.

    Example: ("night", "step", "shop/1") -> "rehearse/night/step/shop%2F1"
    """
    return "/".join((ROOT, quote(run, safe=""), *(quote(level, safe="") for level in levels)))


def is_behind(have: Heads, heads: Heads, kinds: Sequence[Kind]) -> bool:
    """Whether something of these kinds is missing that `heads` tells of."""
    return any(heads[_INDEX[kind]] > have[_INDEX[kind]] for kind in kinds)


class Packer:
    """Turns positioned records into parcels, in an order that keeps each episode's."""

    def __init__(self, run: str, log: str, *, batch: int, position: Position = 0) -> None:
        self._run = run
        self._log = log
        self._batch = batch
        self.heads: Heads = (position,) * len(KINDS)  # what was packed, for each kind
        self.boundary: Position = position  # what was packed, of all kinds

    def pack(self, outbox: deque[tuple[Position, Record]]) -> list[Parcel]:
        """Take the next records from the outbox, as one parcel for each kind among them.

        Kinds are sent in the order started, step, summary, ended, judged; an attempt's records are
        in this order anyway, so it keeps its own. Only a step may come after a summary: it waits
        for the next parcels.
        """
        payloads: dict[str, bytearray] = {}
        counts: dict[str, int] = {}
        episodes: dict[str, str] = {}
        summed_up: set[str] = set()  # episodes with a summary among these records
        num_records = num_bytes = 0
        since = self.boundary
        while outbox and num_records < self._batch and num_bytes < MAX_BYTES:
            position, record = outbox[0]
            kind = kind_of(record.event)
            if kind == "summary":
                summed_up.add(record.episode)
            elif kind == "step" and record.episode in summed_up:
                break
            outbox.popleft()
            payload = payloads.setdefault(kind, bytearray(_ARRAY))
            before = len(payload)
            append_record(payload, position, record)
            counts[kind] = counts.get(kind, 0) + 1
            episodes[kind] = record.episode
            num_records += 1
            num_bytes += len(payload) - before
            self.boundary = position
        return [
            self._parcel(kind, since, payloads[kind], counts[kind], episodes[kind])
            for kind in KINDS
            if kind in payloads
        ]

    def _parcel(
        self, kind: str, since: Position, payload: bytearray, count: int, episode: str
    ) -> Parcel:
        mark = str(Mark(self._log, since, self.boundary, self.heads))
        index = _INDEX[kind]
        self.heads = (*self.heads[:index], self.boundary, *self.heads[index + 1 :])
        if count == 1:
            name = topic(self._run, kind, episode)
            return Parcel(name, payload[len(_ARRAY) :], mark, 1, self.heads)
        payload[1 : len(_ARRAY)] = count.to_bytes(4, "big")
        return Parcel(topic(self._run, kind, "_batch"), payload, mark, count, self.heads)


def append_record(payload: bytearray, position: Position, record: Record) -> None:
    """Append a record's MessagePack. What MessagePack cannot say of a model's reply is sent as the
    log stores it."""
    before = len(payload)
    try:
        _encoder.encode_into(record, payload, -1)
    except (OverflowError, UnicodeEncodeError):
        del payload[before:]
        _encoder.encode_into(record_of(row_of(position, record)), payload, -1)


def page_of(request: Request, rows: Sequence[tuple[Position, Record]], boundary: Position) -> bytes:
    """The answer to a request, encoded: as much of `rows` as was published and fits.

    `rows` are the log's next records after the request's lowest position; `boundary` was read
    before they were.
    """
    rows = [row for row in rows if row[0] <= boundary]
    while True:
        end = not rows or rows[-1][0] == boundary
        upto = boundary if end else rows[-1][0]
        wanted = [
            (position, record)
            for position, record in rows
            if (kind := kind_of(record.event)) in request.kinds
            and position > request.after[_INDEX[kind]]
        ]
        page = Page(request.log, request.after, max(upto, request.lowest), end, wanted)
        try:
            payload = _encoder.encode(page)
        except (OverflowError, UnicodeEncodeError):
            storable = [(at, record_of(row_of(at, record))) for at, record in wanted]
            payload = _encoder.encode(msgspec.structs.replace(page, records=storable))
        if len(payload) <= MAX_PAGE_BYTES or len(rows) == 1:
            return payload
        rows = rows[: len(rows) // 2]


class Ledger:
    """How far a follower has got in each log, which it wants from the beginning."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self._have: dict[str, Heads] = {}
        self._told: dict[str, Heads] = {}  # the furthest heads that each log told of

    def hear(self, log: str, heads: Heads) -> None:
        """A log tells how far it has been published."""
        self._have.setdefault(log, NOWHERE)
        told = self._told.get(log, NOWHERE)
        self._told[log] = tuple(map(max, told, heads))

    def behind(self) -> list[str]:
        """The logs of which something is missing."""
        return [
            log for log, told in self._told.items() if is_behind(self._have[log], told, self.kinds)
        ]

    def take(self, kind: str, mark: Mark) -> bool:
        """Whether a message's records are the next ones: neither known nor after a gap."""
        index = _INDEX[kind]
        self.hear(mark.log, (*mark.heads[:index], mark.upto, *mark.heads[index + 1 :]))
        have = self._have[mark.log]
        known = mark.since < have[index]  # all of it, or (after a page that was cut) a part
        if known or is_behind(have, mark.heads, self.kinds):
            return False
        self._have[mark.log] = (*have[:index], mark.upto, *have[index + 1 :])
        return True

    def forget(self, log: str) -> None:
        """This log is of no interest any more."""
        self._have.pop(log, None)
        self._told.pop(log, None)

    def request(self, log: str) -> Request:
        """What to ask a log for."""
        return Request(log, self._have[log], self.kinds)

    def take_page(self, page: Page) -> list[Record]:
        """The records of a page that are new here; none where the page does not follow on."""
        have = self._have.get(page.log)
        if have is None or is_behind(have, page.after, self.kinds):
            return []
        fresh = [
            record
            for position, record in page.records
            if position > have[_INDEX[kind_of(record.event)]]
        ]
        reached = (page.upto,) * len(KINDS)
        self._have[page.log] = tuple(map(max, have, reached))
        return fresh
