"""HTTP/1.1 responses from bytes, without any I/O (RFC 9112).

Covers bodies by Content-Length, in chunks (trailers are dropped) and up to the connection's end,
and interim 1xx responses. Does not cover content encodings, which we never accept, nor responses
to HEAD and CONNECT.
"""

import re

import msgspec

MAX_HEAD = 64 * 1024  # bytes
MAX_BODY = 256 * 1024 * 1024

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_DIGITS = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?")


class BadResponse(Exception):
    """What came is no HTTP/1.1 response that we can read."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """One response, whole."""

    status: int
    headers: dict[str, str]  # by lower-case names; of several alike, joined by commas
    body: bytes
    keep_alive: bool  # whether the connection can be used for another request


class ResponseReader:
    """Reads one response after the other from one connection.

    Example: feed(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi") ->
        Response(200, {"content-length": "2"}, b"hi", True)
    """

    __slots__ = ("_at", "_buffer", "_head", "_pieces")

    def __init__(self) -> None:
        self._buffer: bytes | bytearray = b""
        self._head: _Head | None = None  # None: the head is not whole yet
        self._pieces: list[bytes] = []  # of a body in chunks
        self._at = 0  # where the next chunk begins

    @property
    def untouched(self) -> bool:
        """Whether nothing of the next response has come."""
        return self._head is None and not self._buffer

    def feed(self, data: bytes) -> Response | None:
        """The response, once it is whole. Raises BadResponse."""
        if self._buffer:
            if not isinstance(self._buffer, bytearray):
                self._buffer = bytearray(self._buffer)
            self._buffer += data
        else:
            self._buffer = data
        if self._head is None and not self._read_head():
            return None
        head = self._head
        assert head is not None
        if len(self._buffer) > MAX_BODY:
            raise BadResponse(f"the body is longer than {MAX_BODY} bytes")
        if head.framing == "length":
            return self._by_length(head)
        return self._by_chunks(head) if head.framing == "chunks" else None

    def end(self) -> Response | None:
        """The connection has ended: the response that this makes whole, if any."""
        if self._head is None or self._head.framing != "end":
            return None
        return self._whole(self._head, bytes(self._buffer), surplus=True)

    def _read_head(self) -> bool:
        """Take the head off the buffer; gives whether it was there."""
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end > MAX_HEAD or (end < 0 and len(self._buffer) > MAX_HEAD):
                raise BadResponse(f"the head is longer than {MAX_HEAD} bytes")
            if end < 0:
                return False
            head = read_head(bytes(self._buffer[:end]))
            self._buffer = self._buffer[end + 4 :]
            if head.status >= 200:
                self._head = head
                return True

    def _by_length(self, head: "_Head") -> Response | None:
        have = len(self._buffer)
        if have < head.length:
            return None
        body = bytes(self._buffer if have == head.length else self._buffer[: head.length])
        return self._whole(head, body, surplus=have > head.length)

    def _by_chunks(self, head: "_Head") -> Response | None:
        buffer = self._buffer
        while True:
            line_end = buffer.find(b"\r\n", self._at)
            if line_end < 0:
                if len(buffer) - self._at > MAX_HEAD:
                    raise BadResponse("a chunk has no size")
                return None
            line = _CHUNK.fullmatch(buffer, self._at, line_end)
            if line is None:
                raise BadResponse(f"a chunk's size is {bytes(buffer[self._at : line_end])[:40]!r}")
            size = int(line.group(1), 16)
            if size == 0:
                return self._after_chunks(head, line_end)
            start = line_end + 2
            if len(buffer) < start + size + 2:
                return None
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise BadResponse("a chunk is longer than its size")
            self._pieces.append(bytes(buffer[start : start + size]))
            self._at = start + size + 2

    def _after_chunks(self, head: "_Head", line_end: int) -> Response | None:
        end = self._buffer.find(b"\r\n\r\n", line_end)
        if end < 0:
            if len(self._buffer) - line_end > MAX_HEAD:
                raise BadResponse("the trailers are too long")
            return None
        surplus = len(self._buffer) > end + 4
        return self._whole(head, b"".join(self._pieces), surplus=surplus)

    def _whole(self, head: "_Head", body: bytes, *, surplus: bool) -> Response:
        if self._pieces:
            self._pieces = []
        self._buffer = b""
        self._head = None
        self._at = 0
        return Response(head.status, head.headers, body, head.keep_alive and not surplus)


class _Head(msgspec.Struct, frozen=True, gc=False):
    status: int
    headers: dict[str, str]
    framing: str  # length, chunks, end
    length: int
    keep_alive: bool


def read_head(data: bytes) -> _Head:
    """A response's head, given without the blank line at its end. Raises BadResponse."""
    first, _, rest = data.partition(b"\r\n")
    line = _STATUS.fullmatch(first)
    if line is None:
        raise BadResponse(f"the answer is no HTTP/1.1: {first[:60]!r}")
    status = int(line.group(2))
    headers: dict[str, str] = {}
    for text in rest.decode("latin-1").split("\r\n") if rest else ():
        name, colon, value = text.partition(":")
        if not colon or not name or name != name.strip():
            raise BadResponse(f"a header line is {text[:60]!r}")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    framing, length = _framing(status, headers)
    connection = headers.get("connection", "").lower()
    alive = "keep-alive" in connection if line.group(1) == b"0" else "close" not in connection
    return _Head(status, headers, framing, length, alive and framing != "end")


def _framing(status: int, headers: dict[str, str]) -> tuple[str, int]:
    """How the body ends (RFC 9112 §6.3)."""
    if status < 200 or status in (204, 304):
        return "length", 0
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadResponse(f"content-encoding {headers['content-encoding']!r} was not asked for")
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise BadResponse(f"transfer-encoding {coding!r} is not known")
        return "chunks", 0
    told = headers.get("content-length")
    if told is None:
        return "end", 0
    lengths = {text.strip() for text in told.split(",")}  # sent twice alike, it still counts
    length = lengths.pop()
    if lengths or not _DIGITS.fullmatch(length):
        raise BadResponse(f"content-length is {told!r}")
    if int(length) > MAX_BODY:
        raise BadResponse(f"the body is longer than {MAX_BODY} bytes")
    return "length", int(length)
