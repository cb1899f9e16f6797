"""Token ids and log-probabilities as bytes, as replies bear them and logs keep them.

Ids are 32-bit integers and log-probabilities 32-bit floats, little-endian, one after the other: a
reader gets an array without making a Python object for each of some million tokens.
"""

import sys
from array import array
from collections.abc import Iterable
from typing import TypeVar

_T = TypeVar("_T", int, float)
ID_BYTES = 4  # of one id
_IDS, _FLOATS = "i", "f"


def packed(ids: Iterable[int]) -> bytes:
    """Ids as bytes. Raises OverflowError for what does not fit 32 bits.

    Example: packed([1, 258]) -> b"\\x01\\x00\\x00\\x00\\x02\\x01\\x00\\x00"
    """
    return _little_endian(array(_IDS, ids)).tobytes()


def unpacked(data: bytes) -> "array[int]":
    """The ids in some bytes. Raises ValueError when the bytes are no whole number of ids."""
    return _little_endian(array(_IDS, data))


def packed_floats(values: Iterable[float]) -> bytes:
    """Log-probabilities as bytes."""
    return _little_endian(array(_FLOATS, values)).tobytes()


def unpacked_floats(data: bytes) -> "array[float]":
    """The log-probabilities in some bytes. Raises ValueError when they are no whole number."""
    return _little_endian(array(_FLOATS, data))


def _little_endian(values: "array[_T]") -> "array[_T]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
