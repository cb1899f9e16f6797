"""Helpers for the make.py of several modules: unused codes, drafts that need a role or a limit."""

from collections.abc import Sequence
from typing import Any, Literal

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.task_drafts import SpokenValue, day_of
from rehearsal_room.scenarios.generate.modules.staff.make import RELIEF_TEAM

_RANKS = ("clerk", "supervisor", "manager")


def new_code(maker: Maker, table: str, column: str, letters: str, digits: int = 6) -> str:
    """Return a reference that no row of the table has yet.

    Example: new_code(maker, "tickets", "reference", "TK") -> "TK-407131"
    """
    code = maker.code(letters, digits)
    while maker.rows(table, **{column: code}):
        code = maker.code(letters, digits)
    return code


def is_ranked(maker: Maker, role: Literal["supervisor", "manager"]) -> bool:
    """Whether the acting employee has this role or a higher one."""
    return _RANKS.index(maker.me["role"]) >= _RANKS.index(role)


def with_lookups(calls: Sequence[Call], *lookups: Call) -> tuple[Call, ...]:
    """Return the calls, followed by the look-ups that are not among them.

    Example: with_lookups((get_customer,), get_customer, list_teams) -> (get_customer, list_teams)
    """
    return (*calls, *(lookup for lookup in lookups if lookup not in calls))


def time_of(moment: str) -> str:
    """Return the time of day of a moment.

    Example: time_of("2026-03-14T09:30:00Z") -> "09:30"
    """
    return moment[11:16]


def long_day(moment: str) -> SpokenValue:
    """Return the day of a moment or a date as prose writes it.

    Example: long_day("2026-03-04") -> SpokenValue("4 March", ("2026-03-04", "March 4", …))
    """
    spoken = day_of(moment)
    return SpokenValue(spoken.others[0], (spoken.text, *spoken.others[1:]))


def full_day(moment: str) -> SpokenValue:
    """Return the day of a moment or a date as prose writes it, with the year.

    Example: full_day("2026-03-04") -> SpokenValue("4 March 2026", ("2026-03-04", "March 4", …))
    """
    spoken = day_of(moment)
    year = spoken.text[:4]
    full = tuple(f"{one} {year}" for one in spoken.others)
    return SpokenValue(
        full[0], (spoken.text, *full[1:], *(f"{one}, {year}" for one in spoken.others))
    )


def some_employee(maker: Maker, *without: Row, **equal: Any) -> Row | None:
    """Return an active employee who is neither the acting one nor one of these.

    Example: some_employee(maker, lead, role="supervisor")
    """
    barred = {maker.me["id"], *(row["id"] for row in without)}
    return maker.pick("employees", lambda row: row["id"] not in barred, active=1, **equal)


def team_of(maker: Maker, least: int, most: int) -> Row | None:
    """Return a team with this many active employees."""
    return maker.pick(
        "teams",
        lambda team: (
            team["name"] != RELIEF_TEAM
            and least <= len(maker.rows("employees", team_id=team["id"], active=1)) <= most
        ),
    )
