"""Seed rows of the shifts, and helpers that insert posts, shifts and swaps.

Pools: post_names (the name of a post that must be staffed, without an article).
"""

from collections.abc import Sequence
from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.naming import new_title
from rehearsal_room.scenarios.generate.modules.staff.make import some_team

_POSTS = (
    *("Front counter", "Telephone", "Information desk", "Back office", "Key desk"),
    *("Delivery desk", "Cash desk", "On-call phone"),
)


def rows(maker: Maker) -> None:
    """A few posts, one of which needs somebody senior, with shifts that are over."""
    for index in range(2):
        post = new_post(maker, needs_rank="senior" if index else "any")
        employee = maker.rng.choice(maker.rows("employees", lambda row: row["role"] != "clerk"))
        new_shift(maker, post, employee, -maker.rng.randrange(3, 9) - index * 9)


def new_post(maker: Maker, **columns: Any) -> Row:
    """Insert a post that anybody may staff, with a name that no other has."""
    names = maker.pool("post_names", *_POSTS)
    known = {row["name"] for row in maker.rows("shift_posts")}
    free = [name for name in names if name not in known]
    free = free or [name for name in upstairs(names) if name not in known]
    name = new_title(maker, "shift_posts", "name", maker.rng.choice(free or names), again=" {}")
    given = {"name": name, "needs_rank": "any"} | columns
    if "team_id" not in given:
        given["team_id"] = some_team(maker)["id"]
    return maker.insert("shift_posts", **given)


def upstairs(names: Sequence[str]) -> list[str]:
    """Return the names of more posts, for when all these are taken."""
    return [f"{name} upstairs" for name in names]


def new_shift(maker: Maker, post: Row, employee: Row, day: int, part: str = "early") -> Row:
    """Insert a shift in so many days (negative: ago)."""
    return maker.insert(
        "shifts",
        post_id=post["id"],
        employee_id=employee["id"],
        worked_on=maker.day(day),
        part=part,
    )


def new_swap(
    maker: Maker,
    shift: Row,
    taker: Row,
    *,
    status: str = "asked",
    days: int = 1,
    by: Row | None = None,
) -> Row:
    """Insert that somebody was asked so many days ago to take a shift over."""
    return maker.insert(
        "swaps",
        shift_id=shift["id"],
        taker_id=taker["id"],
        status=status,
        asked_at=maker.ago(days),
        decided_by=None if by is None else by["id"],
    )
