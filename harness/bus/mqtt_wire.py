"""The messages on the broker, and how delivery at least once becomes delivery exactly once.

By hand, because brokers lose records: of 5,000 QoS 1 messages that mosquitto 2.0.11 had
acknowledged, a subscriber that did not read meanwhile got 1,001, and one that comes late gets none.

    rehearse/<run>/<kind>/<episode>            one record, MessagePack
    rehearse/<run>/<kind>/_batch               an array of records of one kind
    rehearse/<run>/status                      the run's state (retained; last will: lost)
    rehearse/<run>/status/<log>                the same of a second publisher
    rehearse/<run>/catchup/<client>/here       a follower is connected (retained; last will: gone)
    rehearse/<run>/catchup/<client>/request    a follower requests missing records
    rehearse/<run>/catchup/<client>/answer     a page of the log for it
    rehearse/<run>/catchup/<client>/ask        it asks for run.toml, or for a scenario of the log
    rehearse/<run>/catchup/<client>/part       that part of the run

A publisher writes under its run and reads catchup; a follower reads the run, and writes under its
own catchup topics; a client that lists runs reads rehearse/+/status and writes rehearse/_probe. (A
broker reports to a client that it may not write; mosquitto does not report that it may not read.)

Each record has a position in its publisher's log: a number that grows, so that the order of
positions is the order within every episode. A message of records has a Mark: the log, the positions
that the message covers for its kind, and the heads: for each kind, the position up to which every
record had been sent before. A Ledger stores how far its follower has got, nine numbers for each
log, and decides for each message whether it is new, known, or follows a gap. A gap is filled from
the log. So whatever brokers and networks lose, repeat or reorder, the follower gets each
(episode, attempt, seq) once and in order, and its memory does not grow with the run.

A Packer sends up to a boundary that all kinds share, and catching up ends at such a boundary. So a
follower that has caught up gets no message of which it already has a part.
"""

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec

from rehearsal_room.harness.bus.local import KINDS
from rehearsal_room.harness.core.events import EventKind, Record, kind_of
from rehearsal_room.harness.log.schema import record_of, row_of

ROOT = "rehearse"
MAX_BYTES = 1 << 20  # of the records of one message, unless one record is larger
MAX_PAGE_BYTES = 4 << 20

Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Heads = Annotated[  # one position for each of KINDS
    tuple[Position, ...], msgspec.Meta(min_length=len(KINDS), max_length=len(KINDS))
]
SomeKinds = Annotated[tuple[EventKind, ...], msgspec.Meta(min_length=1)]
RunState = Literal["live", "ended", "lost"]

_INDEX: dict[str, int] = {kind: index for index, kind in enumerate(KINDS)}
_ARRAY = b"\xdd\0\0\0\0"  # head of a MessagePack array; its length, 32 bits, is filled in later
START: Heads = (0,) * len(KINDS)  # before the first record


class Mark(msgspec.Struct, frozen=True, gc=False):
    """The range that a message of records covers: all records of its kind in (since, upto]."""

    log: str
    since: Position
    upto: Position
    heads: Heads  # up to where each kind had been sent before this message

    def __str__(self) -> str:
        return " ".join((self.log, str(self.since), str(self.upto), *map(str, self.heads)))


def mark_of(text: str) -> Mark:
    """The mark in a text made by `str(mark)`. Raises ValueError.

    Example: "9f3a 190 200 190 187 0 0 0 0 0 0 0" ->
        Mark("9f3a", 190, 200, (190, 187, 0, 0, 0, 0, 0, 0, 0))
    """
    log, *numbers = text.split(" ")
    since, upto, *heads = map(int, numbers)
    if len(heads) != len(KINDS):
        raise ValueError(f"a mark has {len(KINDS)} heads, not {len(heads)}")
    if not all(0 <= position <= _MAX_POSITION for position in (since, upto, *heads)):
        raise ValueError("a mark has a position that no log has")
    return Mark(log, since, upto, tuple(heads))


# The name of a run, or of the verdicts on it (`<run>/judge/<log>`): followers name folders by it.
RunName = Annotated[
    str, msgspec.Meta(pattern=r"\A(?!(.*/)?\.{0,2}(/|\Z))[^\\\x00-\x1f\x7f]{1,500}\Z")
]


class RunStatus(msgspec.Struct, frozen=True):
    """The state of a run, which its publisher sends every second."""

    run: RunName
    state: RunState
    log: str
    heads: Heads  # up to where each kind has been sent
    owner: bool = True  # whether the run ends with this publisher
    digest: str = ""  # of the run's settings
    episodes: int = 0  # number planned; 0: not known
    counts: dict[str, int] = {}  # number of records by kind, from the start of the log
    at: float = 0.0  # Unix seconds
    judge: str = ""  # the run's setting `judge`; empty: not known


LOST = "lost"  # the mark of the message that the broker sends for a follower that is lost


class Presence(msgspec.Struct, frozen=True):
    """A follower that is there, as its retained message says."""

    copy: str = ""  # the id of the copy that it keeps; empty: it keeps none
    life: int = 0  # of how many followers of this copy it is the last


class RecordsRequest(msgspec.Struct, frozen=True):
    """A follower's request for the records of these kinds in a log, each after its position."""

    log: str
    after: Heads
    kinds: SomeKinds

    @property
    def lowest(self) -> Position:
        """The position up to which nothing is missing."""
        return min(self.after[_INDEX[kind]] for kind in self.kinds)


class RecordsPage(msgspec.Struct, frozen=True):
    """All records of the requested kinds that a log has in (after, upto]."""

    log: str
    after: Heads
    upto: Position
    end: bool  # whether nothing after `upto` has been published
    records: list[tuple[Position, Record]]


RUN_TOML = "run.toml"  # the name of this part of a run; that of a scenario is its digest


class PartRequest(msgspec.Struct, frozen=True):
    """A follower's request for a part of a run that is not among its records."""

    log: str
    part: str  # RUN_TOML, or the digest of a scenario package


class RunPart(msgspec.Struct, frozen=True):
    """A part of a run."""

    log: str
    part: str
    data: bytes | None  # run.toml, or an encoded ScenarioSnapshot; None: the run has no such part


class Parcel(msgspec.Struct, frozen=True):
    """A message of records, ready to be sent."""

    topic: str
    payload: bytearray
    mark: str
    num_records: int
    heads: Heads  # up to where each kind has been sent once this parcel is sent


# What decoding raises for bytes that somebody else wrote: also for text that is not UTF-8, and for
# arguments that are nested too deeply.
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
_MAX_POSITION = 2**63 - 1

_encoder = msgspec.msgpack.Encoder()
_status_decoder: msgspec.msgpack.Decoder[RunStatus] = msgspec.msgpack.Decoder(RunStatus)
_request_decoder: msgspec.msgpack.Decoder[RecordsRequest] = msgspec.msgpack.Decoder(RecordsRequest)
_page_decoder: msgspec.msgpack.Decoder[RecordsPage] = msgspec.msgpack.Decoder(RecordsPage)
_records_decoder: msgspec.msgpack.Decoder[Record | list[Record]] = msgspec.msgpack.Decoder(
    Record | list[Record]
)
encode = _encoder.encode
decode_status = _status_decoder.decode
decode_request = _request_decoder.decode
decode_page = _page_decoder.decode
_presence_decoder: msgspec.msgpack.Decoder[Presence] = msgspec.msgpack.Decoder(Presence)
decode_part_request = msgspec.msgpack.Decoder(PartRequest).decode
decode_part = msgspec.msgpack.Decoder(RunPart).decode


def decode_presence(payload: bytes) -> Presence:
    """What a follower says of itself; one that can be read in no other way is a visitor.

    Example: b"here" -> Presence()
    """
    try:
        return _presence_decoder.decode(payload)
    except UNREADABLE:
        return Presence()


def decode_records(payload: bytes) -> Sequence[Record]:
    """The records of a message. Raises msgspec.DecodeError."""
    records = _records_decoder.decode(payload)
    return (records,) if isinstance(records, Record) else records


def topic(run: str, *levels: str) -> str:
    """A topic of a run; characters that MQTT does not allow in a level become %XX.

    Example: ("night", "step", "shop/1") -> "rehearse/night/step/shop%2F1"
    """
    return "/".join((ROOT, quote(run, safe=""), *(quote(level, safe="") for level in levels)))


def is_behind(have: Heads, heads: Heads, kinds: Sequence[EventKind]) -> bool:
    """Whether records of these kinds are missing that `heads` covers."""
    return any(heads[_INDEX[kind]] > have[_INDEX[kind]] for kind in kinds)


class Packer:
    """Turns records with positions into parcels; the records of each episode stay in order."""

    def __init__(self, run: str, log: str, *, batch: int, position: Position = 0) -> None:
        self._run = run
        self._log = log
        self._batch = batch
        self.heads: Heads = (position,) * len(KINDS)  # up to where each kind has been packed
        self.boundary: Position = position  # up to where all kinds have been packed

    def pack(self, outbox: deque[tuple[Position, Record]]) -> list[Parcel]:
        """Take the next records from the outbox, as one parcel for each kind among them.

        Kinds are sent in the order of KINDS, which must be that of each attempt's records. A record
        whose kind comes before that of its predecessor, as a step after a summary, waits for the
        next parcels.
        """
        payloads: dict[str, bytearray] = {}
        counts: dict[str, int] = {}
        episodes: dict[str, str] = {}
        latest: dict[tuple[str, int], int] = {}  # attempt -> the place of its latest kind
        num_records = num_bytes = 0
        since = self.boundary
        while outbox and num_records < self._batch and num_bytes < MAX_BYTES:
            position, record = outbox[0]
            kind = kind_of(record.event)
            place, attempt = _INDEX[kind], (record.episode, record.attempt)
            if place < latest.get(attempt, 0):
                break
            latest[attempt] = place
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
    """Append a record as MessagePack. Values that MessagePack cannot hold are sent in the form in
    which the log stores them."""
    before = len(payload)
    try:
        _encoder.encode_into(record, payload, -1)
    except (OverflowError, UnicodeEncodeError):
        del payload[before:]
        _encoder.encode_into(record_of(row_of(position, record)), payload, -1)


def page_of(
    request: RecordsRequest, rows: Sequence[tuple[Position, Record]], boundary: Position
) -> bytes:
    """The encoded answer to a request: the part of `rows` that is published and fits.

    `rows` are the log's next records after the request's lowest position; `boundary` was read
    before them.
    """
    rows = [row for row in rows if row[0] <= boundary]
    while True:
        end = not rows or rows[-1][0] == boundary
        upto = boundary if end else rows[-1][0]
        requested = [
            (position, record)
            for position, record in rows
            if (kind := kind_of(record.event)) in request.kinds
            and position > request.after[_INDEX[kind]]
        ]
        page = RecordsPage(request.log, request.after, max(upto, request.lowest), end, requested)
        try:
            payload = _encoder.encode(page)
        except (OverflowError, UnicodeEncodeError):
            stored = [(at, record_of(row_of(at, record))) for at, record in requested]
            payload = _encoder.encode(msgspec.structs.replace(page, records=stored))
        if len(payload) <= MAX_PAGE_BYTES or len(rows) == 1:
            return payload
        rows = rows[: len(rows) // 2]


class FollowedPositions:
    """How far a follower has got in each log, which it follows from the beginning."""

    def __init__(self, kinds: Sequence[EventKind]) -> None:
        self.kinds = tuple(kinds)
        self._have: dict[str, Heads] = {}  # up to where each kind has been received, by log
        self._published: dict[str, Heads] = {}  # up to where each kind is known to be published

    def resume(self, log: str, have: Heads) -> None:
        """Follow a log from where this follower had got before, not from the beginning."""
        self._have[log] = have

    def have(self, log: str) -> Heads:
        """Up to where each kind of a log has been received."""
        return self._have.get(log, START)

    def note_published(self, log: str, heads: Heads) -> None:
        """Note up to where each kind of a log has been published."""
        self._have.setdefault(log, START)
        before = self._published.get(log, START)
        self._published[log] = tuple(map(max, before, heads))

    def incomplete_logs(self) -> list[str]:
        """The logs of which records are missing."""
        return [
            log
            for log, heads in self._published.items()
            if is_behind(self._have[log], heads, self.kinds)
        ]

    def accept(self, kind: str, mark: Mark) -> bool:
        """Whether the records of a message are the next ones, neither known nor after a gap;
        then count them as received."""
        index = _INDEX[kind]
        heads = (*mark.heads[:index], mark.upto, *mark.heads[index + 1 :])
        self.note_published(mark.log, heads)
        have = self._have[mark.log]
        is_known = mark.since < have[index]  # in full, or (after a page that was cut) in part
        if is_known or is_behind(have, mark.heads, self.kinds):
            return False
        self._have[mark.log] = (*have[:index], mark.upto, *have[index + 1 :])
        return True

    def forget(self, log: str) -> None:
        """Stop following a log."""
        self._have.pop(log, None)
        self._published.pop(log, None)

    def request(self, log: str) -> RecordsRequest:
        """The request for the missing records of a log."""
        return RecordsRequest(log, self._have[log], self.kinds)

    def accept_page(self, page: RecordsPage) -> list[Record]:
        """The new records of a page, which count as received then; none where there is a gap
        before the page."""
        have = self._have.get(page.log)
        if have is None or is_behind(have, page.after, self.kinds):
            return []
        new = [
            record
            for position, record in page.records
            if position > have[_INDEX[kind_of(record.event)]]
        ]
        covered = (page.upto,) * len(KINDS)
        self._have[page.log] = tuple(map(max, have, covered))
        return new
