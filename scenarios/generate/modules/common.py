"""What the tools of all modules share; a world's tools.py begins with the parts that it needs."""

import hashlib
from datetime import date, datetime
from typing import Annotated, Any

import msgspec

from rehearsal_room.scenarios.api import Db, Row
from rehearsal_room.scenarios.errors import ToolError

CURRENCY = "$"  # the trade's

Id = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
CodeId = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Z]{2,4}-[0-9]{6}$", description="such as ABC-000123")
]
UuidId = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="a UUID")
]
Cents = Annotated[int, msgspec.Meta(ge=1, le=100_000_000, description="hundredths")]
Quantity = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=50, description="rows at most")]
Page = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
_ALL = 1_000_000  # more rows than a table has
_UUID_START = 0x018F3C2A0000
_UUID_STEP = 7_919
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="YYYY-MM-DD")]
Moment = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$", description="YYYY-MM-DDTHH:MM:SSZ"
    ),
]


def _next_number(db: Db, table: str) -> int:
    """One more than the highest id of a table."""
    return 1 + int(db.value(f"SELECT coalesce(max(id), 0) FROM {table}"))


def _code(table: str, number: int) -> str:
    """The id of a row: the letters of its table and a number."""
    parts = table.split("_")
    letters = table[:3] if len(parts) == 1 else "".join(part[0] for part in parts[:4])
    return f"{letters.upper()}-{number:06d}"


def _next_code(db: Db, table: str) -> int:
    """One more than the highest number in the ids of a table."""
    last = db.value(f"SELECT max(id) FROM {table}")
    return 1 if last is None else 1 + int(last.rpartition("-")[2])


def _insert_code(db: Db, table: str, /, **columns: Any) -> str:
    """Add a row with the next id, and return the id."""
    new_id = _code(table, _next_code(db, table))
    db.insert(table, id=new_id, **columns)
    return new_id


def _uuid(table: str, number: int) -> str:
    """The id of a row: a UUID that sorts by the row's number."""
    rest = hashlib.blake2b(f"{table} {number}".encode(), digest_size=9).hexdigest()
    first = f"{_UUID_START + _UUID_STEP * number:012x}"
    return f"{first[:8]}-{first[8:]}-7{rest[:3]}-9{rest[3:6]}-{rest[6:]}"


def _next_uuid(db: Db, table: str) -> int:
    """One more than the highest number behind the ids of a table."""
    last = db.value(f"SELECT max(id) FROM {table}")
    if last is None:
        return 1
    return 1 + (int(last[:8] + last[9:13], 16) - _UUID_START) // _UUID_STEP


def _insert_uuid(db: Db, table: str, /, **columns: Any) -> str:
    """Add a row with the next id, and return the id."""
    new_id = _uuid(table, _next_uuid(db, table))
    db.insert(table, id=new_id, **columns)
    return new_id


def _with_total(rows: list[Row], limit: int) -> Row:
    """The first rows, with the number of all."""
    return {"items": rows[:limit], "total": len(rows), "truncated": len(rows) > limit}


def _with_more(rows: list[Row], limit: int) -> Row:
    """The first rows, with the number of all."""
    return {"total": len(rows), "results": rows[:limit], "more": max(0, len(rows) - limit)}


def _with_counts(rows: list[Row], limit: int) -> Row:
    """The first rows, with the number of all."""
    return {"rows": rows[:limit], "num_shown": len(rows[:limit]), "num_all": len(rows)}


def _with_pages(rows: list[Row], page: int, page_size: int) -> Row:
    """One page of the rows, with the number of pages and of all."""
    start = (page - 1) * page_size
    return {
        "items": rows[start : start + page_size],
        "page": page,
        "num_pages": -(-len(rows) // page_size),
        "total": len(rows),
    }


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
