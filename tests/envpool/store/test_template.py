"""Building templates: strict scripts, equal bytes, and the schema of the tables."""

import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal_room.envpool.core.errors import SeedError
from rehearsal_room.envpool.store.overlay import PAGE
from rehearsal_room.envpool.store.template import (
    TableSchema,
    Template,
    build,
    make_vfs,
    template_of,
)
from rehearsal_room.scenarios.catalogue import bundled_names
from rehearsal_room.scenarios.format import BUNDLED, Scenario, read
from tests.support.ledger_world import DATA, HEAD, SCHEMA, ledger
from tests.support.reference_database import open_image

_PRINT = """
import sys
from pathlib import Path
from rehearsal_room.envpool.store.template import build, make_vfs
from rehearsal_room.scenarios.format import read
print(build(s := read(Path(sys.argv[1])), make_vfs(s)).digest)
"""


def build_template(scenario: Scenario) -> Template:
    vfs = make_vfs(scenario)
    try:
        return build(scenario, vfs)
    finally:
        vfs.unregister()


def table(folder: Path, sql: str) -> TableSchema:
    """The schema of the one table `t`."""
    return build_template(ledger(folder, schema_sql=sql, data_sql="")).tables["t"]


_FAULTS = {
    "no table of that name": (
        {"data_sql": "\nDELETE FROM journal;\n\nINSERT INTO nowhere\nVALUES (1);"},
        "data.sql: line 4: no such table: nowhere in: INSERT INTO nowhere VALUES (1)",
    ),
    "a syntax error": (
        {"schema_sql": "CREATE TABLE a (b);\nCREATE TABEL c (d);"},
        'schema.sql: line 2: near "TABEL": syntax error in: CREATE TABEL c (d)',
    ),
    "after a trigger": (
        {"schema_sql": SCHEMA + "CREATE TABLE accounts (id);"},
        f"schema.sql: line {SCHEMA.count(chr(10)) + 1}: table accounts already exists in: "
        "CREATE TABLE accounts (id)",
    ),
    "an open text": (
        {"data_sql": "INSERT INTO journal VALUES ('x"},
        "data.sql: line 1: unrecognized token: \"'x\" in: INSERT INTO journal VALUES ('x",
    ),
    "an open text further down": (
        {"data_sql": "DELETE FROM journal;\n\nINSERT INTO journal VALUES ('x\\'y');\n"},
        "data.sql: line 3: near \"y\": syntax error in: INSERT INTO journal VALUES ('x\\'y')",
    ),
    "a broken rule": (
        {"data_sql": "INSERT INTO accounts (name, balance) VALUES ('x', -1);"},
        "data.sql: line 1: CHECK constraint failed: balance >= 0 in: "
        "INSERT INTO accounts (name, balance) VALUES ('x', -1)",
    ),
    "an immediate reference": (
        {"data_sql": "INSERT INTO entries VALUES (1, 99, 5, '', '');"},
        "data.sql: line 1: FOREIGN KEY constraint failed in: "
        "INSERT INTO entries VALUES (1, 99, 5, '', '')",
    ),
    "a deferred reference": (
        {
            "schema_sql": "CREATE TABLE a (id INTEGER PRIMARY KEY);"
            "CREATE TABLE b (a REFERENCES a DEFERRABLE INITIALLY DEFERRED);",
            "data_sql": "INSERT INTO b VALUES (7), (8);",
        },
        "data.sql: row 1 of b references a row of a that does not exist; "
        "row 2 of b references a row of a that does not exist",
    ),
    "a reference to a column that is not a key": (
        {"schema_sql": "CREATE TABLE a (n); CREATE TABLE b (n REFERENCES a (n));", "data_sql": ""},
        'schema.sql: foreign key mismatch - "b" referencing "a"',
    ),
    "a commit": (
        {"data_sql": DATA + "COMMIT;"},
        f"data.sql: line {DATA.count(chr(10)) + 1}: the scripts run in one transaction in: COMMIT",
    ),
    "a begin": (
        {"data_sql": "BEGIN;"},
        "data.sql: line 1: the scripts run in one transaction in: BEGIN",
    ),
    "a pragma": (
        {"schema_sql": "PRAGMA page_size=4096;"},
        "schema.sql: line 1: PRAGMA is not allowed in packages in: PRAGMA page_size=4096",
    ),
    "another file": (
        {"schema_sql": "ATTACH 'x.db' AS x;"},
        "schema.sql: line 1: ATTACH is not allowed in packages in: ATTACH 'x.db' AS x",
    ),
    "a virtual table": (
        {"schema_sql": "CREATE VIRTUAL TABLE f USING dbstat;"},
        "schema.sql: line 1: a virtual table may only be a full-text index (fts5, fts4, fts3) or "
        "an rtree in: CREATE VIRTUAL TABLE f USING dbstat",
    ),
    "randomness": (
        {"data_sql": "INSERT INTO journal VALUES (random());"},
        "data.sql: line 1: random() and randomblob() are disabled: worlds must be deterministic "
        "in: "
        "INSERT INTO journal VALUES (random())",
    ),
    "no tables": ({"schema_sql": "-- none\n", "data_sql": ""}, "schema.sql: it creates no table"),
    "a generated column": (
        {"schema_sql": "CREATE TABLE t (a, b AS (a + 1));", "data_sql": ""},
        "schema.sql: table t: generated column b is not supported",
    ),
    "hidden rowids": (
        {"schema_sql": "CREATE TABLE t (rowid TEXT, OID TEXT, _rowid_ TEXT);", "data_sql": ""},
        "schema.sql: table t: columns named rowid, oid and _rowid_ hide its rowid",
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_broken_script_is_named(tmp_path: Path, fault: str) -> None:
    """A statement that fails is a SeedError naming file, line, fault and statement."""
    files, message = _FAULTS[fault]
    with pytest.raises(SeedError) as caught:
        build_template(ledger(tmp_path, **files))
    assert str(caught.value) == f"{tmp_path}/{message}"


@pytest.mark.parametrize("name", bundled_names())
def test_every_process_builds_the_same_bytes(name: str) -> None:
    """A template's digest does not depend on the process, so a log can be replayed elsewhere."""
    done = subprocess.run(
        [sys.executable, "-c", _PRINT, str(BUNDLED / name)], capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == build_template(read(BUNDLED / name)).digest


def test_the_image_is_a_database_file(tmp_path: Path) -> None:
    """Plain SQLite opens the image: whole pages, the seed rows, at the scenario's time."""
    schema = "CREATE TABLE t (at TEXT DEFAULT CURRENT_TIMESTAMP, n);"
    data = "INSERT INTO t (n) VALUES ('a;b'), (x'00ff'), (1.0); -- the last"
    template = build_template(ledger(tmp_path, schema_sql=schema, data_sql=data))
    connection = open_image(template.image)
    rows = connection.execute("SELECT at, n, typeof(n) FROM t").fetchall()
    connection.close()
    at = "2026-03-14 09:30:00"
    assert rows == [(at, "a;b", "text"), (at, b"\0\xff", "blob"), (at, 1.0, "real")]
    assert {len(page) for page in template.pages} == {PAGE}
    assert template.overlay().num_pages == len(template.pages)


def test_the_clock_is_the_scenarios(tmp_path: Path) -> None:
    """Two packages with different clocks write different times."""
    schema = "CREATE TABLE t (at TEXT DEFAULT CURRENT_TIMESTAMP);"
    files = {"schema_sql": schema, "data_sql": "INSERT INTO t DEFAULT VALUES;"}
    first = build_template(ledger(tmp_path / "a", **files))
    later = HEAD.replace("2026-03-14T09:30:00Z", "2027-01-01T00:00:00Z")
    second = build_template(ledger(tmp_path / "b", scenario_toml=later, **files))
    assert first.total != second.total


@pytest.mark.parametrize(
    ("sql", "key", "by_rowid"),
    [
        ("CREATE TABLE t (a, b);", (), True),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b);", (0,), True),
        ("CREATE TABLE t (a INT PRIMARY KEY, b);", (0,), False),
        ("CREATE TABLE t (a, b TEXT PRIMARY KEY);", (1,), False),
        ("CREATE TABLE t (a, b, c, PRIMARY KEY (c, a));", (2, 0), False),
        ("CREATE TABLE t (a, b, PRIMARY KEY (b, a)) WITHOUT ROWID;", (1, 0), False),
    ],
)
def test_keys(tmp_path: Path, sql: str, key: tuple[int, ...], by_rowid: bool) -> None:
    """The schema determines what identifies a row in each kind of table."""
    schema = table(tmp_path, sql)
    assert (schema.key, schema.keyed_by_rowid) == (key, by_rowid)


def test_a_key_with_null_includes_the_rowid(tmp_path: Path) -> None:
    """Two rows whose key is NULL are two rows."""
    schema = table(tmp_path, "CREATE TABLE t (a TEXT PRIMARY KEY, b);")
    assert schema.key_of(3, (None, "x")) == (None, 3)
    assert schema.key_of(3, ("k", "x")) == ("k",)


@pytest.mark.parametrize("page", [b"x" * PAGE, b"\0" * PAGE], ids=["letters", "zeros"])
def test_pages_that_are_not_a_database(tmp_path: Path, page: bytes) -> None:
    """Invalid pages of an untrusted worker are an error, not a template."""
    vfs = make_vfs(ledger(tmp_path / "ledger"))
    try:
        with pytest.raises(SeedError, match=r"server\.py: its database cannot be read"):
            template_of((page, page), vfs, Path("server.py"))
    finally:
        vfs.unregister()
