"""OTLP's requests in protobuf, by the messages of OpenTelemetry (extra otlp)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class SentScope(NamedTuple):
    """The spans of one library, as OTLP's JSON has them, but for their ids, which are base64."""

    sender: dict[str, Any]  # the resource; empty where it is too long
    name: str
    spans: Iterator[dict[str, Any] | None]  # None for one that is too long


def scopes_in(data: bytes, longest: int) -> Iterator[SentScope]:
    """The spans of a request, by library; what has more bytes than `longest` is not read. Raises
    ValueError."""
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError as exc:
        raise ValueError(str(exc)) from exc
    for resource in request.resource_spans:
        sender = _built(resource.resource, longest) or {}
        for scope in resource.scope_spans:
            spans = (_built(span, longest) for span in scope.spans)
            yield SentScope(sender, scope.scope.name, spans)


def _built(message: Message, longest: int) -> dict[str, Any] | None:
    if message.ByteSize() > longest:
        return None
    found: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    return found
