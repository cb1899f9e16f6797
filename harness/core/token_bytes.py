"""Token ids and log-probabilities as bytes: the form that replies and logs store them in.

Ids are 32-bit integers and log-probabilities are 32-bit floats, little-endian, one after the other:
a reader gets an array and does not create a Python object for each of some million tokens.
"""

import sys
from array import array
from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T", int, float)
ID_BYTES = 4  # size of one id
_IDS, _FLOATS = "i", "f"


def encode_ids(ids: Iterable[int]) -> bytes:
    """Token ids as bytes. Raises OverflowError for an id that does not fit 32 bits.

    Example: encode_ids([1, 258]) -> b"\\x01\\x00\\x00\\x00\\x02\\x01\\x00\\x00"
    """
    return _little_endian(array(_IDS, ids)).tobytes()


def decode_ids(data: bytes) -> "array[int]":
    """The token ids in some bytes. Raises ValueError when the last id is incomplete."""
    return _little_endian(array(_IDS, data))


def encode_logprobs(values: Iterable[float]) -> bytes:
    """Log-probabilities as bytes."""
    return _little_endian(array(_FLOATS, values)).tobytes()


def decode_logprobs(data: bytes) -> "array[float]":
    """The log-probabilities in some bytes. Raises ValueError when the last is incomplete."""
    return _little_endian(array(_FLOATS, data))


def _little_endian(values: "array[_T]") -> "array[_T]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
