"""The arguments that a call may have: one rule for dialects, worlds and the log."""

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 50
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)


def argument_fault(value: Any) -> str | None:
    """The reason why decoded JSON cannot be a call's arguments; None when it can.

    The log, SQLite and most servers hold integers of 64 bits, and arguments are nested deeply only
    to break something.

    Example: {"ids": [9223372036854775808]} -> "an integer is larger than 64 bits"
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item.values())
            elif kind is list or kind is tuple:
                deeper.extend(item)
            elif kind is int:
                if not _SMALLEST <= item <= _LARGEST:
                    return "an integer is larger than 64 bits"
            elif isinstance(item, Mapping):
                deeper.extend(item.values())
        if not deeper:
            return None
        level = deeper
    return f"a value is nested deeper than {MAX_DEPTH} levels"
