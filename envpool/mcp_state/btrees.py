"""Which pages belong to which table, and which rows may differ between two versions of them.

A row lies in one cell of one leaf of its table's b-tree, and where it is long, on a chain of
overflow pages. So rows that differ lie in cells that differ, or on an overflow page that changed.

Source: sqlite.org/fileformat2.html, sections 1.6 and 1.5.
"""

import struct
from collections.abc import Iterable, Set
from itertools import pairwise

import msgspec

from rehearsal_room.envpool.mcp_state.image import Image

_TABLE_LEAF = 13
_INTERIOR = (2, 5)
_LEAF = (10, _TABLE_LEAF)
_HEADER = 100  # bytes, in front of the first page
_LOCK_BYTE = 0x40000000  # the page at this offset is never used


class Tree(msgspec.Struct, frozen=True):
    """The pages of one b-tree, without overflow pages."""

    root: int
    interiors: dict[int, tuple[int, ...]]  # page -> its children
    pages: frozenset[int]  # all, leaves included


class Malformed(Exception):
    """The pages are not those of a database."""


def walked(image: Image, root: int, known: Tree | None, changed: Set[int]) -> Tree:
    """The b-tree at a root. `known` is the same tree before the pages `changed` changed.

    Raises Malformed.
    """
    if known and root not in changed and changed.isdisjoint(known.interiors):
        return known
    children = {} if known is None else known.interiors
    interiors: dict[int, tuple[int, ...]] = {}
    pages = level = [root]
    while image.page(level[0])[_start(level[0])] in _INTERIOR:
        below: list[int] = []
        for number in level:
            found = children.get(number) if number not in changed else None
            interiors[number] = found or _children(image, number)
            below += interiors[number]
        level = below
        pages = pages + level
        if len(pages) > image.num_pages:
            raise Malformed(f"the b-tree at page {root} has a loop")
    return Tree(root, interiors, frozenset(pages))


def _start(number: int) -> int:
    return _HEADER if number == 1 else 0


def _children(image: Image, number: int) -> tuple[int, ...]:
    page, start = image.page(number), _start(number)
    if page[start] not in _INTERIOR:
        raise Malformed(f"page {number} should be an interior page of a b-tree")
    (count,) = struct.unpack_from(">H", page, start + 3)
    cells = struct.unpack_from(f">{count}H", page, start + 12)
    found = [int.from_bytes(page[cell : cell + 4], "big") for cell in cells]
    return (*found, int.from_bytes(page[start + 8 : start + 12], "big"))


def cells_of(image: Image, numbers: Iterable[int]) -> set[bytes]:
    """The cells of those of the pages that are leaves of a table, each with the free bytes behind
    it."""
    found: set[bytes] = set()
    usable = image.usable
    for number in numbers:
        page, start = image.page(number), _start(number)
        if page[start] == _TABLE_LEAF:
            (count,) = struct.unpack_from(">H", page, start + 3)
            starts = sorted(struct.unpack_from(f">{count}H", page, start + 8))
            found.update([page[one:end] for one, end in pairwise((*starts, usable))])
    return found


def row_of(image: Image, cell: bytes) -> tuple[int, set[int]]:
    """The rowid of a cell of a table's leaf, and its overflow pages."""
    payload, at = _varint(cell, 0)
    rowid, at = _varint(cell, at)
    rowid = rowid - (1 << 64) if rowid >= 1 << 63 else rowid
    usable = image.usable
    most = usable - 35
    if payload <= most:
        return rowid, set()
    least = (usable - 12) * 32 // 255 - 23
    local = least + (payload - least) % (usable - 4)
    at += local if local <= most else least
    return rowid, _chain(image, int.from_bytes(cell[at : at + 4], "big"))


def _chain(image: Image, first: int) -> set[int]:
    found: set[int] = set()
    while first and first not in found:
        found.add(first)
        first = int.from_bytes(image.page(first)[:4], "big")
    return found


def may_overflow(image: Image, changed: Set[int], known: Set[int]) -> set[int]:
    """The changed pages that may be overflow pages of a row whose cell is as it was; `known` are
    pages of b-trees and of chains that are accounted for."""
    pages = {
        number
        for number in changed
        if 1 < number <= image.num_pages
        and number not in known
        and image.page(number)[0] not in (*_INTERIOR, *_LEAF)
    }
    if pages and image.page(1)[52:56] != b"\0\0\0\0":  # auto-vacuum: it has pages of pointers
        pages -= _pointer_pages(image)
    return pages - _free_pages(image) if pages else pages


def _pointer_pages(image: Image) -> set[int]:
    step = image.usable // 5 + 1
    locked = _LOCK_BYTE // image.page_size + 1
    return {number + (number == locked) for number in range(2, image.num_pages + 1, step)}


def _free_pages(image: Image) -> set[int]:
    trunks = _chain(image, int.from_bytes(image.page(1)[32:36], "big"))
    found = set(trunks)
    for trunk in trunks:
        page = image.page(trunk)
        count = min(int.from_bytes(page[4:8], "big"), image.usable // 4 - 2)
        found.update(struct.unpack_from(f">{count}I", page, 8))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the offset behind it."""
    if data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
