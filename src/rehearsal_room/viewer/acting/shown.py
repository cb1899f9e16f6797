"""Calls of a person as pages show them."""

from collections.abc import Sequence
from typing import Any

from rehearsal_room.harness.policies.human import PlayedCall
from rehearsal_room.viewer.reading.plain import plain
from rehearsal_room.viewer.reading.result_rows import rows_of


def played_calls(calls: Sequence[PlayedCall], error_prefix: str) -> list[dict[str, Any]]:
    """The calls with their results, as tables where they are rows."""
    found = []
    for call in calls:
        is_error = call.text.startswith(error_prefix)
        rows = None if is_error else rows_of(call.text)
        found.append(
            {
                "tool": call.tool,
                "arguments": plain(call.arguments),
                "text": plain(call.text),
                "error": "error" if is_error else None,
                "rows": None if rows is None else rows.rows,
                "columns": None if rows is None else rows.columns,
                "changes": [],
            }
        )
    return found
