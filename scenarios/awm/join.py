"""Joining the files of an AWM folder: the rows of each scenario, and which of several is used.

    gen_scenario.jsonl            name, description; may be absent
    gen_tasks.jsonl               scenario, tasks
    gen_db.jsonl                  scenario, db_schema
    gen_sample.jsonl              scenario, sample_data
    gen_spec.jsonl                scenario, api_spec; not used, may be absent
    gen_envs.jsonl                scenario, full_code
    gen_verifier.jsonl            scenario, task_idx, verification; may be absent
    gen_verifier.pure_code.jsonl  the same

Rows are joined by the normalised name, in any order. Of several rows with the same key the first is
used, and in gen_envs.jsonl the last, as in AWM's loaders; they are reported as duplicates.

A broken line refuses the scenario that it names, even when another row of the scenario is valid:
it is not known which of the rows is the right one. A line that names no scenario is a fault of its
file.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.awm.names import package_name
from rehearsal_room.scenarios.awm.row_index import KeyedBy, RowIndex, RowPosition, index_of
from rehearsal_room.scenarios.errors import RecordError

SCENARIO, TASKS, DB = "gen_scenario.jsonl", "gen_tasks.jsonl", "gen_db.jsonl"
SAMPLE, SPEC, ENVS = "gen_sample.jsonl", "gen_spec.jsonl", "gen_envs.jsonl"
SQL, CODE = "gen_verifier.jsonl", "gen_verifier.pure_code.jsonl"
_KEYED_BY: dict[str, KeyedBy] = {
    ENVS: "scenario",
    DB: "scenario",
    SAMPLE: "scenario",
    TASKS: "scenario",
    SCENARIO: "name",
    SPEC: "scenario",
    SQL: "task",
    CODE: "task",
}
_NEEDED = {ENVS, DB, SAMPLE, TASKS}


class Duplicate(msgspec.Struct, frozen=True):
    """Several rows with the same key in one file."""

    scenario: str
    file: str
    lines: tuple[int, ...]
    taken: int  # the line that is used; source.toml has this key
    task: int | None = None  # verifiers: the index of the task


class Join:
    """The files of a folder, each read once; only the position of each row is kept in memory.

    Raises PackageError when a required file is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, RowIndex] = {
            file: index_of(folder / file, keyed_by)
            for file, keyed_by in _KEYED_BY.items()
            if file in _NEEDED or (folder / file).exists()
        }
        names = {name for index in self._files.values() for name in index.rows}
        for index in self._files.values():
            names |= {fault.name for fault in index.faults if fault.name is not None}
        self.keys = {package_name(name): name for name in sorted(names)}  # package -> row name

    def row(self, file: str, name: str) -> RowPosition | None:
        """The row that is used. None: there is no row."""
        return next(iter(self.rows_by_task(file, name).values()), None)

    def required_row(self, file: str, name: str) -> RowPosition:
        """The row that is used. Raises RecordError where there is no row."""
        row = self.row(file, name)
        if row is None:
            raise RecordError(self.folder, file, None, f"there is no row for scenario {name!r}")
        return row

    def rows_by_task(self, file: str, name: str) -> dict[int | None, RowPosition]:
        """The row that is used for each task; in files without tasks the key is None."""
        return {task: _used_row(file, rows) for task, rows in self._rows(file, name).items()}

    def used_rows(self, name: str) -> Iterator[tuple[str, RowPosition]]:
        """Yield every row that is used for a scenario, with its file."""
        for file in self._files:
            yield from ((file, row) for row in self.rows_by_task(file, name).values())

    def duplicates(self, name: str) -> Iterator[Duplicate]:
        """Yield the keys of a scenario that have several rows."""
        for file in self._files:
            for task, rows in self._rows(file, name).items():
                if len(rows) > 1:
                    lines = tuple(row.line for row in rows)
                    yield Duplicate(name, file, lines, _used_row(file, rows).line, task)

    def faults(self, name: str | None) -> Iterator[RecordError]:
        """Yield the broken lines of a scenario; `name` None: those whose scenario is not known."""
        for file, index in self._files.items():
            for fault in index.faults:
                if fault.name == (None if name is None else self.keys[name]):
                    yield RecordError(self.folder, file, fault.line, fault.reason)

    def _rows(self, file: str, name: str) -> dict[int | None, list[RowPosition]]:
        """The rows of a scenario by task."""
        grouped: dict[int | None, list[RowPosition]] = {}
        if index := self._files.get(file):
            for row in index.rows.get(self.keys[name], ()):
                grouped.setdefault(row.task, []).append(row)
        return grouped


def _used_row(file: str, rows: list[RowPosition]) -> RowPosition:
    return rows[-1] if file == ENVS else rows[0]
