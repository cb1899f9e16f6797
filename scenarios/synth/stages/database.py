"""The stages that write the database: its tables, then its rows. Every statement is executed."""

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.format import AwmSample, AwmTable
from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer, bullet_list
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import DraftHost, PromptMessage, Unhostable
from rehearsal_room.scenarios.synth.core.sql_faults import StatementFault, find_statement_faults
from rehearsal_room.scenarios.synth.core.world_drafts import WorldDraft
from rehearsal_room.scenarios.synth.stages.common import DraftStage, Sizes

_SECRETS = re.compile(  # the name of a column and the beginning of its type
    r"(?:^|[(,])\s*[\"`\[]?(\w*passw(?:or)?d\w*|salt|(?:session|auth|access)_token)[\"`\]]?\s+[a-z]",
    re.I | re.M,
)
_SCHEMA = re.compile(r"\s*create\s+(unique\s+)?(table|index|trigger)\b", re.I)


class _TableAnswer(msgspec.Struct):
    ddl: str
    name: str = ""
    indexes: list[str] = []
    triggers: list[str] = []


class _SchemaAnswer(msgspec.Struct):
    tables: list[_TableAnswer]


class SchemaStage(DraftStage):
    """The tables."""

    name = "schema"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tables": self._sizes.stated("tables")}

    async def check(self, text: str) -> CheckedAnswer[tuple[AwmTable, ...]]:
        """Execute every statement; it may only create a table, an index or a trigger."""
        try:
            answer = json_of(text, _SchemaAnswer)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        tables = tuple(
            AwmTable(table.name, table.ddl, (*table.indexes, *table.triggers))
            for table in answer.tables
        )
        faults = _schema_faults(tables)
        if not tables:
            return CheckedAnswer(None, ("there is no table",))
        draft = msgspec.structs.replace(self._draft, tables=tables)
        try:
            failing = await find_statement_faults(self._host, draft, self._folder)
        except Unhostable as exc:
            return CheckedAnswer(None, (exc.reason,))
        faults += [fault.describe() for fault in failing]
        return CheckedAnswer(tables, tuple(faults), self._sizes.notes("tables", len(tables)))


def holds_several(statement: str) -> bool:
    """Whether a text that should be one statement is several.

    Example: "INSERT INTO t VALUES (';'); DELETE FROM t" -> True
    """
    pending = ""
    *pieces, rest = statement.split(";")
    for index, piece in enumerate(pieces):
        pending += f"{piece};"
        if sqlite3.complete_statement(pending):
            after = ";".join([*pieces[index + 1 :], rest])
            return re.sub(r"--[^\n]*|[\s;]", "", after) != ""
    return False


def _schema_faults(tables: Sequence[AwmTable]) -> list[str]:
    faults = []
    counts = Counter(table.name for table in tables)
    for table in tables:
        for statement in (table.ddl, *table.indexes):
            shown = " ".join(statement.split())[:60]
            if not _SCHEMA.match(statement):
                faults.append(f"table {table.name}: only CREATE TABLE, INDEX, TRIGGER: {shown}")
            elif holds_several(statement):
                faults.append(f"table {table.name}: one statement at a time: {shown}")
        if counts[table.name] > 1:
            faults.append(f"table {table.name} is there {counts[table.name]} times")
        secrets = [found[1].lower() for found in _SECRETS.finditer(table.ddl)]
        faults += [f"table {table.name}: no column for a {secret}" for secret in secrets]
    return faults


class _SampleAnswer(msgspec.Struct):
    insert_statements: list[str]
    table_name: str = ""


class _DataAnswer(msgspec.Struct):
    tables: list[_SampleAnswer]


class _Repair(msgspec.Struct):
    statement: int
    sql: str


class _Repairs(msgspec.Struct):
    repairs: list[_Repair]


class DataStage(DraftStage):
    """The rows. A failing statement is repaired, never skipped: data with a failing statement is
    not valid."""

    name = "data"

    def __init__(
        self, draft: WorldDraft, prompts: Prompts, sizes: Sizes, host: DraftHost, folder: Path
    ) -> None:
        super().__init__(draft, prompts, sizes, host, folder)
        self._last: tuple[AwmSample, ...] = ()  # what repairs are applied to
        self._failing: list[StatementFault] = []

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "rows": self._sizes.stated("rows")}

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        """The messages with the failing statements, to be repaired one by one."""
        if not self._failing:
            return super().correction(problems)
        statements = [text for sample in self._last for text in sample.insert_statements]
        repairs = [
            fault.describe() + (f"\n  {statements[fault.number - 1]}" if fault.number else "")
            for fault in self._failing
        ]
        return self._prompts.messages("repair", problems=bullet_list(repairs))

    async def check(self, text: str) -> CheckedAnswer[tuple[AwmSample, ...]]:
        """Execute every statement, check foreign keys, and require rows."""
        try:
            samples = self._read(text)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        statements = [statement for sample in samples for statement in sample.insert_statements]
        if not any(statement.strip() for statement in statements):
            return CheckedAnswer(None, ("there is no INSERT",))
        faults = [
            f"data statement {number}: only INSERT is for data: {' '.join(statement.split())[:60]}"
            for number, statement in enumerate(statements, 1)
            if statement.strip() and not re.match(r"\s*insert\b", statement, re.I)
        ] + [
            f"data statement {number}: one statement at a time: {' '.join(statement.split())[:60]}"
            for number, statement in enumerate(statements, 1)
            if holds_several(statement)
        ]
        draft = msgspec.structs.replace(self._draft, samples=samples)
        try:
            self._failing = await find_statement_faults(self._host, draft, self._folder)
        except Unhostable as exc:
            return CheckedAnswer(None, (exc.reason,))
        self._last = samples
        return CheckedAnswer(samples, (*faults, *(fault.describe() for fault in self._failing)))

    def _read(self, text: str) -> tuple[AwmSample, ...]:
        """The whole data, or the last data with repairs. Raises UnreadableAnswer."""
        if self._last:
            try:
                return self._repair(json_of(text, _Repairs).repairs)
            except UnreadableAnswer:
                pass  # the answer is the whole data again
        return tuple(
            AwmSample(table.table_name, tuple(table.insert_statements))
            for table in json_of(text, _DataAnswer).tables
        )

    def _repair(self, repairs: Sequence[_Repair]) -> tuple[AwmSample, ...]:
        by_number = {repair.statement: repair.sql for repair in repairs}
        number = 0
        samples = []
        for sample in self._last:
            statements = []
            for statement in sample.insert_statements:
                number += 1
                statements.append(by_number.pop(number, statement))
            samples.append(AwmSample(sample.table_name, tuple(statements)))
        more = tuple(by_number[key] for key in sorted(by_number))  # numbers beyond the last one
        return (*samples, AwmSample("", more)) if more else tuple(samples)
