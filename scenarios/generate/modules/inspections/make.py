"""Seed rows of the inspections, and helpers that insert inspections, findings and followups.

Pools: finding_titles (what an inspection found, a sentence without a full stop).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.event_times import some_staff

_TITLES = (
    *("Emergency exit is blocked", "Sign is missing", "Tile is cracked", "Lamp does not work"),
    *("Paint is peeling", "Cable is worn through", "Shelf leans to one side"),
    *("First-aid box is half empty", "Fire extinguisher is out of date", "Door does not close"),
)


def rows(maker: Maker) -> None:
    """A few inspections behind, with a finding each."""
    for index in range(maker.many(3, least=1)):
        inspection = new_inspection(maker, day=-maker.rng.randrange(2, 40))
        finding = new_finding(maker, inspection, status="resolved" if index % 2 else "open")
        if index % 2:
            new_followup(maker, finding, day=-1, status="done")


def finding_titles(maker: Maker, count: int = 1) -> list[str]:
    """Return this many different titles of findings."""
    pool = maker.pool("finding_titles", *_TITLES)
    texts = pool if len(pool) >= count else tuple(dict.fromkeys((*pool, *_TITLES)))
    return maker.rng.sample(texts, k=count)


def new_inspection(maker: Maker, *, day: int, inspector: Row | None = None, **columns: Any) -> Row:
    """Insert an inspection in so many days (negative: ago, and done)."""
    given: dict[str, Any] = {
        "place": maker.location(),
        "status": "done" if day < 0 else "planned",
    } | columns
    if "category_id" not in given:
        given["category_id"] = maker.rng.choice(maker.rows("categories"))["id"]
    return maker.insert(
        "inspections",
        reference=new_code(maker, "inspections", "reference", "IN"),
        inspector_id=(inspector or some_staff(maker))["id"],
        planned_on=maker.day(day),
        **given,
    )


def new_finding(
    maker: Maker,
    inspection: Row,
    severity: str = "minor",
    *,
    title: str | None = None,
    status: str = "open",
) -> Row:
    """Insert a finding of an inspection, with a title that it does not have yet."""
    known = {row["title"] for row in maker.rows("findings", inspection_id=inspection["id"])}
    free = [text for text in maker.pool("finding_titles", *_TITLES) if text not in known]
    return maker.insert(
        "findings",
        inspection_id=inspection["id"],
        title=title or maker.rng.choice(free),
        severity=severity,
        status=status,
    )


def new_followup(
    maker: Maker, finding: Row, employee: Row | None = None, *, day: int = 3, status: str = "open"
) -> Row:
    """Insert the followup of a finding, due in so many days (negative: ago)."""
    return maker.insert(
        "followups",
        finding_id=finding["id"],
        employee_id=(employee or some_staff(maker))["id"],
        due_on=maker.day(day),
        status=status,
    )
