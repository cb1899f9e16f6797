"""Which rows of a folder's files belong to which scenario, and which of several counts.

    gen_scenario.jsonl            name, description; may be absent
    gen_tasks.jsonl               scenario, tasks
    gen_db.jsonl                  scenario, db_schema
    gen_sample.jsonl              scenario, sample_data
    gen_spec.jsonl                scenario, api_spec; not used, may be absent
    gen_envs.jsonl                scenario, full_code
    gen_verifier.jsonl            scenario, task_idx, verification; may be absent
    gen_verifier.pure_code.jsonl  the same

Rows are joined by the normalised name, whatever their order. Of rows with one key the first counts,
in gen_envs.jsonl the last, as with AWM's loaders; they are told as duplicates.

A broken line refuses the scenario that it names, even where another row of it is whole: which of
them was meant cannot be known. A line that names none is a fault of its file.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from scenarios.awm.names import package_name
from scenarios.awm.row_index import Index, KeyedBy, Row, index_of
from scenarios.errors import RecordError

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
    """Rows of one key in one file."""

    scenario: str
    file: str
    lines: tuple[int, ...]
    taken: int  # the line that counts
    task: int | None = None  # verifiers: the index of the task


class Join:
    """The files of a folder, each read once; of a row only its place is kept.

    Raises PackageError when a file that must be there is not.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Index] = {
            file: index_of(folder / file, keyed_by)
            for file, keyed_by in _KEYED_BY.items()
            if file in _NEEDED or (folder / file).exists()
        }
        names = {name for index in self._files.values() for name in index.rows}
        for index in self._files.values():
            names |= {fault.name for fault in index.faults if fault.name is not None}
        self.keys = {package_name(name): name for name in sorted(names)}  # the rows' by ours

    def row(self, file: str, name: str) -> Row | None:
        """The row that counts. None: there is none."""
        return next(iter(self.rows_by_task(file, name).values()), None)

    def needed(self, file: str, name: str) -> Row:
        """The row that counts. Raises RecordError where there is none."""
        row = self.row(file, name)
        if row is None:
            raise RecordError(self.folder, file, None, f"there is no row of scenario {name!r}")
        return row

    def rows_by_task(self, file: str, name: str) -> dict[int | None, Row]:
        """The row that counts for each task; in files without tasks the key is None."""
        return {task: _taken(file, rows) for task, rows in self._rows(file, name).items()}

    def taken(self, name: str) -> Iterator[tuple[str, Row]]:
        """Every row that counts for a scenario, with its file."""
        for file in self._files:
            yield from ((file, row) for row in self.rows_by_task(file, name).values())

    def duplicates(self, name: str) -> Iterator[Duplicate]:
        """What is there more than once."""
        for file in self._files:
            for task, rows in self._rows(file, name).items():
                if len(rows) > 1:
                    lines = tuple(row.line for row in rows)
                    yield Duplicate(name, file, lines, _taken(file, rows).line, task)

    def faults(self, name: str | None) -> Iterator[RecordError]:
        """The broken lines of a scenario; None: those of no scenario that could be told."""
        for file, index in self._files.items():
            for fault in index.faults:
                if fault.name == (None if name is None else self.keys[name]):
                    yield RecordError(self.folder, file, fault.line, fault.reason)

    def _rows(self, file: str, name: str) -> dict[int | None, list[Row]]:
        """The rows of a scenario by task."""
        grouped: dict[int | None, list[Row]] = {}
        if index := self._files.get(file):
            for row in index.rows.get(self.keys[name], ()):
                grouped.setdefault(row.task, []).append(row)
        return grouped


def _taken(file: str, rows: list[Row]) -> Row:
    return rows[-1] if file == ENVS else rows[0]
