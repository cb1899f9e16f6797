"""Records in MessagePack, read back."""

import msgspec

from rehearsal_room.harness.core.events import Record

_decoder = msgspec.msgpack.Decoder(Record)


def decode_record(data: bytes) -> Record:
    """The record in MessagePack bytes. Raises msgspec.DecodeError."""
    return _decoder.decode(data)
