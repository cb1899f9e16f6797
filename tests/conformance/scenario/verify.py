"""What must have happened."""

from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Check, Finding


def plain_text(before: State, after: State, answer: str) -> list[Finding]:
    """The call left its row."""
    check = Check(before, after, answer)
    check.created("calls", tool="test_simple_text")
    check.nothing_else()
    return check.findings
