"""Build the database of an AWM record by the rules by which its authors built it.

    awm      what AWM's own functions do: for each table the DDL, its indexes and its examples, up
             to the first statement that fails; then the seed rows with foreign keys enforced, where
             each statement that fails is skipped
    openenv  what OpenEnv's functions do: no examples, no foreign keys; each statement that fails is
             skipped
    strict   as awm, but the first statement that fails is an error

(Sources: awm/core/db.py and sample.py of Snowflake-Labs/agent-world-model; server/db_manager.py of
OpenEnv's AWM environment.) All statements run as `sqlite3` runs them (see
envpool.hosting.dbapi.connections), in one transaction for the schema and one for the rows. Time is
the scenario's clock and random numbers follow from the scenario's digest, so every process builds
the same bytes.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from rehearsal_room.envpool.core.errors import SeedError
from rehearsal_room.envpool.core.remote_states import SeedFault
from rehearsal_room.envpool.hosting.dbapi.connections import Connection
from rehearsal_room.envpool.hosting.dbapi.database import WorldDatabase
from rehearsal_room.envpool.store.overlay import OverlayVFS
from rehearsal_room.scenarios.format import AwmRecord, AwmTable, Scenario, Seeding


class SeededDatabase(msgspec.Struct, frozen=True):
    """A seeded database."""

    pages: tuple[bytes, ...]
    num_statements: int  # INSERT statements of the seed rows
    faults: tuple[SeedFault, ...]


def seed(scenario: Scenario, vfs: OverlayVFS) -> SeededDatabase:
    """Build the database of a scenario's AWM record. Raises SeedError."""
    record = scenario.awm
    assert record is not None, "envpool.store.template.build seeds packages in our format"
    database = WorldDatabase(vfs, (), random_bytes=Random(scenario.digest).randbytes)
    try:
        overlay = database.fresh_overlay()
        database.enter(overlay)
        faults = [*_create_schema(database, record), *_insert_rows(database, record)]
        database.leave()
        pages = database.pages_of(overlay)
    except sqlite3.Error as exc:  # the last COMMIT failed: a deferred constraint
        raise SeedError(f"{scenario.path}: seed rows: the final COMMIT failed: {exc}") from exc
    finally:
        database.close()
    if record.seeding == "strict" and faults:
        raise SeedError(_format_fault(scenario.path, faults[0]))
    num_statements = sum(len(sample.insert_statements) for sample in record.samples)
    return SeededDatabase(pages, num_statements, tuple(faults))


def _create_schema(database: WorldDatabase, record: AwmRecord) -> Iterator[SeedFault]:
    """Create the tables; yield the failures. A table's statements are counted from its DDL, 0."""
    connection = Connection(database)
    for table in record.tables:
        for number, statement in enumerate(_schema_statements(table, record.seeding)):
            error = _execute(connection, statement)
            if error:
                yield SeedFault("schema", table.name, number, error)
                if record.seeding != "openenv":
                    break
    connection.commit()
    connection.close()


def _schema_statements(table: AwmTable, seeding: Seeding) -> tuple[str, ...]:
    examples = () if seeding == "openenv" else table.examples
    return (table.ddl, *table.indexes, *examples)


def _insert_rows(database: WorldDatabase, record: AwmRecord) -> Iterator[SeedFault]:
    """Insert the seed rows; yield the failures."""
    connection = Connection(database)
    if record.seeding != "openenv":
        connection.execute("PRAGMA foreign_keys=ON")
    for sample in record.samples:
        for number, statement in enumerate(sample.insert_statements):
            error = _execute(connection, statement)
            if error:
                yield SeedFault("seed", sample.table_name, number, error)
    connection.commit()
    connection.close()


def _execute(connection: Connection, statement: str) -> str:
    """Execute a statement; return its error, empty when it succeeds."""
    try:
        connection.execute(statement)
    except (sqlite3.Error, UnicodeError, MemoryError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return ""


def _format_fault(path: Path, fault: SeedFault) -> str:
    name = "schema.json" if fault.stage == "schema" else "data.json"
    return f"{path / name}: table {fault.table}: statement {fault.statement}: {fault.error}"
