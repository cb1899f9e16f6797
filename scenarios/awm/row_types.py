"""From the rows of one AWM scenario to what they say, in whatever shape it was written.

The shapes are those that AWM's own loader and OpenEnv's accept: seed data as a list or as
`{"tables": [...]}`, its items as objects or as plain SQL, an index or a statement of any type (it
is made text, and will fail when it is run). What neither accepts is refused with its field.
"""

from typing import Any

import msgspec

from scenarios.decode_errors import field_sentence
from scenarios.format import AwmSample, AwmTable

MIN_VERIFIER = 10  # characters; shorter code is no verifier, as with AWM


class Refused(Exception):
    """A row says something that cannot be taken; the text names the field."""


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
        """The tables with what belongs to them."""
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
        """The seed statements in their order. Raises Refused."""
        data = self.sample_data
        place = "sample_data"
        if isinstance(data, dict) and "tables" in data:
            data = data["tables"]
            place = "sample_data.tables"
        if not data:  # null, or an empty list or object
            return ()
        if not isinstance(data, list):
            raise Refused("sample_data: expected a list, or an object with `tables`")
        return tuple(_sample(f"{place}[{index}]", item) for index, item in enumerate(data))


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
        """The verifier's code; None: there is none worth the name."""
        code = self.verification.code if self.verification else None
        return code if code is not None and len(code.strip()) >= MIN_VERIFIER else None


class _Sample(msgspec.Struct):
    table_name: str = ""
    insert_statements: list[Any] | None = None


def _sample(place: str, item: Any) -> AwmSample:
    if isinstance(item, str):
        return AwmSample("", (item,))
    try:
        sample = msgspec.convert(item, _Sample)
    except msgspec.ValidationError as exc:
        field, _, fault = field_sentence(str(exc)).rpartition(": ")
        raise Refused(f"{place}{'.' if field else ''}{field}: {fault}") from exc
    return AwmSample(sample.table_name, _texts(sample.insert_statements))


def _texts(items: list[Any] | None) -> tuple[str, ...]:
    return tuple(str(item) for item in items or ())
