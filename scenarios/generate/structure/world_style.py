"""The structure of one world: how its ids, lists, actions, refusals and tables are shaped.

Two worlds of the same modules differ in it, whatever their words.
"""

from collections.abc import Collection
from random import Random
from typing import Literal

import msgspec

ListStyle = Literal["items", "results", "rows", "pages"]
ErrorStyle = Literal["plain", "coded"]
StampStyle = Literal["none", "updated_at", "version", "history"]
IdStyle = Literal["numbers", "codes", "uuids"]
DeletionStyle = Literal["removed", "marked"]
AddressStyle = Literal["table", "columns"]
NEEDS_ADDRESSES = "shipments"  # the module that refers to rows of the table of addresses


class WorldStyle(msgspec.Struct, frozen=True):
    """The shapes that are drawn for a world."""

    lists: ListStyle  # the keys of a list's result; pages: with page and page_size
    errors: ErrorStyle  # coded: a refusal begins with not_found, forbidden or conflict
    merged: float  # share of the actions on one record that are one tool with an `action`
    stamps: StampStyle  # what tables with a status keep besides it
    ids: IdStyle = "numbers"  # codes: such as ORD-007104
    deletion: DeletionStyle = "removed"  # marked: rows stay, with deleted_at
    addresses: AddressStyle = "table"  # columns: a customer has one address, in the record itself


def draw_style(rng: Random, modules: Collection[str] = (NEEDS_ADDRESSES,)) -> WorldStyle:
    """Draw a style for a world with these modules."""
    style = WorldStyle(
        lists=rng.choice(("items", "results", "rows", "pages")),
        errors=rng.choice(("plain", "plain", "coded")),
        merged=rng.choice((0.0, 0.0, 0.5, 1.0)),
        stamps=rng.choice(("none", "none", "updated_at", "version", "history")),
        ids=rng.choice(("numbers", "numbers", "codes", "codes", "uuids")),
        deletion=rng.choice(("removed", "removed", "marked")),
        addresses=rng.choice(("table", "columns")),
    )
    if NEEDS_ADDRESSES in modules:
        style = msgspec.structs.replace(style, addresses="table")
    return style
