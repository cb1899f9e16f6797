"""Deriving verify.py: a task must change exactly what its oracle changed, and nothing else.

For each row that differs the function names its columns and values; a text that the agent words
itself must mention certain phrases. The ids of new rows are not compared, since they depend on the
order of the work; a row that refers to a new row must have the id that the new row has in the
state after the episode.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import says

HEAD = '''\
"""What each task must have changed, said, or left alone."""

from scenarios.api import State
from scenarios.checks import {names}
'''
NEW_ID = '''

def _new_id(after: State, table: str, **values: object) -> object:
    """The id of the new row that has these values; None when there is none."""
    for change in after.changes:
        row = change.after
        if change.table != table or change.before is not None or row is None:
            continue
        if all(row.get(name) == value for name, value in values.items()):
            return row["id"]
    return None
'''


class TableColumns(msgspec.Struct, frozen=True):
    """The columns of a table that need special treatment, in the trade's words."""

    has_id: bool
    refers: dict[str, str]  # column -> the table whose id it contains
    ignored: tuple[str, ...] = ()  # noise columns


class VerifierDemands(msgspec.Struct, frozen=True):
    """What the verifier of a task demands."""

    name: str  # of the function
    about: str  # its docstring, one line
    changes: tuple[RowChange, ...]
    facts: tuple[tuple[str, ...], ...] = ()  # wordings of each value that the answer must contain
    reasons: tuple[tuple[str, ...], ...] = ()  # of each part that must be declined
    free: dict[str, tuple[tuple[str, ...], ...]] = {}  # "table.column" -> phrases of each part
    spare: tuple[tuple[str, object], ...] = ()  # (table, id) of rows that must stay unchanged


def verify_py(tasks: Sequence[VerifierDemands], tables: Mapping[str, TableColumns]) -> str:
    """The text of verify.py."""
    body = "".join(_Function(task, tables).text() for task in tasks)
    used = [name for name in ("ANY", "mentions") if f"={name}" in body]
    names = ", ".join(sorted(["Check", "Finding", *used], key=lambda n: (n.islower(), n)))
    helper = NEW_ID if "_new_id(" in body else ""
    return HEAD.format(names=names) + helper + body


class _Function:
    """The verifier of one task."""

    def __init__(self, task: VerifierDemands, tables: Mapping[str, TableColumns]) -> None:
        self._task = task
        self._tables = tables
        self._created = [change for change in task.changes if change.before is None]
        self._new = {
            (change.table, change.key[0]): change
            for change in self._created
            if tables[change.table].has_id
        }
        self._id_variables: dict[tuple[str, Any], str] = {}  # new row -> the variable of its id

    def text(self) -> str:
        """The text of the function, with two empty lines in front."""
        task = self._task
        demands = [*self._demands(), *self._untouched()]
        demands += [f"check.answer_has({_arguments(fact)})" for fact in task.facts]
        demands += [f"check.declined({_arguments(reasons)})" for reasons in task.reasons]
        lines = ["check = Check(before, after, answer)"]
        lines += [self._find_id(row, name) for row, name in self._id_variables.items()]
        lines += [*demands, "check.nothing_else()", "return check.findings"]
        body = "".join(f"    {line}\n" for line in lines)
        return (
            f"\n\ndef {task.name}(before: State, after: State, answer: str) -> list[Finding]:\n"
            f'    """{task.about}"""\n{body}'
        )

    def _untouched(self) -> list[str]:
        touched = {(change.table, change.key) for change in self._task.changes}
        return [
            f"check.untouched({_py(table)}, {_py(row_id)})"
            for table, row_id in self._task.spare
            if (table, (row_id,)) not in touched
        ]

    def _demands(self) -> list[str]:
        lines = []
        for change in self._task.changes:
            start = f"({_py(change.table)}, {_key(change)}"
            if change.before is not None and change.after is not None:
                moved = {n: v for n, v in change.after.items() if change.before.get(n) != v}
                lines.append(f"check.updated{start}{self._values(change.table, moved)})")
            elif change.after is None:
                lines.append(f"check.deleted{start})")
        counts: dict[tuple[str, str], int] = {}
        for change in self._created:
            line = (change.table, self._values(change.table, self._compared(change)))
            counts[line] = counts.get(line, 0) + 1
        for (table, values), count in counts.items():
            argument = f", count={count}" if count > 1 else ""
            lines.append(f"check.created({_py(table)}{argument}{values})")
        return lines

    def _compared(self, created: RowChange) -> dict[str, Any]:
        """The columns of a new row that are compared."""
        table = self._tables[created.table]
        without = {*table.ignored, *(("id",) if table.has_id else ())}
        return {name: value for name, value in (created.after or {}).items() if name not in without}

    def _values(self, table: str, row: Mapping[str, Any]) -> str:
        return "".join(f", {name}={self._value(table, name, value)}" for name, value in row.items())

    def _value(self, table: str, column: str, value: Any) -> str:
        offers = self._task.free.get(f"{table}.{column}")
        if offers is not None:
            phrases = _phrases_of(offers, str(value))
            return f"mentions({_arguments(phrases)})" if phrases else "ANY"
        row = (self._tables[table].refers.get(column, ""), value)
        if row in self._new:
            return self._id_variables.setdefault(row, f"new_{len(self._id_variables) + 1}")
        return _py(value)

    def _find_id(self, row: tuple[str, Any], name: str) -> str:
        """The line that finds a new row's id by the columns that the agent does not word itself."""
        table = row[0]
        values = "".join(
            f", {column}={_py(value)}"
            for column, value in self._compared(self._new[row]).items()
            if f"{table}.{column}" not in self._task.free
            and (self._tables[table].refers.get(column, ""), value) not in self._new
        )
        return f"{name} = _new_id(after, {_py(table)}{values})"


def _phrases_of(offers: Sequence[tuple[str, ...]], text: str) -> tuple[str, ...]:
    """The phrases of the part that wrote this text: the first that the text mentions."""
    for phrases in offers:
        if any(says(text, phrase) for phrase in phrases):
            return phrases
    return ()


def _key(change: RowChange) -> str:
    return _py(change.key[0]) if len(change.key) == 1 else repr(change.key)


def _arguments(texts: Sequence[str]) -> str:
    return ", ".join(map(_py, texts))


def _py(value: Any) -> str:
    """A value in the syntax of Python, texts in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
