"""The types of the rows in AWM's files, in every shape that occurs.

Accepted are the shapes that AWM's own loader and OpenEnv's accept: seed data as a list or as
`{"tables": [...]}`, its items as objects or as plain SQL, an index or a statement of any type (it
is converted to text, and fails when it is executed). Any other shape is refused with its field.
"""

from typing import Any

import msgspec

from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.format import AwmSample, AwmTable

MIN_VERIFIER = 10  # characters; shorter code does not count as a verifier, as in AWM


class InvalidRow(Exception):
    """A row has a value of an unknown shape; the text names the field."""


class ScenarioRow(msgspec.Struct):
    """A row of gen_scenario.jsonl."""

    name: str
    description: str | None = None


class TasksRow(msgspec.Struct):
    """A row of gen_tasks.jsonl."""

    scenario: str
    tasks: tuple[str, ...]


class _Table(msgspec.Struct):
    name: str = ""
    ddl: str | None = None
    indexes: list[Any] | None = None
    examples: list[Any] | None = None


class _Schema(msgspec.Struct):
    tables: list[_Table]


class DbRow(msgspec.Struct):
    """A row of gen_db.jsonl."""

    scenario: str
    db_schema: _Schema

    @property
    def tables(self) -> tuple[AwmTable, ...]:
        """The tables with their indexes and examples."""
        return tuple(
            AwmTable(table.name, table.ddl or "", _texts(table.indexes), _texts(table.examples))
            for table in self.db_schema.tables
        )


class SampleRow(msgspec.Struct):
    """A row of gen_sample.jsonl."""

    scenario: str
    sample_data: Any

    @property
    def samples(self) -> tuple[AwmSample, ...]:
        """The seed statements in their order. Raises InvalidRow."""
        data = self.sample_data
        field = "sample_data"
        if isinstance(data, dict) and "tables" in data:
            data = data["tables"]
            field = "sample_data.tables"
        if not data:  # null, or an empty list or object
            return ()
        if not isinstance(data, list):
            raise InvalidRow("sample_data: expected a list, or an object with `tables`")
        return tuple(_sample(f"{field}[{index}]", item) for index, item in enumerate(data))


class EnvRow(msgspec.Struct):
    """A row of gen_envs.jsonl."""

    scenario: str
    full_code: str | None = None


class _Verification(msgspec.Struct):
    code: str | None = None


class VerifierRow(msgspec.Struct):
    """A row of either verifier file."""

    scenario: str
    verification: _Verification | None = None

    @property
    def code(self) -> str | None:
        """The verifier's code; None: it is absent or shorter than MIN_VERIFIER."""
        code = self.verification.code if self.verification else None
        return code if code is not None and len(code.strip()) >= MIN_VERIFIER else None


class _Sample(msgspec.Struct):
    table_name: str = ""
    insert_statements: list[Any] | None = None


def _sample(path: str, item: Any) -> AwmSample:
    if isinstance(item, str):
        return AwmSample("", (item,))
    try:
        sample = msgspec.convert(item, _Sample)
    except msgspec.ValidationError as exc:
        field, _, fault = field_sentence(str(exc)).rpartition(": ")
        raise InvalidRow(f"{path}{'.' if field else ''}{field}: {fault}") from exc
    return AwmSample(sample.table_name, _texts(sample.insert_statements))


def _texts(items: list[Any] | None) -> tuple[str, ...]:
    return tuple(str(item) for item in items or ())
