"""Executing the SQL of a draft, every statement of it: which ones fail, and why."""

import re
from pathlib import Path

import msgspec

from scenarios.synth.core.package_files import Script, script_of, texts_of, write
from scenarios.synth.core.protocols import Bench, Unhostable
from scenarios.synth.core.world_drafts import Draft

_REFERENCE = "FOREIGN KEY constraint failed"
_MOST = 20  # statements that fail and are told at once
_PLACE = re.compile(r"(schema|data)\.sql: (?:line (\d+): )?(.*)", re.S)


class StatementFault(msgspec.Struct, frozen=True):
    """A statement that fails. `number` is its place in its file, from 1; 0: it is not one of them
    (a foreign key that leads nowhere, found when all were executed)."""

    file: str
    number: int
    error: str

    def told(self) -> str:
        """In words."""
        return f"{self.file} statement {self.number}: {self.error}" if self.number else self.error


async def statement_faults(bench: Bench, draft: Draft, folder: Path) -> list[StatementFault]:
    """Everything that fails. What fails is set aside and the rest tried again, until all of it is
    known; the package is written to `folder`. Raises Unhostable for what is not the SQL's."""
    statements = {"schema": list(draft.schema), "data": list(draft.data)}
    faults: list[StatementFault] = []
    while len(faults) < _MOST:
        scripts = {name: script_of(texts) for name, texts in statements.items()}
        texts = texts_of(draft) | {f"{name}.sql": script.text for name, script in scripts.items()}
        scenario = write(folder, texts)
        try:
            async with bench.host(scenario):
                return _causes(faults)
        except Unhostable as exc:
            if exc.kind != "seed":
                raise
            fault = _located(exc.reason, scripts)
        if not fault.number:
            return _causes(faults) or [fault]
        faults.append(fault)
        statements[fault.file][fault.number - 1] = ""
    return _causes(faults)


def _causes(faults: list[StatementFault]) -> list[StatementFault]:
    """The faults without references that lead nowhere, unless there are no others: the rows that
    they refer to may stand in a statement that was set aside."""
    return [fault for fault in faults if _REFERENCE not in fault.error] or faults


def _located(reason: str, scripts: dict[str, Script]) -> StatementFault:
    found = _PLACE.search(reason)
    if found is None:
        return StatementFault("schema", 0, reason)
    file, line, error = found.groups()
    number = scripts[file].statement_at(int(line)) if line else 0
    return StatementFault(file, number, " ".join(error.split()))
