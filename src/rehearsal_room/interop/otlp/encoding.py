"""OTLP's encoding of spans: protobuf messages of the package opentelemetry-proto.

A request is an `ExportTraceServiceRequest`. Its only field is a repeated one, so the bytes of
several requests, one after the other, are again one request: a file can be written in parts.
"""

from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from rehearsal_room.interop.otlp.spans import AttributeValue, Span
from rehearsal_room.scenarios import distribution

_MAX_SPANS = 512  # of a request
_MAX_BYTES = 1 << 20  # of a request, unless one span is larger; collectors refuse long bodies
_SERVICE = "rehearsal"


class SpanBatch:
    """Collects the spans of a run for the next requests."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._request, self._spans = self._new()
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Whether no span waits."""
        return not self._spans

    def add(self, spans: Iterable[Span]) -> Iterator[bytes]:
        """Add spans; yield each request that is full."""
        for span in spans:
            encoded = _proto_of(span)
            size = encoded.ByteSize()
            if self._spans and self._size + size > _MAX_BYTES:
                yield self.take()
            self._spans.append(encoded)
            self._size += size
            if len(self._spans) >= _MAX_SPANS:
                yield self.take()

    def take(self) -> bytes:
        """The request with the spans that wait; empty, where none does."""
        data = self._request.SerializeToString() if self._spans else b""
        self._request, self._spans = self._new()
        self._size = 0
        return data

    def _new(self) -> tuple[ExportTraceServiceRequest, RepeatedCompositeFieldContainer[ProtoSpan]]:
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        resource = {
            "service.name": _SERVICE,
            "service.version": distribution.version(),
            "rehearsal.run": self._run,
        }
        resource_spans.resource.attributes.extend(_attributes(resource))
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = _SERVICE
        scope_spans.scope.version = distribution.version()
        return request, scope_spans.spans


def refusal_in(body: bytes) -> str:
    """Why a collector refused some spans of an accepted request; empty: it did not, or its answer
    is not OTLP's."""
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return ""
    if not partial.rejected_spans:
        return ""
    return f"{partial.rejected_spans:,} spans: {partial.error_message or 'no reason was given'}"


def _proto_of(span: Span) -> ProtoSpan:
    status = None
    if span.error is not None:
        status = Status(code=Status.STATUS_CODE_ERROR, message=span.error)
    return ProtoSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        name=span.name,
        kind=ProtoSpan.SPAN_KIND_CLIENT if span.is_client else ProtoSpan.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(span.began),
        end_time_unix_nano=_nanoseconds(span.ended),
        attributes=_attributes(span.attributes),
        status=status,
    )


def _nanoseconds(at: float) -> int:
    return max(0, round(at * 1e6) * 1_000)  # a float has no nanoseconds of today


def _attributes(values: Mapping[str, AttributeValue]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value_of(value)) for name, value in values.items()]


def _value_of(value: AttributeValue) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=[_value_of(each) for each in value]))
