"""AWM records become databases by AWM's rules: rows equal the goldens, faults are reported."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.errors import SeedError
from rehearsal_room.envpool.core.remote_states import SeedFault
from rehearsal_room.envpool.hosting.seeding import SeededDatabase, seed
from rehearsal_room.envpool.store.template import make_vfs, template_of
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import AwmRecord, AwmSample, AwmTable, Scenario, Seeding
from tests.support.hosted_records import mask
from tests.support.paths import AWM


def scenario(
    *tables: AwmTable, samples: tuple[AwmSample, ...] = (), seeding: Seeding = "awm"
) -> Scenario:
    """A scenario of these tables and seed rows."""
    return Scenario(
        name="small",
        title="small",
        version="1",
        description="",
        clock="2025-01-01T10:00:00Z",
        user=User("1", "ann", "user"),
        schema_sql="",
        data_sql="",
        rules="",
        tasks=(),
        path=Path("small"),
        digest="0" * 32,
        awm=AwmRecord("", tables, samples, seeding),
    )


def build(made: Scenario) -> tuple[SeededDatabase, sqlite3.Connection]:
    """The result of seeding, and its database as opened by the stdlib."""
    vfs = make_vfs(made)
    try:
        seeded = seed(made, vfs)
    finally:
        vfs.unregister()
    connection = sqlite3.connect(":memory:")
    connection.deserialize(b"".join(seeded.pages))
    return seeded, connection


def dump(connection: sqlite3.Connection) -> dict[str, Any]:
    """A database in the form of golden.jsonl."""
    objects = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    ).fetchall()
    tables = {}
    for name in [name for kind, name in objects if kind == "table"]:
        cursor = connection.execute(f'SELECT * FROM "{name}"')
        rows = sorted(
            ([mask(value) for value in row] for row in cursor),
            key=lambda row: json.dumps(row, ensure_ascii=False, sort_keys=True),
        )
        tables[name] = {"columns": [column[0] for column in cursor.description], "rows": rows}
    return {"objects": [f"{kind}:{name}" for kind, name in objects], "tables": tables}


@pytest.fixture(scope="module")
def golden() -> Iterator[dict[str, Any]]:
    with (AWM / "golden.jsonl").open(encoding="utf-8") as lines:
        yield next(record for record in map(json.loads, lines) if record["kind"] == "seed")


@pytest.mark.parametrize("seeding", ["awm", "openenv"])
def test_the_fixture_is_seeded_as_by_the_genuine_functions(
    golden: dict[str, Any], seeding: Seeding
) -> None:
    """Statements, faults and every row of the fixture's scenario equal the golden record."""
    made = AwmFolder(AWM, seeding=seeding).find("e_commerce_lab_1")
    seeded, connection = build(made)
    assert seeded.num_statements == golden["statements"]
    assert msgspec.to_builtins(seeded.faults) == tuple(golden["failures"])
    assert dump(connection) == golden["db"]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_strict_seeding_refuses_the_first_fault() -> None:
    """With `strict`, a failing statement is an error that names file, table and fault."""
    made = AwmFolder(AWM, seeding="strict").find("e_commerce_lab_1")
    with pytest.raises(
        SeedError,
        match=r'data\.json: table notifications: statement 2: OperationalError: near "t": syntax',
    ):
        build(made)


_TABLES = (
    AwmTable("a", "CREATE TABLE a (id INTEGER PRIMARY KEY, at TEXT DEFAULT (datetime('now')))"),
    AwmTable(
        "b",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES a (id), r)",
        indexes=("CREATE INDEX one ON b (nowhere)", "CREATE INDEX two ON b (a)"),
        examples=("INSERT INTO b (a) VALUES (77)",),
    ),
    AwmTable(
        "c",
        "CREATE TABLE c (a REFERENCES a (id))",
        indexes=("CREATE INDEX three ON c (a)",),
        examples=("INSERT INTO c VALUES (88)", "INSERT INTO c VALUES (1, 2)"),
    ),
    AwmTable("d", "CREATE TABEL d (a)", indexes=("CREATE INDEX four ON c (a)",)),
)
_SAMPLES = (
    AwmSample("a", ("INSERT INTO a (id) VALUES (1)", "INSERT INTO a (id) VALUES (1)", "")),
    AwmSample(
        "b",
        (
            "INSERT INTO b (id, a) VALUES (1, 99)",
            "INSERT INTO b (id, a, r) VALUES (2, 1, random())",
            "INSERT INTO b (a) VALUES (1); INSERT INTO b (a) VALUES (1)",
        ),
    ),
)
_MANY = "ProgrammingError: You can only execute one statement at a time."
_TOO_MANY = "OperationalError: table c has 1 columns but 2 values were supplied"
_FAULTS = (
    SeedFault("schema", "b", 1, "OperationalError: no such column: nowhere"),
    SeedFault(
        "schema", "c", 3, "OperationalError: table c has 1 columns but 2 values were supplied"
    ),
    SeedFault("schema", "d", 0, 'OperationalError: near "TABEL": syntax error'),
    SeedFault("seed", "a", 1, "IntegrityError: UNIQUE constraint failed: a.id"),
    SeedFault("seed", "b", 0, "IntegrityError: FOREIGN KEY constraint failed"),
    SeedFault("seed", "b", 2, _MANY),
)


def test_awm_skips_what_fails_and_the_rest_of_its_table() -> None:
    """AWM's rules: a fault ends a table's schema; examples run without foreign keys, seed rows with
    them, one by one. Time and random numbers repeat."""
    seeded, connection = build(scenario(*_TABLES, samples=_SAMPLES))
    assert (seeded.num_statements, seeded.faults) == (6, _FAULTS)
    shown = dump(connection)
    assert shown["objects"] == ["index:three", "table:a", "table:b", "table:c"]
    rows = connection.execute("SELECT id, at, (SELECT a FROM c) FROM a").fetchall()
    assert rows == [(1, "2025-01-01 10:00:00", 88)]
    assert connection.execute("SELECT id, a, typeof(r) FROM b").fetchall() == [(2, 1, "integer")]
    again, other = build(scenario(*_TABLES, samples=_SAMPLES))
    assert again == seeded
    connection.close()
    other.close()


def test_openenv_skips_statements_and_enforces_no_foreign_keys() -> None:
    """OpenEnv's rules: each failing statement is skipped; no examples; dangling references stay."""
    seeded, connection = build(scenario(*_TABLES, samples=_SAMPLES, seeding="openenv"))
    assert seeded.faults == (_FAULTS[0], _FAULTS[2], _FAULTS[3], _FAULTS[5])
    assert dump(connection)["objects"] == [
        *("index:four", "index:three", "index:two", "table:a", "table:b", "table:c")
    ]
    assert connection.execute("SELECT id, a FROM b ORDER BY id").fetchall() == [(1, 99), (2, 1)]
    assert connection.execute("SELECT * FROM c").fetchall() == []
    connection.close()


def test_rows_that_cannot_be_committed_are_refused() -> None:
    """A deferred foreign key that is violated at COMMIT is an error."""
    made = scenario(
        AwmTable("a", "CREATE TABLE a (id INTEGER PRIMARY KEY)"),
        AwmTable("b", "CREATE TABLE b (a REFERENCES a DEFERRABLE INITIALLY DEFERRED)"),
        samples=(AwmSample("b", ("INSERT INTO b VALUES (5)",)),),
    )
    with pytest.raises(SeedError, match=r"small: seed rows: the final COMMIT failed: FOREIGN KEY"):
        build(made)


def test_tables_of_every_kind_can_be_seeded() -> None:
    """The template has tables with generated columns, full-text tables, tables with triggers and
    tables without rowids; it has no shadow tables."""
    made = scenario(
        AwmTable("g", "CREATE TABLE g (a, b AS (a * 2), c AS (a * 3) STORED)"),
        AwmTable("f", "CREATE VIRTUAL TABLE f USING fts5(body)"),
        AwmTable(
            "w",
            "CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID",
            indexes=(
                "CREATE VIEW v AS SELECT k FROM w",
                "CREATE TRIGGER t AFTER INSERT ON g BEGIN INSERT INTO f VALUES (new.a); END",
            ),
        ),
        samples=(AwmSample("g", ("INSERT INTO g VALUES (1), (2)",)),),
    )
    vfs = make_vfs(made)
    seeded = seed(made, vfs)
    template = template_of(seeded.pages, vfs, made.path)
    vfs.unregister()
    assert seeded.faults == ()
    assert {name: table.columns for name, table in template.tables.items()} == {
        "f": ("body",),
        "g": ("a", "b", "c"),
        "w": ("k",),
    }
    assert [table.tracked for table in template.tables.values()] == [False, False, True]
