"""A world whose task has criteria, two by code and one that a model judges, and agents that do all
of it, half, nothing, or say so.

The task is to move a visit: to cancel the old one (weight 1), to book the new one (2), and to say
when it is (1, asked of a model). It is completed from a share of 0.8 on.
"""

import json
from pathlib import Path

from rehearsal_room.scenarios.scaffold.new_world import write_world

TASK = "move-check-up"
TOLD = "Milo's check-up is moved to Friday, 2026-03-20 at 10:00."
CRITERIA = """criteria_threshold = 0.8

[[task.criterion]]
name = "the old visit is cancelled"
check = "old_visit_cancelled"

[[task.criterion]]
name = "the new visit is booked"
check = "new_visit_booked"
weight = 2.0

[[task.criterion]]
name = "says when"
ask = "A new visit is booked, and the answer names its day and its time."
"""
_CHECKS = '''

def old_visit_cancelled(before: State, after: State, answer: str) -> bool:
    """By true or false."""
    return Check(before, after, answer).updated("visits", 104, status="cancelled")


def new_visit_booked(before: State, after: State, answer: str) -> list[Finding]:
    """By findings."""
    check = Check(before, after, answer)
    check.created("visits", pet_id=11, starts_at="2026-03-20 10:00", status="booked")
    return check.findings
'''
_CANCEL = {"name": "cancel_visit", "arguments": {"visit_id": 104}}
_BOOK = {
    "name": "book_visit",
    "arguments": {"pet_id": 11, "starts_at": "2026-03-20 10:00", "reason": "check-up"},
}
_HARM = {"name": "cancel_visit", "arguments": {"visit_id": 103}}
AGENTS = {  # calls, and the final answer
    "all": ([_CANCEL, _BOOK], TOLD),
    "half": ([_BOOK], "Done."),
    "none": ([], "I could not find Milo."),
    "lie": ([], TOLD),
    "silent": ([], ""),
    "harm": ([_CANCEL, _BOOK, _HARM], TOLD),
}


def criteria_world(parent: Path, criteria: str = CRITERIA) -> Path:
    """Write the package; `criteria` are what its task has."""
    folder = write_world("clinic", parent)
    tasks = (folder / "tasks.toml").read_text()
    first, second = tasks.split("\n[[task]]\n", 2)[:2]
    (folder / "tasks.toml").write_text(f"{first}\n[[task]]\n{second}{criteria}")
    verify = (folder / "verify.py").read_text()
    head, mark, rest = verify.partition("    return check.findings\n")
    assert mark
    (folder / "verify.py").write_text(f"{head}    return check.guards\n{_CHECKS}")
    (folder / "near_misses.toml").unlink()
    assert "def next_visit" in rest
    return folder


def script(path: Path) -> Path:
    """One episode of each agent."""
    lines = [
        {"scenario": "clinic", "task": TASK, "calls": calls, "answer": answer}
        for calls, answer in AGENTS.values()
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path
