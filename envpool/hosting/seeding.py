"""Building the database of an AWM record by the rules under which its authors built it.

    awm      what AWM's own functions do: per table the DDL, its indexes and its examples, where the
             first that fails ends the table's; then the seed rows with foreign keys enforced, each
             that fails skipped
    openenv  what OpenEnv's do: no examples, no foreign keys; each statement that fails skipped
    strict   as awm, and the first that fails is an error

(Sources: awm/core/db.py and sample.py of Snowflake-Labs/agent-world-model; server/db_manager.py of
OpenEnv's AWM environment.) All statements run as `sqlite3` runs them (see
envpool.hosting.dbapi.connections),
one transaction for the schema and one for the rows. Time is the scenario's clock and chance follows
from the scenario's digest, so every process builds the same bytes.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from envpool.core.errors import SeedError
from envpool.core.offload import SeedFault
from envpool.hosting.dbapi.connections import Connection
from envpool.hosting.dbapi.database import WorldDatabase
from envpool.store.overlay import OverlayVFS
from scenarios.format import AwmRecord, AwmTable, Scenario, Seeding


class Seeded(msgspec.Struct, frozen=True):
    """A seeded database."""

    pages: tuple[bytes, ...]
    num_statements: int  # of the seed rows
    faults: tuple[SeedFault, ...]


def seed(scenario: Scenario, vfs: OverlayVFS) -> Seeded:
    """Build the database of a scenario's AWM record. Raises SeedError."""
    record = scenario.awm
    assert record is not None, "a package of ours has scripts (see envpool.store.template.build)"
    database = WorldDatabase(vfs, (), chance=Random(scenario.digest).randbytes)
    try:
        overlay = database.start()
        database.enter(overlay)
        faults = [*_schema(database, record), *_rows(database, record)]
        database.leave()
        pages = database.pages_of(overlay)
    except sqlite3.Error as exc:  # of the last COMMIT: a deferred constraint
        raise SeedError(f"{scenario.path}: seed rows: they cannot be committed: {exc}") from exc
    finally:
        database.close()
    if record.seeding == "strict" and faults:
        raise SeedError(_sentence(scenario.path, faults[0]))
    num_statements = sum(len(sample.insert_statements) for sample in record.samples)
    return Seeded(pages, num_statements, tuple(faults))


def _schema(database: WorldDatabase, record: AwmRecord) -> Iterator[SeedFault]:
    """Create the tables; yields what failed. Statements count from the table's DDL, which is 0."""
    connection = database.connect()
    for table in record.tables:
        for number, statement in enumerate(_of_schema(table, record.seeding)):
            error = _failure(connection, statement)
            if error:
                yield SeedFault("schema", table.name, number, error)
                if record.seeding != "openenv":
                    break
    connection.commit()
    connection.close()


def _of_schema(table: AwmTable, seeding: Seeding) -> tuple[str, ...]:
    examples = () if seeding == "openenv" else table.examples
    return (table.ddl, *table.indexes, *examples)


def _rows(database: WorldDatabase, record: AwmRecord) -> Iterator[SeedFault]:
    """Insert the seed rows; yields what failed."""
    connection = database.connect()
    if record.seeding != "openenv":
        connection.execute("PRAGMA foreign_keys=ON")
    for sample in record.samples:
        for number, statement in enumerate(sample.insert_statements):
            error = _failure(connection, statement)
            if error:
                yield SeedFault("seed", sample.table_name, number, error)
    connection.commit()
    connection.close()


def _failure(connection: Connection, statement: str) -> str:
    """Execute a statement; what is wrong with it, empty when nothing is."""
    try:
        connection.execute(statement)
    except (sqlite3.Error, UnicodeError, MemoryError) as exc:
        return f"{type(exc).__name__}: {exc}"
    return ""


def _sentence(path: Path, fault: SeedFault) -> str:
    name = "schema.json" if fault.stage == "schema" else "data.json"
    return f"{path / name}: table {fault.table}: statement {fault.statement}: {fault.error}"
