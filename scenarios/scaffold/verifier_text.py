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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    steps: Sequence[Sequence[RowChange]] = (),
) -> str:
    """The function of one task. `changes` are the net changes of its solution, `calls` its calls,
    `steps` what each of them changed (empty: there is one call). Of new rows, the values are
    demanded that a call names or a later call changes. A key that the server made is not, nor is a
    text with such a key: another number of calls makes another one."""
    steps = steps or [changes] * (len(calls) == 1)
    made = set(_made_by_server(calls, steps))
    given = {*map(_plain, _values([call.arguments for call in calls]))} - {*map(_plain, made)}
    changed: dict[tuple[str, Any], set[str]] = {}  # columns by row
    for step in (change for each in steps for change in each):
        if step.before is not None and step.after is not None:
            columns = {name for name, value in step.after.items() if step.before.get(name) != value}
            changed.setdefault((step.table, step.key), set()).update(columns)
    new = Counter(
        (change.table, _arguments(_demanded(change, change.after, given, later), made))
        for change in changes
        for later in [changed.get((change.table, change.key), set())]
        if change.before is None and change.after is not None
    )
    others = [_check(change, made) for change in changes if change.before is not None]
    lines = [*_checks_of_new(new, is_alone=not others), *others]
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


def _made_by_server(calls: Sequence[Call], steps: Sequence[Sequence[RowChange]]) -> Iterator[str]:
    """The keys of new rows, where they are texts that the call which made the row did not name."""
    for call, changes in zip(calls, steps, strict=False):
        named = set(map(_plain, _values(call.arguments)))
        for change in changes:
            for key in change.key if change.before is None else ():
                if isinstance(key, str) and key and _plain(key) not in named:
                    yield key


def _checks_of_new(new: Mapping[tuple[str, str], int], *, is_alone: bool) -> Iterator[str]:
    """The checks of new rows: how many there are of a table with what is demanded of them. Rows of
    which nothing is demanded, such as a log's, are allowed, unless there is nothing else."""
    is_alone = is_alone and all(_is_vague(arguments) for _, arguments in new)
    for (table, arguments), count in new.items():
        number = f", count={count}" if count > 1 else ""
        if not _is_vague(arguments):
            yield f"check.created({_literal(table)}{number}{arguments})"
        elif is_alone:
            yield f"check.created({_literal(table)}{number})"
        else:
            yield f"check.allow({_literal(table)}, new={count})"


def _is_vague(arguments: str) -> bool:
    """Whether arguments demand nothing: each is ANY."""
    return not re.sub(r"(?:, \w+=ANY)*", "", arguments)


def _check(change: RowChange, made: set[str]) -> str:
    """The check of a row that was there before."""
    table = _literal(change.table)
    keys = ", ".join(map(_literal, change.key))
    key = keys if len(change.key) == 1 else f"({keys})"
    if change.after is None or change.before is None:
        return f"check.deleted({table}, {key})"
    changed = {
        column: value
        for column, value in change.after.items()
        if change.before.get(column) != value
    }
    return f"check.updated({table}, {key}{_arguments(changed, made)})"


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
