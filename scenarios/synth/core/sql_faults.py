"""Executing every SQL statement of a draft, to find the statements that fail and the reasons."""

import re
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.synth.core.package_files import (
    SqlScript,
    package_texts,
    script_of,
    write_package,
)
from rehearsal_room.scenarios.synth.core.protocols import DraftHost, Unhostable
from rehearsal_room.scenarios.synth.core.world_drafts import WorldDraft

_REFERENCE = "FOREIGN KEY constraint failed"
_MOST = 20  # failing statements that are reported at once
_LOCATION = re.compile(r"(schema|data)\.sql: (?:line (\d+): )?(.*)", re.S)


class StatementFault(msgspec.Struct, frozen=True):
    """A failing statement. `number` counts the statements of its file from 1; 0: the fault belongs
    to no statement (a foreign key without a row, found after all statements were executed)."""

    file: str
    number: int
    error: str

    def describe(self) -> str:
        """The fault in words."""
        return f"{self.file} statement {self.number}: {self.error}" if self.number else self.error


async def find_statement_faults(
    host: DraftHost, draft: WorldDraft, folder: Path
) -> list[StatementFault]:
    """All failing statements (at most 20).

    A failing statement is left out and the rest is executed again, until all faults are known. The
    package is written to `folder`. Raises Unhostable for faults outside of the SQL.
    """
    statements = {"schema": list(draft.schema), "data": list(draft.data)}
    faults: list[StatementFault] = []
    while len(faults) < _MOST:
        scripts = {name: script_of(texts) for name, texts in statements.items()}
        texts = package_texts(draft) | {
            f"{name}.sql": script.text for name, script in scripts.items()
        }
        scenario = write_package(folder, texts)
        try:
            async with host.host(scenario):
                return _causes(faults)
        except Unhostable as exc:
            if exc.kind != "seed":
                raise
            fault = _locate(exc.reason, scripts)
        if not fault.number:
            return _causes(faults) or [fault]
        faults.append(fault)
        statements[fault.file][fault.number - 1] = ""
    return _causes(faults)


def _causes(faults: list[StatementFault]) -> list[StatementFault]:
    """The faults without broken references, unless there are no others: the rows that they refer to
    may be in a statement that was left out."""
    return [fault for fault in faults if _REFERENCE not in fault.error] or faults


def _locate(reason: str, scripts: dict[str, SqlScript]) -> StatementFault:
    found = _LOCATION.search(reason)
    if found is None:
        return StatementFault("schema", 0, reason)
    file, line, error = found.groups()
    number = scripts[file].statement_at(int(line)) if line else 0
    return StatementFault(file, number, " ".join(error.split()))
