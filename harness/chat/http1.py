"""HTTP/1.1 responses from bytes, without any I/O (RFC 9112), parsed by httptools.

Covers bodies by Content-Length, in chunks (trailers are dropped) and up to the end of the
connection, and interim 1xx responses, which are skipped. Does not cover content encodings, which
the client never accepts, upgrades (101), and responses to HEAD and CONNECT.
"""

import httptools
import msgspec

MAX_HEAD = 64 * 1024  # bytes
MAX_BODY = 256 * 1024 * 1024


class BadResponse(Exception):
    """The bytes are not an HTTP/1.1 response that this client can read."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """One whole response."""

    status: int
    headers: dict[str, str]  # by lower-case name; values of one name are joined by commas
    body: bytes
    keep_alive: bool  # whether the connection can be used for another request


class ResponseReader:
    """Reads the responses of one connection, one after the other.

    The methods `on_…` are called by the parser.

    Example: feed(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi") ->
        Response(200, {"content-length": "2"}, b"hi", True)
    """

    __slots__ = (
        *("_ends_with_connection", "_fault", "_has_surplus", "_headers", "_is_in_body"),
        *("_keep_alive", "_num_received", "_parser", "_pieces", "_response", "_status"),
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []  # of the body
        self._status = 0
        self._keep_alive = False
        self._is_in_body = False  # whether the head is complete
        self._ends_with_connection = False  # whether only the connection's end ends the body
        self._response: Response | None = None  # complete, but not yet returned by `feed`
        self._has_surplus = False  # whether bytes followed the response
        self._num_received = 0  # bytes of the response so far
        self._fault = ""  # why a callback refused the response

    @property
    def is_between_responses(self) -> bool:
        """Whether no byte of the next response has arrived."""
        return self._num_received == 0

    def feed(self, data: bytes) -> Response | None:
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
        if self._has_surplus:  # it could be taken for the next response
            return msgspec.structs.replace(response, keep_alive=False)
        return response

    def end(self) -> Response | None:
        """Return the response that the end of the connection completes, if there is one."""
        if not self._is_in_body or not self._ends_with_connection:
            return None
        return Response(self._status, self._headers, b"".join(self._pieces), False)

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
        if headers.get("content-encoding", "identity").lower() != "identity":
            self._refuse(f"content-encoding {headers['content-encoding']!r} was not asked for")
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            self._refuse(f"transfer-encoding {coding!r} is not supported")
        if length is not None and int(length) > MAX_BODY:
            self._refuse(f"the body is longer than {MAX_BODY} bytes")
        self._ends_with_connection = length is None and coding is None
        self._keep_alive = parser.should_keep_alive()
        self._is_in_body = True

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        pieces, headers = self._pieces, self._headers
        self._pieces, self._headers, self._is_in_body = [], {}, False
        if self._status >= 200 and self._response is None:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._response = Response(self._status, headers, body, self._keep_alive)

    def _check_size(self) -> None:
        name, limit = ("body", MAX_BODY) if self._is_in_body else ("head", MAX_HEAD)
        if self._num_received > limit:
            raise BadResponse(f"the {name} is longer than {limit} bytes")

    def _refuse(self, fault: str) -> None:
        """End the parsing: `feed` raises BadResponse with this message."""
        self._fault = fault
        raise BadResponse(fault)


def _describe(exc: Exception, data: bytes) -> str:
    reason = "it upgrades the protocol" if isinstance(exc, httptools.HttpParserUpgrade) else exc
    return f"the answer is not HTTP/1.1: {reason} (in {data[:60]!r})"
