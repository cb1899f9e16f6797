"""Spans as the OpenTelemetry SDK has them, and their encoding in protobuf.

A request is an `ExportTraceServiceRequest`. Its only field is a repeated one, so the bytes of
several requests, one after the other, are again one request: a file can be written in parts.
"""

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from rehearsal_room.interop.otlp.spans import Span
from rehearsal_room.scenarios import distribution

SpanRequest = Sequence[ReadableSpan]  # the spans of one request
_MAX_SPANS = 512  # of a request
_MAX_BYTES = 1 << 20  # of a request, unless one span is larger; collectors refuse long bodies
_SERVICE = "rehearsal"


class SpanBatch:
    """Collects the spans of a run for the next requests."""

    def __init__(self, run: str) -> None:
        version = distribution.version()
        self._resource = Resource(
            {"service.name": _SERVICE, "service.version": version, "rehearsal.run": run}
        )
        self._scope = InstrumentationScope(_SERVICE, version)
        self._spans: list[ReadableSpan] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Whether no span waits."""
        return not self._spans

    def add(self, spans: Iterable[Span]) -> Iterator[SpanRequest]:
        """Add spans; yield each request that is full."""
        for span in spans:
            size = _size_of(span)
            if self._spans and self._size + size > _MAX_BYTES:
                yield self.take()
            self._spans.append(self._readable(span))
            self._size += size
            if len(self._spans) >= _MAX_SPANS:
                yield self.take()

    def take(self) -> SpanRequest:
        """The request with the spans that wait."""
        spans, self._spans, self._size = self._spans, [], 0
        return spans

    def _readable(self, span: Span) -> ReadableSpan:
        failed = span.error is not None
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if failed else Status(),
            start_time=_nanoseconds(span.began),
            end_time=_nanoseconds(span.ended),
            instrumentation_scope=self._scope,
        )


def bytes_of(request: SpanRequest) -> bytes:
    """A request in protobuf; empty, where it has no spans."""
    data: bytes = encode_spans(request).SerializeToString()
    return data


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


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    return SpanContext(int.from_bytes(trace_id), int.from_bytes(span_id), is_remote=False)


def _size_of(span: Span) -> int:
    """About the bytes of a span in protobuf: those of its texts, and 20 for each other part."""
    texts = [span.name, span.error or "", *span.attributes, *map(str, span.attributes.values())]
    return sum(len(text.encode()) + 20 for text in texts)


def _nanoseconds(at: float) -> int:
    return max(0, round(at * 1e6) * 1_000)  # a float has no nanoseconds of today
