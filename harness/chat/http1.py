"""HTTP/1.1 responses from bytes, without any I/O (RFC 9112), parsed by httptools.

Covers bodies by Content-Length, in chunks (trailers are dropped) and up to the end of the
connection, and interim 1xx responses, which are skipped. Does not cover content encodings, which
the client never accepts, upgrades (101), and responses to HEAD and CONNECT.
"""

from typing import Protocol

import httptools
import msgspec

from rehearsal_room.harness.chat.answer_limits import AnswerBudget, AnswerLimits, AnswerMeter

MAX_HEAD = 64 * 1024  # bytes
# Values of Content-Encoding that name none; some servers name the charset there.
_NO_CODING = frozenset({"", "identity", "none", "utf-8", "utf8"})


class BadResponse(Exception):
    """The bytes are not an HTTP/1.1 response that this client can read."""


class ModelResponse(msgspec.Struct, frozen=True, gc=False):
    """One whole response."""

    status: int
    headers: dict[str, str]  # by lower-case name; values of one name are joined by commas
    body: bytes
    keep_alive: bool  # whether the connection can be used for another request


class BodyWatch(Protocol):
    """Sees the body of an answer while it arrives."""

    def feed(self, data: bytes) -> None:
        """The next bytes have arrived."""


class ResponseReader:
    """Reads the responses of one connection, one after the other.

    `budget` limits their bodies, with what they hold of it until `close`; None: the usual limits,
    for this connection alone. The methods `on_…` are called by the parser.

    Example: feed(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi") ->
        Response(200, {"content-length": "2"}, b"hi", True)
    """

    __slots__ = (
        *("_body", "_ends_with_connection", "_fault", "_has_surplus", "_headers", "_is_in_body"),
        *("_keep_alive", "_limits", "_meter", "_num_received", "_parser", "_response", "_status"),
        "watch",
    )

    def __init__(self, budget: AnswerBudget | None = None) -> None:
        budget = budget or AnswerBudget(AnswerLimits())
        self._limits = budget.limits
        self._meter = AnswerMeter(budget)
        self.watch: BodyWatch | None = None  # sees the bodies of status 2xx
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        # An array grows in place: a million chunks of one byte take a megabyte, and not a hundred.
        self._body: bytes | bytearray = b""
        self._status = 0
        self._keep_alive = False
        self._is_in_body = False  # whether the head is complete
        self._ends_with_connection = False  # whether only the connection's end ends the body
        self._response: ModelResponse | None = None  # complete, but not yet returned by `feed`
        self._has_surplus = False  # whether bytes followed the response
        self._num_received = 0  # bytes of the response so far
        self._fault = ""  # why a callback refused the response

    @property
    def is_between_responses(self) -> bool:
        """Whether no byte of the next response has arrived."""
        return self._num_received == 0

    def feed(self, data: bytes) -> ModelResponse | None:
        """Take the next bytes; return the response once it is complete. Raises BadResponse."""
        self._num_received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if self._response is None:
                raise BadResponse(self._fault or _describe(exc, data)) from exc
            self._has_surplus = True
        response = self._response
        if response is None:
            self._check_size()
            return None
        self._response = None
        self._num_received = 0
        self._meter.end()
        if self._has_surplus:  # it could be taken for the next response
            return msgspec.structs.replace(response, keep_alive=False)
        return response

    def end(self) -> ModelResponse | None:
        """The response that the end of the connection completes, if there is one."""
        if not self._is_in_body or not self._ends_with_connection:
            return None
        return ModelResponse(self._status, self._headers, bytes(self._body), False)

    def close(self) -> None:
        """Give back what the budget holds for an answer that is not complete."""
        self._meter.end()

    def on_message_begin(self) -> None:
        self._has_surplus = self._response is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body:  # a trailer
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")
        headers = self._headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self._headers
        self._status = status = parser.get_status_code()
        version = parser.get_http_version()
        if not 100 <= status <= 599 or version not in ("1.1", "1.0"):
            self._refuse(f"HTTP/{version} with status {status} (expected HTTP/1.1, 100 to 599)")
        if "content-encoding" in headers and (fault := coding_fault(headers["content-encoding"])):
            self._refuse(fault)
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            self._refuse(f"transfer-encoding {coding!r} is not supported")
        if length is not None and (fault := self._limits.fault_of_length(int(length))):
            self._refuse(fault)
        self._ends_with_connection = length is None and coding is None
        self._keep_alive = parser.should_keep_alive()
        self._is_in_body = True

    def on_body(self, data: bytes) -> None:
        if self.watch is not None and 200 <= self._status < 300:
            self.watch.feed(data)
        if not self._body:
            self._body = data
            return
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += data

    def on_message_complete(self) -> None:
        body, headers = self._body, self._headers
        self._body, self._headers, self._is_in_body = b"", {}, False
        if self._status >= 200 and self._response is None:
            self._response = ModelResponse(self._status, headers, bytes(body), self._keep_alive)

    def _check_size(self) -> None:
        received = self._num_received
        if not self._is_in_body:
            if received > MAX_HEAD:
                raise BadResponse(f"the head is longer than {MAX_HEAD:,} bytes")
        elif (fault := self._meter.fault_at(received)) is not None:
            raise BadResponse(fault)

    def _refuse(self, fault: str) -> None:
        """End the parsing: `feed` raises BadResponse with this message."""
        self._fault = fault
        raise BadResponse(fault)


def coding_fault(coding: str) -> str | None:
    """Why an answer with this Content-Encoding is refused; None: its bytes are as they are."""
    if coding.strip().lower() in _NO_CODING:
        return None
    return f"content-encoding {coding!r} was not asked for"


def _describe(exc: Exception, data: bytes) -> str:
    reason = "it upgrades the protocol" if isinstance(exc, httptools.HttpParserUpgrade) else exc
    return f"the answer is not HTTP/1.1: {reason} (in {data[:60]!r})"
