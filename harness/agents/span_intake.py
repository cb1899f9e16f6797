"""Takes the spans that agents send to their episodes (OTLP over HTTP): bounded, and logged once.

An episode's spans are one fact, recorded at its end. A request is answered as OTLP has it: what
there is no room for is a partial success, what cannot be read is refused by a status and a
sentence, and nothing that is refused here is asked for again by an SDK.
"""

from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
import structlog

from rehearsal_room.envpool.server.guard import Headers
from rehearsal_room.harness.agents.otlp_requests import (
    JSON,
    PROTOBUF,
    OtlpRefused,
    SpansRead,
    partial_success,
    read_spans,
    status_message,
)
from rehearsal_room.harness.core.events import AgentSpan, AgentSpans, encode

_MAX_SPANS = 2_000  # of an episode
_MAX_KEPT = 1 << 20  # bytes of an episode's spans in the log
_MAX_SENT = 32 << 20  # bytes of an episode's requests, unpacked
_MAX_REFUSED = 100  # requests of an episode
_MAX_LATE = 1_000  # requests whose spans are counted
_MAX_ENDED = 1_024  # episodes whose late spans are still counted
_FULL = f"an episode has at most {_MAX_SPANS:,} spans, of {_MAX_KEPT >> 10:,} KiB together"

LATE = "the episode has ended: flush the spans before the agent ends"

_log = structlog.get_logger(__name__)


class SpanAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    kind: str  # the Content-Type


class EpisodeSpans:
    """The spans of one episode."""

    __slots__ = ("_left_out", "_num_kept", "_num_refused", "_spans", "_why", "is_over", "num_sent")

    def __init__(self) -> None:
        self.is_over = False
        self.num_sent = 0  # bytes
        self._spans: dict[tuple[str, str], AgentSpan] = {}
        self._num_kept = 0  # bytes
        self._left_out = 0
        self._num_refused = 0
        self._why = ""

    def __repr__(self) -> str:
        return f"<EpisodeSpans [{len(self._spans)}]>"

    @property
    def room(self) -> int:
        """How many spans of a request are read: some may be there already."""
        return _MAX_SPANS if len(self._spans) < _MAX_SPANS else 0

    def require_room(self, num_bytes: int) -> None:
        """Raise OtlpRefused where the episode has sent so much that this is not even read."""
        why = ""
        if self.num_sent + num_bytes > _MAX_SENT:
            why = f"the spans of this episode have more than {_MAX_SENT >> 20} MiB"
        elif self._num_refused >= _MAX_REFUSED:
            why = f"{_MAX_REFUSED} requests of this episode could not be read"
        if why:
            raise OtlpRefused(413, f"{why}, and no more are taken")

    def add(self, read: SpansRead) -> int:
        """Add the spans of a request, those that are sent again once; return how many there is no
        room for."""
        self.num_sent += read.num_bytes
        left_out = read.left_out
        for span in read.spans:
            key, size = (span.trace, span.id), len(encode(span))
            if key in self._spans:
                continue
            if len(self._spans) == _MAX_SPANS or self._num_kept + size > _MAX_KEPT:
                left_out += 1
            else:
                self._spans[key] = span
                self._num_kept += size
        self._left_out += left_out
        return left_out

    def refuse(self, why: str) -> None:
        """Count a request that was refused."""
        self._num_refused += 1
        self._why = why

    def close(self) -> AgentSpans | None:
        """Take no more; return what came, None: nothing did."""
        self.is_over = True
        found = AgentSpans(
            tuple(self._spans.values()), self._left_out, self._num_refused, self._why
        )
        return None if found == AgentSpans() else found


class SpanIntake:
    """Reads the requests of all episodes of a run, one at a time, so that they take little time
    and memory from it however many come."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._ended: dict[str, None] = {}  # keys of episodes, the latest last
        self._num_late = 0  # spans
        self._num_requests = 0  # with them

    def ended(self, key: str) -> None:
        """Remember that an episode has ended."""
        self._ended[key] = None
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def has_ended(self, key: str) -> bool:
        """Whether this was the key of an episode."""
        return key in self._ended

    async def take(self, spans: EpisodeSpans, headers: Headers, body: bytes) -> SpanAnswer:
        """Add the spans of a request to those of its episode; the answer to it."""
        kind = _answered_in(headers)
        async with self._turn:
            try:
                spans.require_room(len(body))
                read = await self._read(headers, body, spans.room)
            except OtlpRefused as exc:
                if spans.is_over:
                    self._count(0)
                else:
                    spans.refuse(str(exc))
                return SpanAnswer(exc.status, status_message(str(exc), kind), kind)
            if spans.is_over:
                self._count(len(read.spans) + read.left_out)
                return SpanAnswer(410, status_message(LATE, kind), kind)
            left_out = spans.add(read)
        if not left_out:
            return accepted(headers)
        return SpanAnswer(200, partial_success(left_out, _FULL, kind), kind)

    async def count_late(self, headers: Headers, body: bytes) -> None:
        """Count the spans of a request that came after the end of its episode."""
        async with self._turn:
            if self._num_requests >= _MAX_LATE:
                self._count(0)
                return
            try:
                self._count((await self._read(headers, body, 0)).left_out)
            except OtlpRefused:
                self._count(0)

    def report_late(self) -> None:
        """Say how many spans came too late, if any did."""
        if self._num_requests:
            _log.warning(
                "spans_after_the_end",
                spans=self._num_late,
                requests=self._num_requests,
                why="their episodes had ended, so they are not logged; an agent that is a function "
                "has to flush its spans before it returns",
            )

    def _count(self, num_late: int) -> None:
        self._num_late += num_late
        self._num_requests += 1

    async def _read(self, headers: Headers, body: bytes, room: int) -> SpansRead:
        read = partial(
            read_spans,
            body,
            kind=_kind_of(headers),
            packing=headers.get(b"content-encoding", b"").decode("latin-1").strip().lower(),
            room=room,
        )
        return await anyio.to_thread.run_sync(read)


def accepted(headers: Headers) -> SpanAnswer:
    """The answer to a request of OTLP all of which is accepted."""
    kind = _answered_in(headers)
    return SpanAnswer(200, b"{}" if kind == JSON else b"", kind)


def _kind_of(headers: Headers) -> str:
    """The media type of a request."""
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


def _answered_in(headers: Headers) -> str:
    """The media type of the answer."""
    return PROTOBUF if _kind_of(headers) == PROTOBUF else JSON
