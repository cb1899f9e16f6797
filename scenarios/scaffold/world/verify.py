"""Step 6. One verifier for each task: its name is the task's id with `_` for `-`.

Goals are what the task asked for, guards what must not be harmed. `nothing_else` comes last: a row
or a column that no line above names is a change that the task did not ask for.
"""

from scenarios.api import State
from scenarios.checks import Check, Finding


def move_check_up(before: State, after: State, answer: str) -> list[Finding]:
    """The old visit is cancelled and the new one booked; the other Milo keeps his."""
    check = Check(before, after, answer)
    check.updated("visits", 104, status="cancelled")
    check.created(
        "visits", pet_id=11, starts_at="2026-03-20 10:00", reason="check-up", status="booked"
    )
    check.untouched("visits", 103)  # the other Milo
    check.nothing_else()
    return check.findings


def next_visit(before: State, after: State, answer: str) -> list[Finding]:
    """The answer names day, time and reason; nothing changes."""
    check = Check(before, after, answer)
    check.answer_has("2026-03-24", "24 March", "March 24")
    check.answer_has("09:30", "9:30")
    check.answer_has("vaccination", "vaccinated")
    check.nothing_else()
    return check.findings


def too_late(before: State, after: State, answer: str) -> list[Finding]:
    """The answer refuses and says why; nothing changes."""
    check = Check(before, after, answer)
    check.declined("24 hours", "notice", "too late")
    check.nothing_else()
    return check.findings
