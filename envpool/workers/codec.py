"""Frames: how the structs of envpool.workers.wire become bytes on a socket, and back.

A frame is a length (4 bytes, big-endian) and that many bytes of MessagePack. What comes from a
worker may have been written by hostile code, so a reader bounds its length and checks its types.

Example: Forget((7,)) -> b"\\0\\0\\0\\x16" + 22 bytes, a map {"type": "Forget", "worlds": [7]}
"""

from pathlib import Path
from typing import Any

import msgspec

from envpool.core.errors import PoolError
from envpool.workers.wire import MAX_FRAME, Reply, Request

_LENGTH = 4  # bytes


def _encoded(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no place in a frame")


def _decoded(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(f"{kind.__name__} has no place in a frame")


_encode = msgspec.msgpack.Encoder(enc_hook=_encoded).encode
_request = msgspec.msgpack.Decoder(Request, dec_hook=_decoded).decode
_reply = msgspec.msgpack.Decoder(Reply, dec_hook=_decoded).decode


def frame(message: Request | Reply) -> bytes:
    """A message as a frame. Raises PoolError when it is too long, and what msgspec raises for
    values that MessagePack cannot say (UnicodeEncodeError for half a surrogate pair)."""
    body = _encode(message)
    if len(body) > MAX_FRAME:
        raise PoolError(f"a {type(message).__name__} of {len(body)} bytes is too long to be sent")
    return len(body).to_bytes(_LENGTH, "big") + body


def request_of(body: bytes | bytearray | memoryview) -> Request:
    """A frame's body, read by a worker. Raises PoolError."""
    try:
        request: Request = _request(body)
    except msgspec.MsgspecError as exc:
        raise PoolError(f"a frame from the pool is no request: {exc}") from exc
    return request


def reply_of(body: bytes | bytearray | memoryview) -> Reply:
    """A frame's body, read by the pool. Raises PoolError."""
    try:
        reply: Reply = _reply(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise PoolError(f"a frame from a worker is no reply: {exc}") from exc
    return reply


class Frames:
    """Cuts a stream of bytes into the bodies of its frames, however they arrive.

    `feed` gives the bodies that are complete; raises PoolError for one that is too long.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The bodies that end in this data."""
        buffer = self._buffer
        buffer += data
        bodies = []
        start = 0
        while len(buffer) - start >= _LENGTH:
            length = int.from_bytes(buffer[start : start + _LENGTH], "big")
            if length > MAX_FRAME:
                raise PoolError(f"a frame of {length} bytes is too long")
            end = start + _LENGTH + length
            if len(buffer) < end:
                break
            bodies.append(bytes(buffer[start + _LENGTH : end]))
            start = end
        if start:
            del buffer[:start]
        return bodies
