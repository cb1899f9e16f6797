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

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.log_mode import keep_log
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
# What random statements seldom reach.
_HARD = (
    "UPDATE a SET value = zeroblob(150000) WHERE id = 3",
    "UPDATE a SET value = CAST(substr(value, 1, 149999) || x'07' AS BLOB) WHERE id = 3",
    "UPDATE c SET v = zeroblob(20000) WHERE n = 3",
    "UPDATE c SET v = CAST(substr(v, 1, 19999) || x'07' AS BLOB) WHERE n = 3",
    "DELETE FROM a WHERE id BETWEEN 50 AND 120",
    "UPDATE d SET k = k || hex(zeroblob(9000)) WHERE rowid BETWEEN 20 AND 30",
    "INSERT INTO f VALUES ('the cat sat on the mat', 'cats'), ('a dog', 'dogs')",
    "UPDATE f SET tag = 'one' WHERE f MATCH 'cat'",
    "INSERT INTO b VALUES (CAST(x'ff41' AS TEXT), 1)",
    "VACUUM",
    "INSERT INTO b SELECT id, hex(zeroblob(500)) FROM a",
    "BEGIN",
    "DELETE FROM b",
    "ROLLBACK",
    "DELETE FROM b",
    "ALTER TABLE a ADD COLUMN extra INT DEFAULT 7",
    "UPDATE a SET extra = 8 WHERE id < 9",
    "UPDATE a SET extra = 8.0 WHERE id < 9",
    "DROP TABLE a",
    "DROP TABLE c",
    "UPDATE d SET v = -v",
)
_steps = st.lists(st.tuples(st.integers(0, 1), _statements), min_size=1, max_size=25)
_settings = st.tuples(
    st.sampled_from([512, 1024, 4096, 65536]),
    st.sampled_from(["NONE", "FULL", "INCREMENTAL"]),
    st.sampled_from(["DELETE", "TRUNCATE", "PERSIST", "WAL"]),
    st.sampled_from(["OFF", "OFF", "OFF", "NORMAL"]),
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


_exact = msgspec.msgpack.Encoder().encode  # it distinguishes 1 and 1.0


def _sorted(dump: Dump) -> dict[str, tuple[Any, list[bytes]]]:
    return {name: (columns, sorted(map(_exact, rows))) for name, (columns, rows) in dump.items()}


def _start(server: DatabaseServer, path: Path, settings: tuple[int, str, str, str]) -> None:
    page_size, vacuum, mode, sync = settings
    pragmas = [f"page_size={page_size}", f"auto_vacuum={vacuum}", f"journal_mode={mode}"]
    server.ask("start", str(path), [f"PRAGMA {one}" for one in (*pragmas, f"synchronous={sync}")])
    for statement in SCHEMA.replace("; END", "\0 END").split(";\n"):
        assert server.ask("run", 0, statement.replace("\0", ";")) is None
    for table, size in (("a", 30), ("b", 4), ("c", 20), ("d", 900), ("g", 0)):
        assert server.ask("run", 0, _INSERTS[table], 1, 200, size) is None


@pytest.mark.timeout(600)  # in the long profile
@settings(max_examples=examples(12), deadline=None)
@example((512, "FULL", "DELETE", "OFF"), [(0, (sql, ())) for sql in _HARD], False)
@example(
    (4096, "NONE", "WAL", "OFF"),
    [(number % 2, (sql, ())) for number, sql in enumerate(_HARD)],
    False,
)
@example(
    (4096, "NONE", "WAL", "OFF"),
    [(0, (sql, ())) for statement in _HARD for sql in (statement, "close")],
    True,
)
@given(_settings, _steps, st.booleans())
def test_the_changes_add_up_to_what_sqlite_shows(
    server: DatabaseServer, shape: tuple[int, str, str, str], steps: list[Any], holds: bool
) -> None:
    """Whatever statements two connections of a server run, in whichever journal mode and page size,
    and whether the log is held or not: the rows that the reader reports add up to what SQLite shows
    as committed, with equal types; each `before` is the row as it was."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ops.db")
        _start(server, path, shape)
        with closing(SqliteReader(path, holds_log=holds)) as reader:
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


@pytest.mark.parametrize("mode", ["DELETE", "WAL", "PERSIST"])
def test_a_server_that_never_waits_is_not_disturbed(
    server: DatabaseServer, tmp_path: Path, mode: str
) -> None:
    """While a server without a busy timeout commits transfers between rows, none of its statements
    fails, and each reading sees whole transactions: the sum of all rows stays the same."""
    path = tmp_path / "ops.db"
    server.ask("start", str(path), [f"PRAGMA journal_mode={mode}", "PRAGMA synchronous=OFF"])
    accounts = "CREATE TABLE accounts (id INTEGER PRIMARY KEY, amount INT, padding BLOB)"
    assert server.ask("run", 0, accounts) is None
    fill = MANY + "INSERT INTO accounts SELECT n, 100, zeroblob(3000) FROM i"
    assert server.ask("run", 0, fill, 1, 900) is None
    with closing(SqliteReader(path)) as reader:
        follower = Follower(reader)
        num_changed = 0
        for _ in range(100):  # a fast machine makes all transfers between two readings
            server.send("transfer", 2500)
            while server.is_busy():
                num_changed += bool(follower.follow().writes)
                assert sum(row[1] for row in follower.rows["accounts"].values()) == 90_000
            assert server.receive() == 0
            follower.follow()
            assert _sorted(follower.dump()) == _sorted(server.ask("dump"))
            if num_changed > 1:
                break
        assert num_changed > 1


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "WAL"])
@pytest.mark.parametrize("sync", ["OFF", "FULL"])
def test_a_killed_servers_transaction_is_not_seen(tmp_path: Path, mode: str, sync: str) -> None:
    """A transaction that a killed server left half-written in its file is not among the rows,
    before and after SQLite repairs the file."""
    path = tmp_path / "ops.db"
    with DatabaseServer() as server:
        _start(server, path, (1024, "NONE", mode, sync))
        with closing(SqliteReader(path)) as reader:
            follower = Follower(reader)
            shown = server.ask("dump")
            server.ask("run", 0, "BEGIN")
            assert server.ask("run", 0, "UPDATE d SET v = v + 1, k = k || 'x'") is None
            assert server.ask("run", 0, _INSERTS["b"], 1, 90, 3000) is None
            server.kill()
            follower.follow()
            assert _sorted(follower.dump()) == _sorted(shown)
            with DatabaseServer() as second:
                second.ask("start", str(path), [f"PRAGMA journal_mode={mode}"])
                assert _sorted(second.ask("dump")) == _sorted(shown)
                assert follower.follow() == Reading()


def test_a_torn_commit_is_not_seen(server: DatabaseServer, tmp_path: Path) -> None:
    """A commit whose last page a stopped machine did not write in whole is not seen, as SQLite does
    not see it. (The page is damaged by the test, in a copy.)"""
    _start(server, tmp_path / "ops.db", (1024, "NONE", "WAL", "OFF"))
    assert server.ask("run", 0, "UPDATE a SET note = 'whole' WHERE id = 1") is None
    assert server.ask("run", 0, "UPDATE a SET note = 'torn' WHERE id = 1") is None
    log = bytearray((tmp_path / "ops.db-wal").read_bytes())
    log[-1] ^= 1
    for copy in ("one.db", "two.db"):
        shutil.copy(tmp_path / "ops.db", tmp_path / copy)
        (tmp_path / f"{copy}-wal").write_bytes(log)
    with closing(SqliteReader(tmp_path / "one.db")) as reader:
        note = Follower(reader).rows["a"][1][3]
    with closing(sqlite3.connect(tmp_path / "two.db")) as connection:
        assert connection.execute("SELECT note FROM a WHERE id = 1").fetchone() == (note,)
    assert note == "whole"


def _database(path: Path, rows: int = 300) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE n (id INTEGER PRIMARY KEY, text TEXT)")
        connection.execute("BEGIN")
        for number in range(rows):
            connection.execute("INSERT INTO n (text) VALUES (?)", [f"note {number} " * 20])
        connection.execute("COMMIT")


def _sparse(path: Path) -> None:
    os.truncate(path, 2**30)


def _truncate(path: Path) -> None:
    os.truncate(path, 20_000)


def _garbage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(range(256)) * 400)


def _link(path: Path) -> None:
    secret = path.parent.parent / "secret.db"
    path.rename(secret)
    path.symlink_to(secret)


def _folder_link(path: Path) -> None:
    path.parent.rename(path.parent.parent / "elsewhere")
    path.parent.symlink_to(path.parent.parent / "elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _pipe_as_log(path: Path) -> None:
    os.mkfifo(f"{path}-wal")


def _socket(path: Path) -> None:
    path.unlink()
    folder = os.open(path.parent, os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{folder}/{path.name}")  # a shorter path than a socket's limit
    os.close(folder)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda path: path.write_text("not a database " * 99), "is not an SQLite database"),
        (lambda path: path.unlink(), "is gone"),
        (_garbage, "cannot be read: "),
        (_truncate, "cannot be read: "),
        (_sparse, "has 1,073,741,824 bytes; the limit is 536,870,912 bytes"),
        (_link, "is a symbolic link, which is not read"),
        (_folder_link, "has become another one"),
        (_pipe, "is not a regular file, which is not read"),
        (_pipe_as_log, "ops.db-wal is not a regular file"),
        (_socket, "is not a regular file, which is not read"),
    ],
)
def test_a_harmed_file_is_one_clear_error(
    tmp_path: Path, harm: Callable[[Path], None], sentence: str
) -> None:
    """What a server does to its own file, or puts in its place, ends in a WorldError that says it;
    nothing outside of its folder is read, nothing waits, and a repaired file is read on."""
    path = tmp_path / "scratch" / "ops.db"
    path.parent.mkdir()
    _database(path)
    shutil.copy(path, tmp_path / "copy.db")
    with closing(SqliteReader(path)) as reader:
        follower = Follower(reader)
        harm(path)
        with pytest.raises(WorldError, match=sentence):
            reader.read()
        shutil.rmtree(path.parent) if not path.parent.is_symlink() else path.parent.unlink()
        path.parent.mkdir()
        shutil.copy(tmp_path / "copy.db", path)
        assert follower.follow() == Reading()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE n SET text = 'repaired' WHERE id = 7")
            connection.commit()
        (write,) = follower.follow().writes
        assert (write.table, write.rowid, write.after) == ("n", 7, (7, "repaired"))


def test_a_file_written_as_a_whole_is_compared(tmp_path: Path) -> None:
    """A server that keeps its database in memory and writes the whole file (as sql.js does) is read
    exactly, also where size, change counter and time stay as they were."""
    path, other = tmp_path / "ops.db", tmp_path / "other.db"
    _database(path)
    with closing(SqliteReader(path)) as reader:
        for number in range(20):
            found = os.stat(path)
            _database(other)
            with closing(sqlite3.connect(other)) as connection:
                connection.execute("UPDATE n SET text = ? WHERE id = 9", [str(number)])
                connection.commit()
            content = bytearray(other.read_bytes())
            content[24:28] = path.read_bytes()[24:28]
            path.write_bytes(content)
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
            assert [write.after for write in reader.read().writes] == [(9, str(number))]
            other.unlink()


def test_another_database_in_its_place_is_compared_as_a_whole(tmp_path: Path) -> None:
    """A database that is renamed over the server's one, with another page size and other tables, is
    the new state: dropped, new and equal tables come out as such."""
    path, other = tmp_path / "ops.db", tmp_path / "other.db"
    for one, page_size, extra in ((path, 4096, "gone (x)"), (other, 512, "come (y INT)")):
        with closing(sqlite3.connect(one, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size={page_size}")
            connection.execute(f"CREATE TABLE {extra}")
            connection.execute(f"INSERT INTO {extra.split()[0]} VALUES (1)")
        with closing(sqlite3.connect(one)) as connection:
            connection.execute("CREATE TABLE same (id INTEGER PRIMARY KEY)")
            connection.execute("INSERT INTO same VALUES (5)")
            connection.commit()
    with closing(SqliteReader(path)) as reader:
        other.rename(path)
        reading = reader.read()
        come = TableShape("come", (("y", "INT"),), (), without_rowid=False)
        assert reading.shapes == {"gone": None, "come": come}
        assert [(w.table, w.rowid, w.before, w.after) for w in reading.writes] == [
            ("come", 1, None, (1,)),
            ("gone", 1, (1,), None),
        ]


def _write(path: Path, text: str) -> None:
    """What a server does that connects for each call."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("UPDATE n SET text = ? WHERE id = 7", [text])
        connection.commit()


def test_a_held_log_stays_beside_its_file(tmp_path: Path) -> None:
    """A database that is put into the mode of a write-ahead log, and whose log is held, is not
    written by a server that connects for each call: each reading finds the row in the log. Once it
    is released, the log goes into the file; a database in another mode is locked for nobody."""
    path = tmp_path / "ops.db"
    _database(path, 2000)
    keep_log(path)
    with closing(SqliteReader(path, holds_log=True)) as reader:
        assert reader.has_log
        content = path.read_bytes()
        for number in range(5):
            _write(path, str(number))
            assert [write.after for write in reader.read().writes] == [(7, str(number))]
        assert path.read_bytes() == content
        with (
            closing(sqlite3.connect(path, timeout=0)) as connection,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            connection.execute("PRAGMA journal_mode=DELETE")
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchall() == [("delete",)]
    assert not path.with_name("ops.db-wal").exists()
    with closing(SqliteReader(path, holds_log=True)) as reader:
        _write(path, "free")
        assert [write.after for write in reader.read().writes] == [(7, "free")]
        assert not reader.has_log
        keep_log(path)
        copy = path.read_bytes()
        reader.read()
        path.write_bytes(copy[:18] + b"\1\1" + copy[20:])  # restored from a copy, say
        reader.read()
        _write(path, "restored")
        assert [write.after for write in reader.read().writes] == [(7, "restored")]


def test_only_a_plain_database_is_put_into_the_mode(tmp_path: Path) -> None:
    """A link, another file, an empty one, and one with a journal to be rolled back stay as they
    are; a missing one is none."""
    path, link, text = tmp_path / "ops.db", tmp_path / "link.db", tmp_path / "notes.db"
    _database(path, 2)
    link.symlink_to(path)
    text.write_text("SQLite is nice, and this is a text")
    (tmp_path / "empty.db").touch()
    (tmp_path / "ops.db-journal").touch()
    files = sorted(tmp_path.iterdir())
    content = [one.read_bytes() for one in files]
    for one in (*files, tmp_path / "missing.db"):
        keep_log(one)
    assert [one.read_bytes() for one in files] == content
    assert sorted(tmp_path.iterdir()) == files


def test_an_episode_starts_from_anothers_snapshot(tmp_path: Path) -> None:
    """A reader that is opened with the snapshot of an equal database shares its pages, and its
    first reading has what the server did to its copy meanwhile."""
    start, copy = tmp_path / "start.db", tmp_path / "copy.db"
    _database(start, 2000)
    with closing(SqliteReader(start)) as first:
        snapshot: Snapshot = first.snapshot
    assert snapshot.image.whole() == start.read_bytes()
    shutil.copy(start, copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO n (text) VALUES ('hello')")
        connection.commit()
        with closing(SqliteReader(copy, since=snapshot)) as second:
            assert [write.after for write in second.read().writes] == [(2001, "hello")]
            assert second.read() == Reading()
            known = set(map(id, snapshot.image.chunks))
            own = [one for one in second.snapshot.image.chunks if id(one) not in known]
            assert len(own) < len(known) / 4


def test_a_database_that_comes_later_is_empty_first(tmp_path: Path) -> None:
    """A file that the server makes with its first write is an empty database before."""
    path = tmp_path / "later" / "ops.db"
    with closing(SqliteReader(path)) as reader:
        assert (reader.shapes, [*reader.all_rows()], reader.read()) == ((), [], Reading())
        path.parent.mkdir()
        _database(path, 2)
        reading = reader.read()
        assert [write.rowid for write in reading.writes] == [1, 2]
        assert reading.shapes is not None and [*reading.shapes] == ["n"]


def test_a_module_that_is_missing_hides_only_its_virtual_table(tmp_path: Path) -> None:
    """A virtual table of an extension that is not installed here is left out; the tables in which
    the extension keeps its rows are read. (The schema is written by hand: no such extension is
    among the libraries of the tests.)"""
    path = tmp_path / "ops.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE vectors_rowids (id INTEGER PRIMARY KEY)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('table', 'vectors', 'vectors', 0,"
            " 'CREATE VIRTUAL TABLE vectors USING vec0(embedding float[3])')"
        )
    with closing(SqliteReader(path)) as reader:
        assert [shape.name for shape in reader.shapes] == ["vectors_rowids"]
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO vectors_rowids VALUES (4)")
            connection.commit()
        assert [write.after for write in reader.read().writes] == [(4,)]
