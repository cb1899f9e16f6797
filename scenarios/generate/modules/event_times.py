"""Moments for histories: later than another moment, never after the clock; sums over lines."""

from datetime import UTC, date, datetime, timedelta

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker

_STAMP = "%Y-%m-%dT%H:%M:%SZ"


def later(maker: Maker, moment: str, hours: int) -> str:
    """Return the moment so many hours later, but not after the clock.

    Example: later(maker, "2026-03-14T09:30:00Z", 5) -> "2026-03-14T14:30:00Z"
    """
    start = datetime.strptime(moment, _STAMP).replace(tzinfo=UTC)
    text = (start + timedelta(hours=hours)).strftime(_STAMP)
    return max(moment, min(text, maker.ago(0, 1)))


def days_since(maker: Maker, moment: str) -> int:
    """Return the days from a moment's or a date's day to the clock's."""
    return (date.fromisoformat(maker.day()) - date.fromisoformat(moment[:10])).days


def later_day(day: str, days: int) -> str:
    """Return the day so many days later.

    Example: later_day("2026-03-14", 3) -> "2026-03-17"
    """
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def some_staff(maker: Maker) -> Row:
    """Return an active employee other than the acting one, where there is one."""
    others = maker.rows("employees", lambda row: row["id"] != maker.me["id"], active=1)
    return maker.rng.choice(others or [maker.me])
