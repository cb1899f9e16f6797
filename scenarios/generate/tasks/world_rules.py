"""The rules that a world has as data, applied to the oracles of its tasks.

A situation is written for itself. In a drawn world, what it asks for may break a rule together with
the rows of others: the colleague to whom a ticket goes back has four already.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.generate.core.package import Package, seeded


class WorldRules:
    """The rules of a package and its rows at the start; a context manager, which closes them."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._stack = ExitStack()

    def __enter__(self) -> "WorldRules":
        self._db = self._stack.enter_context(seeded(self._package))
        for (name,) in self._db.execute(_TRIGGERS).fetchall():
            self._db.execute(f'DROP TRIGGER "{name}"')  # the changes have what they did
        self._db.commit()
        self._at_start = self._broken()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def broken_by(self, changes: Sequence[RowChange]) -> str:
        """What the changes break, in words; empty: nothing."""
        for rule in self._package.never_touch:
            if any(map(rule.forbids, changes)):
                return f"it touches what is never touched: {rule.rule}"
        if not changes or not self._package.row_rules:
            return ""
        try:
            for change in changes:
                _apply(self._db, change)
            broken = self._broken()
        finally:
            self._db.rollback()
        for rule_text, rows in broken.items():
            if rows - self._at_start[rule_text]:
                return f"its end breaks the rule: {rule_text}"
        return ""

    def _broken(self) -> dict[str, set[tuple[Any, ...]]]:
        """The rows that break each rule."""
        rules = self._package.row_rules
        return {one.rule: set(self._db.execute(one.broken_by)) for one in rules}


_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"


def _apply(db: sqlite3.Connection, change: RowChange) -> None:
    if change.before is not None:
        where = " AND ".join(f'"{name}" IS ?' for name in change.before)
        db.execute(f'DELETE FROM "{change.table}" WHERE {where}', _values(change.before))  # nosec B608
    if change.after is not None:
        names = ", ".join(f'"{name}"' for name in change.after)
        marks = ", ".join("?" for _ in change.after)
        db.execute(
            f'INSERT INTO "{change.table}" ({names}) VALUES ({marks})',  # nosec B608
            _values(change.after),
        )


def _values(row: Row) -> tuple[Any, ...]:
    return tuple(row.values())
