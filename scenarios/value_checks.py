"""Checks on single values of a package: names, ids, clocks, and values that JSON can represent."""

import math
import re
from datetime import datetime
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9_]*")  # of a scenario or a tool
TASK_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
NOT_A_CLOCK = "is not a moment in UTC such as '2026-03-14T09:30:00Z'"


def is_clock(text: str) -> bool:
    """Whether a text is a moment in UTC in the form that scenarios use."""
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - the Z is in the pattern
    except ValueError:
        return False
    return True


def json_fault(value: Any) -> str | None:
    """The path to the first part of a TOML value that JSON cannot represent, and the
    reason; None: there is no such part.

    Example: {"days": [datetime.date(2026, 3, 14)]} -> ".days[0]: 2026-03-14 has no form in JSON"
    """
    if isinstance(value, dict):
        inner = ((f".{name}", item) for name, item in value.items())
    elif isinstance(value, list):
        inner = ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, str | bool):
        return None
    elif isinstance(value, float):
        return None if math.isfinite(value) else f": {value} has no form in JSON"
    elif isinstance(value, int):
        fits = -(2**63) <= value < 2**63
        return None if fits else f": {value} has more than 64 bits, so it has no form in JSON"
    else:
        return f": {value} has no form in JSON"
    return next((step + fault for step, item in inner if (fault := json_fault(item))), None)
