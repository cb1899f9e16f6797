"""The text of a verifier from the rows that a solution changed, to be refined by its author.

verifier_text("note", changes, calls) ->

def note(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("notes", contact_id="C-1007", text="Call back on Monday")
    check.nothing_else()
    return check.findings
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import Call

HEAD = '''"""The verifiers: one function for each task, named like it (docs/worlds.md)."""

from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import ANY, Check, Finding
'''
_OF_TIME = re.compile(
    r"(?:^|_)(?:at|on|date|time|timestamp|created|updated|modified)$", re.IGNORECASE
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LONG = 400  # characters of a text that a verifier demands


def verifier_text(
    task_id: str,
    changes: Sequence[RowChange],
    calls: Sequence[Call],
    steps: Sequence[RowChange] = (),
) -> str:
    """The function of one task. `changes` are the net changes of its solution, `calls` its calls,
    `steps` what each of them changed: values of new rows that no call names and no later step
    changes, such as ids and times, are not demanded. Nor is a text with the key of a new row, which
    another number of calls makes another one."""
    given = set(map(_plain, _values([call.arguments for call in calls])))
    made = {
        key
        for change in changes
        if change.before is None
        for key in change.key
        if isinstance(key, str) and key and _plain(key) not in given
    }
    changed: dict[tuple[str, Any], set[str]] = {}  # columns by row
    for step in steps:
        if step.before is not None and step.after is not None:
            columns = {name for name, value in step.after.items() if step.before.get(name) != value}
            changed.setdefault((step.table, step.key), set()).update(columns)
    lines = [
        line
        for change in changes
        for line in _checks(change, given, changed.get((change.table, change.key), set()), made)
    ]
    body = [*(lines or ["# Demand what the answer must say: check.answer_has(...)"])]
    return "\n    ".join(
        [
            f"def {task_id.replace('-', '_')}(before: State, after: State, answer: str)"
            " -> list[Finding]:",
            "check = Check(before, after, answer)",
            *body,
            "check.nothing_else()",
            "return check.findings\n",
        ]
    )


def _checks(change: RowChange, given: set[str], later: set[str], made: set[str]) -> Iterator[str]:
    table = _literal(change.table)
    keys = ", ".join(map(_literal, change.key))
    key = keys if len(change.key) == 1 else f"({keys})"
    if change.after is None:
        yield f"check.deleted({table}, {key})"
    elif change.before is None:
        wanted = _demanded(change, change.after, given, later)
        yield f"check.created({table}{_arguments(wanted, made)})"
    else:
        changed = {
            column: value
            for column, value in change.after.items()
            if change.before.get(column) != value
        }
        yield f"check.updated({table}, {key}{_arguments(changed, made)})"


def _demanded(change: RowChange, row: Row, given: set[str], later: set[str]) -> Row:
    """The columns of a new row that a call named or changed later; if there are none, those that
    are neither its key nor of time."""
    named = {
        column: value for column, value in row.items() if _plain(value) in given or column in later
    }
    return named or {
        column: value
        for column, value in row.items()
        if value is not None and value not in change.key and not _is_of_time(column, value)
    }


def _arguments(row: Row, made: set[str]) -> str:
    shown = {
        column: "ANY"
        if _is_of_time(column, value) or _is_long(value) or _has_one_of(value, made)
        else _literal(value)
        for column, value in row.items()
    }
    if all(map(_NAME.fullmatch, shown)):
        return "".join(f", {column}={value}" for column, value in shown.items())
    return (
        ", **{" + ", ".join(f"{_literal(column)}: {value}" for column, value in shown.items()) + "}"
    )


def _literal(value: Any) -> str:
    """A value in Python, with the quotes that formatters use."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _is_of_time(column: str, value: Any) -> bool:
    if isinstance(value, str) and _TIME.match(value):
        return True
    return _OF_TIME.search(column) is not None and isinstance(value, int | float)


def _has_one_of(value: Any, made: set[str]) -> bool:
    return isinstance(value, str) and any(key in value for key in made)


def _is_long(value: Any) -> bool:
    return isinstance(value, str | bytes) and len(value) > _LONG


def _values(found: Any) -> Iterator[Any]:
    """Every value inside of JSON."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list | tuple):
        for one in found:
            yield from _values(one)
    elif found is not None and found != "":
        yield found


def _plain(value: Any) -> str:
    """A value as it is compared: a server may trim a text and write a number as a text."""
    return str(value).strip().casefold()
