"""The digest of a state: equal rows, equal digest, whatever the pages look like.

Each row is hashed with its table's name; the digest is the sum of the hashes modulo 2^128 (a
multiset hash: AdHash, Bellare and Micciancio 1997). So one changed row costs two hashes, however
large the table is, and the order of rows does not matter. Rows are the stored columns of the user's
tables; SQLite's own tables (`sqlite_sequence`) are left out. The digest distinguishes states; it
does not withstand an adversary who searches for collisions.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_MASK = (1 << 128) - 1


def row_hash(table: str, row: tuple[Any, ...]) -> int:
    """The hash of one row, 0 .. 2^128 - 1. Integers, floats, texts and blobs hash differently."""
    return int.from_bytes(blake2b(_encode((table, row)), digest_size=16).digest(), "big")


def rows_sum(table: str, rows: Iterable[tuple[Any, ...]]) -> int:
    """The sum of the hashes of many rows of one table."""
    return sum(row_hash(table, row) for row in rows) & _MASK


def sum_after_change(
    total: int, table: str, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None
) -> int:
    """The sum after one row changed; None for a row that does not exist."""
    if before is not None:
        total -= row_hash(table, before)
    if after is not None:
        total += row_hash(table, after)
    return total & _MASK


def hex_digest(total: int) -> str:
    """The digest as 32 hexadecimal digits."""
    return f"{total:032x}"
