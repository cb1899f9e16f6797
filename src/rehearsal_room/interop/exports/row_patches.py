"""Row changes as a JSON patch (RFC 6902), with the replaced rows.

The document that is patched has a table for each key, and in it a row for each primary key:

    RowChange("orders", (7,), {"id": 7, "status": "open"}, {"id": 7, "status": "void"})
    ->
    {"op": "replace", "path": "/orders/7", "value": {"id": 7, "status": "void"},
     "replaced": {"id": 7, "status": "open"}}
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import RowChange

Patch = dict[str, Any]


def patch_of(change: RowChange) -> Patch:
    """A change of a row as one operation."""
    path = f"/{_escaped(change.table)}/{_escaped(_key_text(change.key))}"
    if change.after is None:
        return {"op": "remove", "path": path, "value": None, "replaced": change.before}
    if change.before is None:
        return {"op": "add", "path": path, "value": change.after, "replaced": None}
    return {"op": "replace", "path": path, "value": change.after, "replaced": change.before}


def patches_of(changes: Iterable[RowChange]) -> list[Patch]:
    """Changes of rows, in their order."""
    return [patch_of(change) for change in changes]


def _key_text(key: tuple[Any, ...]) -> str:
    """A primary key as text: of one integer or text that value, of others a JSON list.

    Example: (7,) -> "7"; ("a", 2) -> '["a",2]'
    """
    if len(key) == 1 and isinstance(key[0], int | str):
        return str(key[0])
    return msgspec.json.encode(key).decode()


def _escaped(text: str) -> str:
    """A text as one part of a JSON pointer (RFC 6901)."""
    return text.replace("~", "~0").replace("/", "~1")
