"""The ids and times that a server makes by itself, when logged calls are made again.

A server whose clock and random numbers cannot be seeded makes other ids each time. Where the logged
result of a call is known, the two texts and the two sets of changed rows are laid side by side: an
id or time that is new in both stands for the logged one from then on. What the agent says is
translated to the server's ids, what the server says and writes to the logged ones; so a replay, a
fork and a resumed episode go on with the ids that the agent has seen.

Only what looks like an id or a time is translated: a text of at least six characters with a digit,
amounts aside (a UUID, `N-48213`, `2026-03-02T09:00:01Z`), or a number of at least nine digits.
A name, a price or a count that differs stays a difference.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rehearsal_room.envpool.mcp_state.types import Reading, RowWrite
from rehearsal_room.scenarios.api import RowChange

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]*[A-Za-z0-9]|[A-Za-z0-9]")
_AMOUNT = re.compile(r"[+-]?\d+(?:\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?|\d\d:\d\d(?::\d\d.*)?|\d{9,}(?:\.\d+)?")
_SHORTEST = 6


class OwnIds:
    """What stands for what. It learns from results, and translates both ways."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}  # the server's -> the logged one
        self._own: dict[str, str] = {}
        self._numbers: dict[float, float] = {}

    def __len__(self) -> int:
        return len(self._logged) + len(self._numbers)

    def learn(self, text: str, logged: str) -> None:
        """Learn from the text of a result and the logged one."""
        own, other = _TOKEN.findall(text), _TOKEN.findall(logged)
        if len(own) == len(other) and _TOKEN.sub("", text) == _TOKEN.sub("", logged):
            for one, two in zip(own, other, strict=True):
                self._add(one, two)

    def learn_rows(self, writes: Iterable[RowWrite], logged: Sequence[RowChange]) -> None:
        """Learn from rows that a call wrote and the logged changes, in the order of their tables
        and kinds."""
        left = list(logged)
        for write in sorted(writes, key=lambda one: one.table):
            kind = write.before is None, write.after is None
            match = next(
                (
                    change
                    for change in left
                    if change.table == write.table
                    and kind == (change.before is None, change.after is None)
                    and self._fits(write, change)
                ),
                None,
            )
            if match is None:
                continue
            left.remove(match)
            for values, row in ((write.before, match.before), (write.after, match.after)):
                if values is not None and row is not None and len(values) == len(row):
                    for one, two in zip(values, row.values(), strict=True):
                        self._add_value(one, two)

    def _fits(self, write: RowWrite, change: RowChange) -> bool:
        """Whether a row can be the logged one: all but ids and times is equal."""
        pairs: list[tuple[Any, Any]] = []
        for values, row in ((write.before, change.before), (write.after, change.after)):
            if values is not None and row is not None:
                pairs += zip(values, row.values(), strict=False)
        return all(
            self._value(one) == two or (_is_made(one) and _is_made(two)) for one, two in pairs
        )

    def _add_value(self, own: Any, logged: Any) -> None:
        if isinstance(own, str) and isinstance(logged, str):
            if _is_made(own) and _is_made(logged):
                self._add(own, logged)
            else:
                self.learn(own, logged)
        elif own != logged and _is_made(own) and _is_made(logged):
            self._numbers.setdefault(own, logged)

    def _add(self, own: str, logged: str) -> None:
        is_new = own not in self._logged and logged not in self._own
        if own != logged and is_new and _is_made(own) and _is_made(logged):
            self._logged[own], self._own[logged] = logged, own

    def to_server(self, value: Any) -> Any:
        """Arguments with the server's ids in place of the logged ones."""
        if isinstance(value, dict):
            return {name: self.to_server(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.to_server(one) for one in value]
        return _replaced(value, self._own) if isinstance(value, str) else value

    def to_log(self, text: str) -> str:
        """A text of the server with the logged ids in place of its own."""
        return _replaced(text, self._logged)

    def rows_to_log(self, reading: Reading) -> Reading:
        """The same for the rows that the server wrote."""
        writes = tuple(
            RowWrite(one.table, one.rowid, self._row(one.before), self._row(one.after))
            for one in reading.writes
        )
        return Reading(writes, reading.shapes)

    def _row(self, row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        return None if row is None else tuple(map(self._value, row))

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._logged.get(value) or _replaced(value, self._logged)
        return self._numbers.get(value, value) if isinstance(value, int | float) else value


def _is_made(value: Any) -> bool:
    """Whether a value looks like an id or a time that a program made."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return abs(value) >= 10**8
    if not isinstance(value, str) or not any(map(str.isdigit, value)):
        return False
    if _TIME.fullmatch(value):
        return True
    return len(value) >= _SHORTEST and not _AMOUNT.fullmatch(value) and " " not in value


def _replaced(text: str, ids: dict[str, str]) -> str:
    if not ids:
        return text
    return _TOKEN.sub(lambda found: ids.get(found[0], found[0]), text)
