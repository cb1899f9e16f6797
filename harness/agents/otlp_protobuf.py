"""OTLP's requests in protobuf, by the messages of OpenTelemetry (extra otlp)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Built = Callable[[], dict[str, Any]]  # makes a message as OTLP's JSON has it; ids are base64


class SentScope(NamedTuple):
    """The spans of one library."""

    sender: Built  # the resource
    name: str
    spans: Iterator[Built | None]  # None for one that is too long


def scopes_in(data: bytes, *, longest: int, attributes: int, events: int) -> Iterator[SentScope]:
    """The spans of a request, by library: each of at most `longest` bytes, with at most so many
    attributes and events. Raises ValueError."""
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError as exc:
        raise ValueError(str(exc)) from exc

    def span(message: Any) -> dict[str, Any]:
        # Cut before it is built, which takes 4 µs for each part: the sender chooses their number.
        del message.links[:], message.attributes[attributes:], message.events[events:]
        for event in message.events:
            del event.attributes[attributes:]
        return _built(message)

    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            if not scope.spans:
                continue
            sender = partial(_built, resource.resource)
            if resource.resource.ByteSize() > longest:
                sender = partial(dict[str, Any])
            spans = (
                None if one.ByteSize() > longest else partial(span, one) for one in scope.spans
            )
            yield SentScope(sender, scope.scope.name, spans)


def _built(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    return found
