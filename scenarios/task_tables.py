"""The `[[task]]` tables of a TOML file (or tables of another name that belong to tasks): decoding
them, and naming one of them in an error message.

An error message names a task by the line of its `[[task]]` and by its id, as far as they are known:

    tasks.toml: line 12: task 'cancel-9': difficulty: 'easy' is not one of 'simple', …
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.decode_errors import field_of
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import parse_toml
from rehearsal_room.scenarios.value_checks import TASK_ID

T = TypeVar("T")


class TaskTables:
    """A TOML file with `[[task]]` tables. Raises PackageError when its text is not valid TOML.

    `table` is the tables' name, `key` the field that has the id of the task, and `word` what a
    message calls such a table.
    """

    def __init__(
        self, path: Path, text: str, *, table: str = "task", key: str = "id", word: str = "task"
    ) -> None:
        self.path = path
        self._table = table
        self._key = key
        self._word = word
        self._text = text
        self._tables = parse_toml(path, text)

    def convert(self, kind: type[T]) -> T:
        """The whole file as a value of this type.

        Raises PackageError naming the file, the line and id of the task, and the field.
        """
        try:
            return msgspec.convert(self._tables, kind)
        except msgspec.ValidationError as exc:
            field, fault = field_of(str(exc), kind)
            if found := re.fullmatch(rf"{self._table}\[(\d+)\]\.?(.*)", field, re.S):
                field = f"{self.name(int(found[1]))}{': ' if found[2] else ''}{found[2]}"
            raise PackageError(f"{self.path}: {field}{': ' if field else ''}{fault}") from exc

    def fault(self, index: int, reason: str, *, part: int | None = None) -> PackageError:
        """The error about a task, or about one of its criteria (`part`); both count from 0."""
        where = self.name(index) if part is None else self._part_name(index, part)
        return PackageError(f"{self.path}: {where}: {reason}")

    def _part_name(self, index: int, part: int) -> str:
        """Example: "line 31: task 'cancel-9': criterion[1]", by the line of that criterion"""
        task = self.name(index)
        name = f"{task[task.find(self._word) :]}: criterion[{part}]"
        tasks = self._tables[self._table]
        before = sum(len(one.get("criterion", ())) for one in tasks[:index])
        total = sum(len(one.get("criterion", ())) for one in tasks)
        line = self._line(before + part, [None] * total, rf"{self._table}[ \t]*\.[ \t]*criterion")
        return f"{task}: criterion[{part}]" if line is None else f"line {line}: {name}"

    def check_ids(self, ids: Sequence[str]) -> None:
        """Check that every id is a lower-case word and occurs once. Raises PackageError."""
        seen: set[str] = set()
        for index, task_id in enumerate(ids):
            if not TASK_ID.fullmatch(task_id):
                raise self.fault(index, f"id: {task_id!r} is not a lower-case word")
            if task_id in seen:
                raise self.fault(index, f"id: {task_id!r} occurs twice")
            seen.add(task_id)

    def name(self, index: int) -> str:
        """How an error message names a task; `index` counts the tasks from 0.

        Example: "line 12: task 'cancel-9'", or "task[3]" when neither line nor id is known
        """
        tasks = self._tables.get(self._table)
        task = tasks[index] if isinstance(tasks, list) and index < len(tasks) else None
        task_id = task.get(self._key) if isinstance(task, dict) else None
        known = isinstance(task_id, str)
        name = f"{self._word} {task_id!r}" if known else f"{self._table}[{index}]"
        line = self._line(index, tasks)
        return name if line is None else f"line {line}: {name}"

    def _line(self, index: int, tasks: Any, table: str = "") -> int | None:
        """The line of a task's `[[task]]`, or of another such `table`. None: not known, as the
        tasks are written otherwise, or a text over several lines contains such a header."""
        header = rf"^[ \t]*\[\[[ \t]*{table or self._table}[ \t]*\]\]"
        starts = [found.start() for found in re.finditer(header, self._text, re.M)]
        if not isinstance(tasks, list) or len(starts) != len(tasks):
            return None
        return self._text.count("\n", 0, starts[index]) + 1
