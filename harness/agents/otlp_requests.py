"""Reads what an OpenTelemetry SDK sends: spans as OTLP has them, in protobuf or JSON.

https://opentelemetry.io/docs/specs/otlp/ and the messages of opentelemetry-proto 1.x. Protobuf
needs the package opentelemetry-proto (extra otlp).

What is kept of a span is bounded, since anybody's program sends it and its texts repeat the
conversation that the log has already. Of the sender (its resource) only the name is kept, and
captured HTTP headers, which may have keys in them, are not.
"""

import binascii
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from math import isfinite
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from rehearsal_room.harness.core.events import AgentSpan, AttributeValue, SpanEvent
from rehearsal_room.scenarios.core.short_text import shortened

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MAX_BODY = 8 << 20  # bytes of a request, unpacked
_MAX_PART = 1 << 20  # bytes of a span as it is sent, and of what is said of its sender
_MAX_TEXT = 1_000  # characters
_MAX_NAME = 200
_MAX_ATTRIBUTES = 64  # of a span, and of each of its events
_MAX_EVENTS = 16  # of a span
_NO_PROTOBUF = (
    "spans in protobuf need the package opentelemetry-proto where the run was started: "
    "pip install 'rehearsal-room[otlp]'; or send JSON (OTEL_EXPORTER_OTLP_PROTOCOL=http/json)"
)
_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_HEADERS = ("http.request.header.", "http.response.header.")


@cache
def span_protocol() -> str:
    """The form of spans that this process can read for certain, in the words of
    OTEL_EXPORTER_OTLP_PROTOCOL."""
    has_messages = find_spec("opentelemetry") and find_spec("opentelemetry.proto")
    return "http/protobuf" if has_messages else "http/json"


class OtlpRefused(Exception):
    """A request is refused with this HTTP status; the message is one sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class SpansRead(msgspec.Struct, frozen=True):
    """The spans of one request."""

    spans: list[AgentSpan]
    left_out: int  # spans that there is no room for
    num_bytes: int  # of the request, unpacked


def read_spans(body: bytes, *, kind: str, packing: str, room: int) -> SpansRead:
    """The spans of a request, of which at most `room` are read. `kind` is its Content-Type and
    `packing` its Content-Encoding. Raises OtlpRefused."""
    if kind not in (PROTOBUF, JSON):
        raise OtlpRefused(415, f"the Content-Type is {kind[:60]!r}, not {PROTOBUF} or {JSON}")
    data = _unpacked(body, packing)
    spans, left_out = list[AgentSpan](), 0
    try:
        for sent in _sent_in_protobuf(data) if kind == PROTOBUF else _sent_in_json(data):
            if len(spans) == room or sent is None:
                left_out += 1
            else:
                spans.append(sent().made())
    except ValueError as exc:  # of msgspec's, or bytes that are not UTF-8
        raise OtlpRefused(400, f"the body is not a request of OTLP: {exc}") from exc
    except RecursionError as exc:
        raise OtlpRefused(400, "the body is nested too deeply") from exc
    return SpansRead(spans, left_out, len(data))


def partial_success(left_out: int, why: str, kind: str) -> bytes:
    """The answer to a request of which so many spans are left out."""
    if kind == JSON:
        partial = {"rejectedSpans": str(left_out), "errorMessage": why}
        return msgspec.json.encode({"partialSuccess": partial})
    return _field(1, b"\x08" + _number(left_out) + _field(2, why.encode()))


def status_message(why: str, kind: str) -> bytes:
    """The body of a refusal: a google.rpc.Status."""
    return _field(2, why.encode()) if kind == PROTOBUF else msgspec.json.encode({"message": why})


def _field(number: int, data: bytes) -> bytes:
    """A field of a message in protobuf whose value is bytes."""
    return bytes([number << 3 | 2]) + _number(len(data)) + data


def _number(value: int) -> bytes:
    """A number as protobuf writes it, seven bits a byte.

    Example: 300 -> b"\\xac\\x02"
    """
    low = [value >> shift & 127 | 128 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*low[:-1], low[-1] & 127])


def _unpacked(body: bytes, packing: str) -> bytes:
    if packing not in ("", "identity", "gzip"):
        raise OtlpRefused(415, f"the Content-Encoding is {packing[:60]!r}, not gzip")
    data, is_whole = body, True
    if packing == "gzip":
        unpacker = zlib.decompressobj(wbits=31)
        try:
            data = unpacker.decompress(body, MAX_BODY + 1)
        except zlib.error as exc:
            raise OtlpRefused(400, f"the body is not gzip: {exc}") from exc
        is_whole = unpacker.eof and not unpacker.unused_data
    if len(data) > MAX_BODY:
        raise OtlpRefused(413, f"the body has more than {MAX_BODY >> 20} MiB; send fewer spans")
    if not is_whole:
        raise OtlpRefused(400, "the body is not one complete gzip stream")
    return data


class _Value(msgspec.Struct, frozen=True, rename="camel"):
    """An AnyValue."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | None = None
    double_value: float | None = None
    bytes_value: str | None = None
    array_value: "_Values | None" = None
    kvlist_value: "_Pairs | None" = None

    def built(self) -> Any:
        """The value as builtin data; None: it has none."""
        if self.array_value is not None:
            return [one.built() for one in self.array_value.values]
        if self.kvlist_value is not None:
            return {one.key: one.value.built() for one in self.kvlist_value.values}
        if self.bytes_value is not None:
            return f"{len(self.bytes_value) * 3 // 4} bytes"
        if self.double_value is not None:
            return self.double_value if isfinite(self.double_value) else str(self.double_value)
        if self.int_value is not None:
            is_small = -(2**63) <= self.int_value < 2**63
            return self.int_value if is_small else str(self.int_value)
        return self.string_value if self.bool_value is None else self.bool_value


class _Values(msgspec.Struct, frozen=True):
    values: tuple[_Value, ...] = ()


class _Attribute(msgspec.Struct, frozen=True):
    key: str = ""
    value: _Value = _Value()


class _Pairs(msgspec.Struct, frozen=True):
    values: tuple[_Attribute, ...] = ()


_Time = Annotated[int, Meta(ge=0)]  # Unix nanoseconds


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    time_unix_nano: _Time = 0
    name: str = ""
    attributes: tuple[_Attribute, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    code: int = 0


class _Scope(msgspec.Struct, frozen=True):
    name: str = ""


class _Resource(msgspec.Struct, frozen=True):
    attributes: tuple[_Attribute, ...] = ()


class _Span(msgspec.Struct, frozen=True, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    start_time_unix_nano: _Time = 0
    end_time_unix_nano: _Time = 0
    attributes: tuple[_Attribute, ...] = ()
    events: tuple[_Event, ...] = ()
    status: _Status = _Status()


class _Sent(msgspec.Struct, frozen=True):
    """A span, and who sent it."""

    span: _Span
    scope: str
    service: str
    ids_in: str  # base64 or hex

    def made(self) -> AgentSpan:
        """The span as the log has it. Raises OtlpRefused for ids that are none."""
        one = self.span
        began = _seconds(one.start_time_unix_nano)
        code = one.status.code
        return AgentSpan(
            trace=self._id("traceId", one.trace_id, 16),
            id=self._id("spanId", one.span_id, 8),
            name=shortened(one.name, _MAX_NAME),
            began=began,
            seconds=max(0.0, _seconds(one.end_time_unix_nano) - began),
            parent=self._id("parentSpanId", one.parent_span_id, 8) if one.parent_span_id else "",
            kind=_KINDS[one.kind] if 0 <= one.kind < len(_KINDS) else "",
            status="error" if code == 2 else "ok" if code == 1 else "",
            message=shortened(one.status.message, _MAX_TEXT),
            attributes=_attributes(one.attributes),
            events=tuple(
                [
                    SpanEvent(
                        shortened(event.name, _MAX_NAME),
                        _seconds(event.time_unix_nano) - began,
                        _attributes(event.attributes),
                    )
                    for event in one.events[:_MAX_EVENTS]
                ]
            ),
            scope=self.scope,
            service=self.service,
        )

    def _id(self, field: str, sent: str, size: int) -> str:
        try:
            found = (bytes.fromhex if self.ids_in == "hex" else binascii.a2b_base64)(sent)
        except ValueError:
            found = b""
        if len(found) != size or not any(found):
            about = f"{field} of the span {shortened(self.span.name, 60)!r}"
            found_size = f"it has {len(found)}" if found else f"{sent[:40]!r} is none"
            raise OtlpRefused(400, f"{about}: expected {size} bytes, not all zero; {found_size}")
        return found.hex()


def _seconds(nanoseconds: int) -> float:
    return min(nanoseconds, 2**64) / 1e9


def _attributes(sent: Iterable[_Attribute]) -> dict[str, AttributeValue]:
    kept: dict[str, AttributeValue] = {}
    for one in sent:
        if len(kept) == _MAX_ATTRIBUTES:
            break
        value = one.value.built()
        if value is None or one.key.startswith(_HEADERS):
            continue
        if isinstance(value, list | dict):
            value = msgspec.json.encode(value).decode()
        kept[shortened(one.key, _MAX_NAME)] = (
            shortened(value, _MAX_TEXT) if isinstance(value, str) else value
        )
    return kept


def _service_of(resource: _Resource) -> str:
    named = [one for one in resource.attributes if one.key == "service.name"]
    return shortened(str(_attributes(named).get("service.name", "")), _MAX_NAME)


class _JsonScope(msgspec.Struct, frozen=True):
    scope: _Scope = _Scope()
    spans: tuple[Raw, ...] = ()


class _JsonResource(msgspec.Struct, frozen=True, rename="camel"):
    resource: Raw = Raw(b"{}")
    scope_spans: tuple[_JsonScope, ...] = ()


class _JsonRequest(msgspec.Struct, frozen=True, rename="camel"):
    resource_spans: tuple[_JsonResource, ...] = ()


_request_in_json = msgspec.json.Decoder(_JsonRequest, strict=False)
_resource_in_json = msgspec.json.Decoder(_Resource, strict=False)
_span_in_json = msgspec.json.Decoder(_Span, strict=False)


_Build = Callable[[], dict[str, Any]]
_Read = Callable[[], _Sent]


def _sent_in_json(data: bytes) -> Iterator[_Read | None]:
    """What reads each span of a request; None for one that is too long."""
    for resource in _request_in_json.decode(data).resource_spans:
        sender = resource.resource
        if len(memoryview(sender)) > _MAX_PART:
            sender = Raw(b"{}")
        for scope in resource.scope_spans:
            name = shortened(scope.scope.name, _MAX_NAME)
            for raw in scope.spans:
                is_long = len(memoryview(raw)) > _MAX_PART
                yield None if is_long else partial(_read_json, raw, name, sender)


def _read_json(raw: Raw, name: str, sender: Raw) -> _Sent:
    service = _service_of(_resource_in_json.decode(sender))
    return _Sent(_span_in_json.decode(raw), name, service, "hex")


def _sent_in_protobuf(data: bytes) -> Iterator[_Read | None]:
    """The same in protobuf. Raises OtlpRefused."""
    try:
        from rehearsal_room.harness.agents.otlp_protobuf import scopes_in
    except ImportError as exc:
        raise OtlpRefused(415, _NO_PROTOBUF) from exc
    limits = {"longest": _MAX_PART, "attributes": _MAX_ATTRIBUTES, "events": _MAX_EVENTS}
    try:
        for scope in scopes_in(data, **limits):
            name = shortened(scope.name, _MAX_NAME)
            for build in scope.spans:
                yield None if build is None else partial(_read_built, build, name, scope.sender)
    except ValueError as exc:
        raise OtlpRefused(400, f"the body is not a request of OTLP in protobuf: {exc}") from exc


def _read_built(build: _Build, name: str, sender: _Build) -> _Sent:
    service = _service_of(msgspec.convert(sender(), _Resource, strict=False))
    return _Sent(msgspec.convert(build(), _Span, strict=False), name, service, "base64")
