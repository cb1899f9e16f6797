"""Connections of hosted code behave as the stdlib's `sqlite3`: same rows, errors and counts."""

import datetime
import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.hosting.dbapi.connections import Connection
from rehearsal_room.envpool.hosting.dbapi.database import WorldDatabase
from rehearsal_room.envpool.store.overlay import OverlayVFS

_MOMENT = datetime.datetime(2024, 2, 3, 4, 5, 6)  # noqa: DTZ001 - as in generated code
_CLOCK = 2_460_676.5  # 2025-01-01 as a Julian day

_SCHEMA = """
CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, age INTEGER
    CHECK (age >= 0));
CREATE TABLE notes (person INTEGER REFERENCES people (id) ON DELETE CASCADE, body);
CREATE TABLE tags (name TEXT PRIMARY KEY, weight REAL) WITHOUT ROWID;
CREATE TABLE log (text);
CREATE TRIGGER aged AFTER UPDATE OF age ON people BEGIN
    INSERT INTO log VALUES (new.name || ' is ' || new.age); SELECT 1; END;
CREATE VIEW adults AS SELECT name FROM people WHERE age > 17;
INSERT INTO people (name, age) VALUES ('ada', 36), ('bob', 7);
INSERT INTO tags VALUES ('a', 1.5);
"""

_STATEMENTS: list[tuple[Any, Any]] = [
    ("SELECT * FROM people ORDER BY id", ()),
    ("SELECT * FROM people WHERE id = ?", (1,)),
    ("SELECT * FROM people WHERE id = :id", {"id": 2}),
    ("SELECT * FROM people WHERE id = :id", {"name": 2}),
    ("SELECT * FROM people WHERE id = ?", ()),
    ("SELECT * FROM people WHERE id = ?", {"id": 1}),
    ("SELECT * FROM people WHERE id = ?", (1, 2)),
    ("SELECT ?, ?2, :c", (1, 2, 3)),
    ("SELECT * FROM people WHERE id = ?", {1}),
    ("SELECT * FROM people WHERE id = ?", None),
    ("SELECT * FROM people WHERE id = ?", "1"),
    ("SELECT count(*) AS n, max(age) FROM people", ()),
    ("SELECT name AS 'x y', age AS [a] FROM people WHERE 0", ()),
    ("SELECT * FROM adults", ()),
    ("SELECT * FROM nowhere", ()),
    ("SELECT nothing FROM people", ()),
    ('SELECT "nothing" FROM people ORDER BY id', ()),
    ("SELECT name FROM people WHERE", ()),
    ("SELECT 'open", ()),
    ("SELECT 1; SELECT 2", ()),
    ("SELECT 1;;", ()),
    ("SELECT 1; -- more", ()),
    (" ; SELECT 1 /* ; */", ()),
    ("SELECT 1\0", ()),
    ("", ()),
    ("-- nothing", ()),
    (";", ()),
    (5, ()),
    ("INSERT INTO people (name, age) VALUES (?, ?)", ("eve", 20)),
    ("INSERT INTO people (name, age) VALUES (?, ?)", ("eve", -1)),
    ("INSERT INTO people (name, age) VALUES (?, ?)", (None, 3)),
    ("INSERT INTO people (name, age) VALUES (?, ?)", ("kim", 2**70)),
    ("INSERT INTO people (name, age) VALUES (?, ?)", ("kim",)),
    ("INSERT INTO people (name, age) VALUES ('a', 1), ('b', 2), ('c', 3)", ()),
    ("INSERT INTO people (id, name) VALUES ('x', 'y')", ()),
    ("INSERT INTO people VALUES (1)", ()),
    ("INSERT OR IGNORE INTO people (name) VALUES ('ada')", ()),
    ("INSERT OR ROLLBACK INTO people (name) VALUES ('ada')", ()),
    ("INSERT INTO people (name) VALUES ('z'); SELECT 1", ()),
    ("INSERT INTO people (name) VALUES ('ret') RETURNING id, name", ()),
    ("INSERT INTO people (name, age) SELECT 'n' || value, value FROM generate", ()),
    ("INSERT INTO tags VALUES (?, 2)", (datetime.date(2024, 2, 3),)),
    ("REPLACE INTO tags VALUES ('a', ?)", (float("nan"),)),
    ("replace into tags values ('a', ?)", (True,)),
    ("INSERT INTO notes (person, body) VALUES (?, ?)", (99, b"blob")),
    ("INSERT INTO notes (person, body) VALUES (1, ?)", (_MOMENT,)),
    ("/* why */ -- so\n UPDATE people SET age = age + 1", ()),
    ("UPDATE people SET age = age - 30 WHERE id < ?", (9,)),
    ("UPDATE people SET age = 1 RETURNING name", ()),
    ("UPDATE people SET age = 1 WHERE 0 RETURNING name", ()),
    ("UPDATE people SET nothing = 1", ()),
    ("UPDATE people SET name = 'same'", ()),
    ("DELETE FROM people WHERE id = 2", ()),
    ("DELETE FROM notes", ()),
    ("DELETE FROM tags RETURNING *", ()),
    ("WITH x AS (SELECT 'w' AS n) INSERT INTO people (name) SELECT n FROM x", ()),
    ("BEGIN", ()),
    ("COMMIT", ()),
    ("ROLLBACK", ()),
    ("SAVEPOINT s", ()),
    ("ROLLBACK TO s", ()),
    ("RELEASE s", ()),
    ("PRAGMA foreign_keys", ()),
    ("PRAGMA foreign_keys=ON", ()),
    ("PRAGMA foreign_keys = OFF", ()),
    ("PRAGMA table_info(people)", ()),
    ("PRAGMA user_version=7", ()),
    ("PRAGMA user_version", ()),
    ("CREATE TABLE extra (a, b)", ()),
    ("CREATE TABLE IF NOT EXISTS extra (a, b)", ()),
    ("ALTER TABLE tags ADD COLUMN more", ()),
    ("DROP TABLE extra", ()),
    ("INSERT INTO extra VALUES (1, 'e')", ()),
    ("SELECT * FROM extra", ()),
    ("SELECT * FROM tags", ()),
    ("CREATE TEMP TABLE t (x)", ()),
    ("INSERT INTO t VALUES (1)", ()),
    ("SELECT last_insert_rowid(), changes()", ()),
    ("SELECT floor(1.5), upper('x'), 'A' LIKE 'a'", ()),
]
_MANY: list[tuple[str, Any]] = [
    ("INSERT INTO people (name, age) VALUES (?, ?)", [("m1", 1), ("m2", 2)]),
    ("INSERT INTO people (name, age) VALUES (?, ?)", [("m3", 1), ("m3", 2), ("m4", 3)]),
    ("INSERT INTO people (name, age) VALUES (:n, :a)", [{"n": "m5", "a": 5}]),
    ("UPDATE people SET age = age + ? WHERE id > ?", [(1, 0), (1, 1)]),
    ("SELECT ?", [(1,)]),
    ("DELETE FROM people WHERE id = ?", []),
]
_SCRIPTS = [
    "INSERT INTO log VALUES ('s1'); CREATE TABLE made (a); INSERT INTO made VALUES (1);",
    "INSERT INTO log VALUES ('s2'); SELECT nothing; INSERT INTO log VALUES ('s3')",
    "BEGIN; INSERT INTO log VALUES (';'); -- ;\n",
    "",
]
_ACTIONS = st.one_of(
    st.sampled_from([("execute", *statement) for statement in _STATEMENTS]),
    st.sampled_from([("executemany", *statement) for statement in _MANY]),
    st.sampled_from([("executescript", script) for script in _SCRIPTS]),
    st.sampled_from([("commit",), ("rollback",), ("with",), ("with", "fails")]),
    st.sampled_from([("level", level) for level in (None, "", "IMMEDIATE", "exclusive", "odd")]),
)
# For two connections: without changes of the schema, and without statements for which `sqlite3`
# raises lock errors at another time.
_SHARED = _ACTIONS.filter(
    lambda action: (
        not any(
            word in repr(action)
            for word in (
                "RETURNING",
                "extra",
                "made",
                "ALTER",
                "TEMP",
                "IMMEDIATE",
                "exclusive",
                "; ",
            )
        )
    )
)


@pytest.fixture(scope="module")
def vfs() -> Iterator[OverlayVFS]:
    vfs = OverlayVFS(_CLOCK)
    yield vfs
    vfs.unregister()


def open_database(vfs: OverlayVFS) -> tuple[WorldDatabase, Connection]:
    database = WorldDatabase(vfs, ())
    database.enter(database.fresh_overlay())
    return database, Connection(database)


def outcome(connection: Any, action: Callable[[], Any]) -> Any:
    """The outcome of an action: rows, counts and columns, or the error's class, text and code."""
    try:
        cursor = action()
    except Exception as exc:
        code = getattr(exc, "sqlite_errorname", None)
        return type(exc), str(exc), code, connection.in_transaction
    if cursor is None:
        return connection.in_transaction
    first = (cursor.description, cursor.rowcount, cursor.lastrowid)
    rows = [cursor.fetchone(), *cursor.fetchmany(2), *cursor]
    return first, rows, cursor.rowcount, connection.in_transaction


def run_action(connection: Any, action: tuple[Any, ...]) -> Any:
    word, *arguments = action
    if word == "level":

        def act() -> None:
            connection.isolation_level = arguments[0]
    elif word == "with":

        def act() -> None:
            with connection:
                connection.execute("INSERT INTO log VALUES ('with')")
                if arguments:
                    raise ZeroDivisionError
    else:
        act = lambda: getattr(connection, word)(*arguments)  # noqa: E731
    return outcome(connection, act)


def dump(connection: Any) -> list[str]:
    connection.rollback()
    return [line for line in connection.iterdump() if "sqlite_sequence" not in line]


@given(st.lists(_ACTIONS, max_size=14))
def test_statements_do_what_sqlite3_does(vfs: OverlayVFS, actions: list[Any]) -> None:
    """Rows, columns, counts, errors and the database are those of `sqlite3` for all statements."""
    real = sqlite3.connect(":memory:")
    database, ours = open_database(vfs)
    real.executescript(_SCHEMA)
    ours.executescript(_SCHEMA)
    try:
        for action in actions:
            assert run_action(ours, action) == run_action(real, action), action
        assert dump(ours) == dump(real)
    finally:
        real.close()
        database.close()


@given(st.lists(st.tuples(st.integers(0, 1), _SHARED), max_size=20))
def test_two_connections_lock_each_other_as_files_do(
    vfs: OverlayVFS, tmp_path_factory: pytest.TempPathFactory, actions: list[Any]
) -> None:
    """Two connections to one world see the same rows and locks as two of `sqlite3` on a file; they
    raise lock errors at once."""
    path = tmp_path_factory.mktemp("locks") / "real.db"
    reals = [sqlite3.connect(path, timeout=0) for _ in range(2)]
    for real in reals:
        real.execute("PRAGMA synchronous=OFF")  # locks are the same; syncs take most of the time
    database, first = open_database(vfs)
    both = [first, Connection(database)]
    reals[0].executescript(_SCHEMA)
    first.executescript(_SCHEMA)
    try:
        for number, action in actions:
            assert run_action(both[number], action) == run_action(reals[number], action), (
                number,
                action,
            )
        for real, ours in zip(reals, both, strict=True):
            real.rollback()
            ours.rollback()
        assert dump(both[0]) == dump(reals[0])
        assert dump(both[1]) == dump(reals[1])
    finally:
        for real in reals:
            real.close()
        database.close()


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {1},
        Decimal(1),
        datetime.time(1),
        2**63,
        "\ud800",
        True,
        bytearray(b"x"),
        _MOMENT.replace(microsecond=7),
    ],
    ids=repr,
)
def test_values_without_an_sqlite_type(vfs: OverlayVFS, value: Any) -> None:
    """A value is adapted, accepted or refused as by `sqlite3`, in a transaction, too."""
    database, ours = open_database(vfs)
    real = sqlite3.connect(":memory:")
    for connection in (ours, real):
        connection.execute("CREATE TABLE t (a, b)")
    for action in (
        ("execute", "SELECT ?, typeof(?1)", (value,)),
        ("execute", "INSERT INTO t VALUES (:a, :b)", {"a": 1, "b": value}),
        ("execute", "SELECT * FROM t", ()),
    ):
        assert run_action(ours, action) == run_action(real, action)
    real.close()
    database.close()


def test_adapters_and_converters_are_those_of_sqlite3(vfs: OverlayVFS) -> None:
    """What is registered with `sqlite3` applies here, by declared type and by column name."""

    class Point:
        def __conform__(self, protocol: Any) -> str:
            return "1;2"

    database, _ = open_database(vfs)
    types = sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES
    ours = Connection(database, detect_types=types)
    real = sqlite3.connect(":memory:", detect_types=types)
    for connection in (ours, real):
        connection.execute("CREATE TABLE t (at TIMESTAMP, day DATE, p TEXT)")
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (_MOMENT, _MOMENT.date(), Point()))
        connection.execute("INSERT INTO t VALUES (NULL, NULL, NULL)")
    for sql in ("SELECT * FROM t", "SELECT max(at) AS 'at [timestamp]', day AS d FROM t"):
        assert run_action(ours, ("execute", sql)) == run_action(real, ("execute", sql))
    real.close()
    database.close()


def test_rows_are_made_by_factories(vfs: OverlayVFS) -> None:
    """sqlite3.Row, another row factory and a text factory make the rows that they make there."""
    database, ours = open_database(vfs)
    ours.executescript(_SCHEMA)
    ours.row_factory = sqlite3.Row
    row = ours.execute("SELECT id, name AS 'a \"b\"' FROM people").fetchone()
    assert isinstance(row, sqlite3.Row)
    assert (row["id"], row['a "b"'], row.keys(), tuple(row)) == (
        1,
        "ada",
        ["id", 'a "b"'],
        (1, "ada"),
    )
    ours.row_factory = lambda cursor, row: {cursor.description[0][0]: row[0]}
    assert ours.execute("SELECT id FROM people").fetchall() == [{"id": 1}, {"id": 2}]
    assert [*ours.execute("SELECT id FROM people")] == [{"id": 1}, {"id": 2}]
    ours.row_factory = None
    ours.text_factory = bytes
    assert ours.execute("SELECT name, age FROM people").fetchall() == [(b"ada", 36), (b"bob", 7)]
    database.close()


def test_sql_calls_functions_of_the_code(vfs: OverlayVFS) -> None:
    """SQL calls scalar, aggregate and window functions and collations; their exceptions become
    OperationalErrors."""

    class Sum:
        def __init__(self) -> None:
            self.total = 0

        def step(self, value: int) -> None:
            self.total += value

        def inverse(self, value: int) -> None:
            self.total -= value

        def value(self) -> int:
            return self.total

        def finalize(self) -> int:
            return self.total

    database, ours = open_database(vfs)
    real = sqlite3.connect(":memory:")
    queries = [
        "SELECT twice(4), broken(1)",
        "SELECT twice(4)",
        "SELECT total2(column1) FROM (VALUES (1), (2))",
        "SELECT sum2(column1) OVER (ROWS 1 PRECEDING) FROM (VALUES (1), (2), (3))",
        "SELECT column1 FROM (VALUES ('a'), ('b')) ORDER BY column1 COLLATE back",
    ]
    for connection in (ours, real):
        connection.create_function("twice", 1, lambda n: 2 * n, deterministic=True)
        connection.create_function("broken", 1, lambda n: n / 0)
        connection.create_aggregate("total2", 1, Sum)
        connection.create_window_function("sum2", 1, Sum)
        connection.create_collation("back", lambda a, b: (a < b) - (a > b))
    for sql in queries:
        assert run_action(ours, ("execute", sql)) == run_action(real, ("execute", sql))
    with pytest.raises(sqlite3.NotSupportedError, match="not available in a world"):
        ours.backup(real)
    real.close()
    database.close()


def test_a_connection_is_an_instance_of_sqlite3s_class(vfs: OverlayVFS) -> None:
    """isinstance finds a sqlite3.Connection and a sqlite3.Cursor; using closed ones is an error."""
    database, ours = open_database(vfs)
    real = sqlite3.connect(":memory:")
    cursor, other = ours.cursor(), real.cursor()
    assert isinstance(ours, sqlite3.Connection)
    assert isinstance(cursor, sqlite3.Cursor)
    for one in (cursor, other):
        one.close()
    for connection, closed in ((ours, cursor), (real, other)):
        with pytest.raises(sqlite3.ProgrammingError, match="Cannot operate on a closed cursor"):
            closed.execute("SELECT 1")
        connection.close()
        for action in (connection.cursor, connection.commit, lambda c=connection: c.execute("x")):
            with pytest.raises(sqlite3.ProgrammingError, match="on a closed database"):
                action()
    database.close()
