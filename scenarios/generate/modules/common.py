"""What the tools of all modules share; a world's tools.py begins with the parts that it needs."""

from datetime import date, datetime
from typing import Annotated

import msgspec

from scenarios.errors import ToolError

CURRENCY = "$"  # the trade's

Id = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Cents = Annotated[int, msgspec.Meta(ge=1, le=100_000_000, description="hundredths")]
Quantity = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
NumDays = Annotated[int, msgspec.Meta(ge=1, le=365)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=50, description="rows at most")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="YYYY-MM-DD")]
Moment = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$", description="YYYY-MM-DDTHH:MM:SSZ"
    ),
]


def _like(text: str) -> str:
    """The LIKE pattern, with ESCAPE '\\', of texts that hold this one."""
    escaped = text.strip().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _money(cents: int) -> str:
    return f"{CURRENCY}{cents / 100:,.2f}"


def _day(text: str) -> date:
    """The day that a text names, which must be in the calendar."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ToolError(f"{text!r} is no day of the calendar.") from None


def _moment(text: str) -> datetime:
    """The moment that a text names, which must be in the calendar."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(f"{text!r} is no moment of the calendar.") from None
