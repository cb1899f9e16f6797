"""Frames: the structs of envpool.workers.messages.wire as bytes on a socket, and back.

A frame is a length (4 bytes, big-endian) and that many bytes of MessagePack. Hostile code may have
written the bytes of a worker, so a reader bounds their length and checks their types.

Example: Forget((7,)) -> b"\\0\\0\\0\\x16" + 22 bytes, a map {"type": "Forget", "worlds": [7]}
"""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers.messages.wire import MAX_FRAME, WorkerReply, WorkerRequest
from rehearsal_room.scenarios.files import UNREADABLE

_LENGTH = 4  # bytes


def _encode_path(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"a frame cannot hold a {type(value).__name__}")


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(f"a frame cannot hold a {kind.__name__}")


_encode = msgspec.msgpack.Encoder(enc_hook=_encode_path).encode
_request = msgspec.msgpack.Decoder(WorkerRequest, dec_hook=_decode_path).decode
_reply = msgspec.msgpack.Decoder(WorkerReply, dec_hook=_decode_path).decode


def frame(message: WorkerRequest | WorkerReply) -> bytes:
    """A message as a frame. Raises PoolError when it is too long, and the errors of msgspec for
    values that MessagePack cannot represent (UnicodeEncodeError for half a surrogate pair)."""
    body = _encode(message)
    if len(body) > MAX_FRAME:
        name = type(message).__name__
        raise PoolError(f"a {name} of {len(body)} bytes is too long: the limit is {MAX_FRAME}")
    return len(body).to_bytes(_LENGTH, "big") + body


def request_of(body: bytes | bytearray | memoryview) -> WorkerRequest:
    """The request in the body of a frame, read by a worker. Raises PoolError."""
    try:
        request: WorkerRequest = _request(body)
    except UNREADABLE as exc:
        raise PoolError(f"a frame from the pool is not a request: {exc}") from exc
    return request


def reply_of(body: bytes | bytearray | memoryview) -> WorkerReply:
    """The reply in the body of a frame, read by the pool. Raises PoolError."""
    try:
        reply: WorkerReply = _reply(body)
    except UNREADABLE as exc:
        raise PoolError(f"a frame from a worker is not a reply: {exc}") from exc
    return reply


class WorkerFrames:
    """Cuts a stream of bytes into the bodies of its frames, in whatever pieces the bytes arrive.

    `feed` returns the completed bodies; it raises PoolError for a frame that is too long.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The bodies that end in this data."""
        buffer = self._buffer
        if buffer:
            buffer += data
            data = buffer
        bodies = []
        start, size = 0, len(data)
        while size - start >= _LENGTH:
            length = int.from_bytes(data[start : start + _LENGTH], "big")
            if length > MAX_FRAME:
                raise PoolError(f"a frame of {length} bytes is too long: the limit is {MAX_FRAME}")
            end = start + _LENGTH + length
            if size < end:
                break
            bodies.append(bytes(data[start + _LENGTH : end]))
            start = end
        if data is buffer:
            del buffer[:start]
        elif start < size:  # most data ends with a frame: it is not copied
            buffer += data[start:]
        return bodies
