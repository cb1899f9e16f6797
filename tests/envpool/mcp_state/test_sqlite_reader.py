"""The reader of a server's database against SQLite itself, which writes in another process."""

import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.sqlite_reader import Snapshot, SqliteReader
from rehearsal_room.envpool.mcp_state.types import Reading, TableShape
from tests.envpool.mcp_state.database_server import DatabaseServer, Dump
from tests.support.budgets import examples

SCHEMA = """
CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT, value, note TEXT DEFAULT 'none');
CREATE TABLE b (x, y);
CREATE TABLE c (k TEXT, n INTEGER, v, PRIMARY KEY (n, k)) WITHOUT ROWID;
CREATE TABLE d (k TEXT PRIMARY KEY COLLATE NOCASE, v REAL);
CREATE INDEX dv ON d (v, k);
CREATE VIRTUAL TABLE f USING fts5 (body, tag);
CREATE VIRTUAL TABLE f_index USING fts5 (name, content='a', content_rowid='id');
CREATE TABLE g (id INTEGER PRIMARY KEY AUTOINCREMENT, w INT,
                twice AS (w * 2) VIRTUAL, more INT AS (w + 1) STORED);
CREATE VIEW seen AS SELECT name FROM a;
CREATE TRIGGER t AFTER DELETE ON a BEGIN INSERT INTO b VALUES (old.id, old.name); END
"""
MANY = "WITH RECURSIVE i(n) AS (SELECT ? UNION ALL SELECT n + 1 FROM i LIMIT ?) "

_numbers = st.integers(0, 400)
_sizes = st.sampled_from([0, 3, 40, 400, 3000, 20_000, 150_000])
_values = st.sampled_from(
    [None, 0, 1, 1.0, -0.0, 1e300, 2**63 - 1, -(2**63), "", "1", "naïve", "a\0b", b"", b"\xff\0"]
)
_rows = st.sampled_from("abcdg")
_UPDATES = {
    "a": "UPDATE OR IGNORE a SET value = ?, note = note || 'x' WHERE id BETWEEN ? AND ?",
    "b": "UPDATE b SET y = ? WHERE rowid BETWEEN ? AND ?",
    "c": "UPDATE OR IGNORE c SET v = ? WHERE n BETWEEN ? AND ?",
    "d": "UPDATE OR IGNORE d SET v = ?, k = upper(k) WHERE rowid BETWEEN ? AND ?",
    "g": "UPDATE OR IGNORE g SET w = ? WHERE id BETWEEN ? AND ?",
}
_INSERTS = {
    "a": MANY + "INSERT OR REPLACE INTO a (id, name, value) SELECT n, 'name ' || n, zeroblob(?) "
    "FROM i",
    "b": MANY + "INSERT INTO b SELECT n, hex(zeroblob(?)) FROM i",
    "c": MANY + "INSERT OR IGNORE INTO c SELECT 'k' || n, n % 7, zeroblob(?) FROM i",
    "d": MANY + "INSERT OR REPLACE INTO d SELECT 'K' || n || hex(zeroblob(? / 300)), n FROM i",
    "g": MANY + "INSERT INTO g (w) SELECT n + ? FROM i",
}
_FIXED = [
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "VACUUM",
    "PRAGMA page_size=2048",
    "PRAGMA incremental_vacuum",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA wal_checkpoint(PASSIVE)",
    "PRAGMA journal_mode=WAL",
    "PRAGMA journal_mode=DELETE",
    "PRAGMA journal_mode=PERSIST",
    "PRAGMA locking_mode=EXCLUSIVE",
    "ALTER TABLE a ADD COLUMN extra INT DEFAULT 7",
    "ALTER TABLE b RENAME COLUMN y TO z",
    "ALTER TABLE b RENAME TO bb",
    "DROP TABLE a",
    "DROP TABLE c",
    "CREATE TABLE IF NOT EXISTS a (id INTEGER PRIMARY KEY, name TEXT, value, note)",
    "CREATE TABLE e AS SELECT * FROM d",
    "CREATE INDEX ae ON a (value)",
    "ANALYZE",
    "REINDEX",
    "DELETE FROM a",
    "DELETE FROM b",
    "UPDATE b SET rowid = rowid + 1000",
    "UPDATE a SET id = -id",
    "UPDATE a SET value = value || x'00' WHERE id = 3",
    "UPDATE a SET value = CAST(substr(value, 2) || x'07' AS BLOB) WHERE length(value) > 9",
    "INSERT INTO b VALUES (CAST(x'ff41' AS TEXT), 1)",
    "INSERT INTO f VALUES ('the cat sat on the mat', 'cats')",
    "UPDATE f SET tag = tag || '!' WHERE f MATCH 'cat'",
    "DELETE FROM f WHERE rowid = 1",
    "INSERT INTO f (f) VALUES ('optimize')",
    "INSERT INTO f_index (f_index) VALUES ('rebuild')",
]
_statements = st.one_of(
    _rows.flatmap(
        lambda table: st.tuples(st.just(_UPDATES[table]), st.tuples(_values, _numbers, _numbers))
    ),
    _rows.flatmap(
        lambda table: st.tuples(
            st.just(_INSERTS[table]), st.tuples(_numbers, st.sampled_from([1, 2, 90]), _sizes)
        )
    ),
    st.tuples(
        st.sampled_from(
            ["DELETE FROM a WHERE id BETWEEN ? AND ?", "DELETE FROM d WHERE rowid BETWEEN ? AND ?"]
        ),
        st.tuples(_numbers, _numbers),
    ),
    st.tuples(st.sampled_from(_FIXED), st.just(())),
    st.tuples(st.just("close"), st.just(())),
)
_steps = st.lists(st.tuples(st.integers(0, 1), _statements), min_size=1, max_size=25)
_settings = st.tuples(
    st.sampled_from([512, 1024, 4096, 65536]),
    st.sampled_from(["NONE", "FULL", "INCREMENTAL"]),
    st.sampled_from(["DELETE", "TRUNCATE", "PERSIST", "WAL"]),
    st.sampled_from(["OFF", "NORMAL"]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with DatabaseServer() as server:
        yield server


class Follower:
    """The rows that a reader's answers add up to."""

    def __init__(self, reader: SqliteReader) -> None:
        self.reader = reader
        self.shapes = {shape.name: shape for shape in reader.shapes}
        self.rows: dict[str, dict[Any, tuple[Any, ...]]] = {name: {} for name in self.shapes}
        for table, rowid, values in reader.all_rows():
            self.rows[table][self._identity(table, rowid, values)] = values

    def _identity(self, table: str, rowid: int | None, values: tuple[Any, ...]) -> Any:
        return tuple(values[at] for at in self.shapes[table].key) if rowid is None else rowid

    def follow(self) -> Reading:
        """Apply what changed, as a mirror would."""
        reading = self.reader.read()
        created = set()
        for name, shape in (reading.shapes or {}).items():
            before = {w.before for w in reading.writes if w.table == name and w.before is not None}
            assert before == set(self.rows.pop(name, {}).values())
            self.shapes.pop(name, None)
            if shape is not None:
                self.shapes[name], self.rows[name] = shape, {}
            created.add(name)
        for write in reading.writes:
            if write.after is None and write.table in created:
                continue
            rows = self.rows[write.table]
            one = write.after if write.before is None else write.before
            assert one is not None
            if write.table not in created:
                identity = self._identity(write.table, write.rowid, one)
                assert _exact(rows.pop(identity, None)) == _exact(write.before)
            if write.after is not None:
                identity = self._identity(write.table, write.rowid, write.after)
                assert identity not in rows
                rows[identity] = write.after
        return reading

    def dump(self) -> Dump:
        assert {shape.name: shape for shape in self.reader.shapes} == self.shapes
        return {
            name: (
                list(self.shapes[name].columns),
                [
                    (None if self.shapes[name].without_rowid else identity, values)
                    for identity, values in rows.items()
                ],
            )
            for name, rows in self.rows.items()
        }


def _exact(value: Any) -> str:
    return repr(value)  # distinguishes 1 and 1.0


def _sorted(dump: Dump) -> dict[str, tuple[Any, list[str]]]:
    return {name: (columns, sorted(map(_exact, rows))) for name, (columns, rows) in dump.items()}


def _start(server: DatabaseServer, path: Path, settings: tuple[int, str, str, str]) -> None:
    page_size, vacuum, mode, sync = settings
    pragmas = [f"page_size={page_size}", f"auto_vacuum={vacuum}", f"journal_mode={mode}"]
    server.ask("start", str(path), [f"PRAGMA {one}" for one in (*pragmas, f"synchronous={sync}")])
    for statement in SCHEMA.replace("; END", "\0 END").split(";\n"):
        assert server.ask("run", 0, statement.replace("\0", ";")) is None
    for table, size in (("a", 30), ("b", 4), ("c", 20), ("d", 900), ("g", 0)):
        assert server.ask("run", 0, _INSERTS[table], 1, 200, size) is None


@settings(max_examples=examples(40), deadline=None)
@given(_settings, _steps)
def test_the_changes_add_up_to_what_sqlite_shows(
    server: DatabaseServer, shape: tuple[int, str, str, str], steps: list[Any]
) -> None:
    """Whatever statements two connections of a server run, in whichever journal mode and page size:
    the rows that the reader reports add up to what SQLite shows as committed, with equal types;
    each `before` is the row as it was; and no statement fails because of the reader."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ops.db")
        _start(server, path, shape)
        with closing(SqliteReader(path)) as reader:
            follower = Follower(reader)
            shown = server.ask("dump")
            assert _sorted(follower.dump()) == _sorted(shown)
            for connection, (sql, parameters) in steps:
                if sql == "close":
                    server.ask("close", connection)
                else:
                    server.ask("run", connection, sql, *parameters)
                follower.follow()
                shown = server.ask("dump") or shown  # locked: the transaction has not ended
                assert _sorted(follower.dump()) == _sorted(shown)
            server.ask("close_all")
            follower.follow()
            with closing(SqliteReader(path)) as fresh:
                assert _sorted(Follower(fresh).dump()) == _sorted(follower.dump())
