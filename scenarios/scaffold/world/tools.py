"""Step 4. The tools: a public function whose first parameter is a `Db`.

The docstring is what the agent reads, the annotations are the schema. A call is one transaction;
`ToolError` is a refusal that the agent reads, and undoes the call.
"""

from typing import Annotated, Any, Literal

import msgspec

from scenarios.api import Db, Row
from scenarios.errors import ToolError

NOTICE_HOURS = 24  # policy.md states the same rule
# What a value must look like is checked before the tool runs.
StartsAt = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^20\d\d-[01]\d-[0-3]\d [0-2]\d:[03]0$",
        description="On the hour or half hour, for example 2026-03-20 10:30.",
    ),
]


def _pet(db: Db, pet_id: int) -> Row:
    pet = db.one("SELECT * FROM pets WHERE id = ?", pet_id)
    if pet is None:
        raise ToolError(f"There is no pet {pet_id}.")
    return pet


def _visit(db: Db, visit_id: int) -> Row:
    visit = db.one("SELECT * FROM visits WHERE id = ?", visit_id)
    if visit is None:
        raise ToolError(f"There is no visit {visit_id}.")
    return visit


def find_pets(db: Db, name: str) -> list[dict[str, Any]]:
    """Pets whose name contains the text, with their owners."""
    return db.all(
        "SELECT pets.id, pets.name, species, owners.name AS owner, phone FROM pets "
        "JOIN owners ON owners.id = owner_id WHERE instr(lower(pets.name), lower(?)) > 0 "
        "ORDER BY pets.id",
        name,
    )


def list_visits(db: Db, pet_id: int) -> list[dict[str, Any]]:
    """All visits of a pet, past and cancelled ones included, by time."""
    _pet(db, pet_id)
    return db.all(
        "SELECT id, starts_at, reason, status FROM visits WHERE pet_id = ? ORDER BY starts_at",
        pet_id,
    )


def book_visit(
    db: Db,
    pet_id: int,
    starts_at: StartsAt,
    reason: Literal["check-up", "vaccination", "surgery", "dental"],
) -> dict[str, Any]:
    """Book a visit of a pet at a time that is free."""
    _pet(db, pet_id)
    if db.value("SELECT datetime(?)", starts_at) is None:
        raise ToolError(f"There is no such time: {starts_at}.")
    if starts_at <= db.now[:16].replace("T", " "):
        raise ToolError(f"{starts_at} is in the past.")
    if db.value("SELECT 1 FROM visits WHERE starts_at = ? AND status = 'booked'", starts_at):
        raise ToolError(f"{starts_at} is taken.")
    visit_id = db.insert(
        "visits", pet_id=pet_id, starts_at=starts_at, reason=reason, status="booked"
    )
    return _visit(db, visit_id)  # a write returns the row that it made


def cancel_visit(db: Db, visit_id: int) -> dict[str, Any]:
    """Cancel a booked visit.

    The tool does not check how late it is: the rules do, and the agent must know them.
    """
    visit = _visit(db, visit_id)
    if visit["status"] != "booked":
        raise ToolError(f"Visit {visit_id} is {visit['status']}.")
    db.run("UPDATE visits SET status = 'cancelled' WHERE id = ?", visit_id)
    return _visit(db, visit_id)
