"""Every engine and connection of hosted code uses the world of the current call."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.dbapi.database import CallEffects, WorldDatabase
from rehearsal_room.envpool.hosting.dbapi.hooks import Hook
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import Overlay, OverlayVFS
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.store.template import template_of
from rehearsal_room.scenarios.api import RowChange
from tests.support.budgets import repeats
from tests.support.hosted_records import small

_CLOCK = 2_460_676.5  # 2025-01-01 as a Julian day

_MODELS = """
from sqlalchemy import Column, ForeignKey, Integer, String, create_engine, event, func, text
from sqlalchemy.orm import declarative_base, sessionmaker

Base = declarative_base()


class Item(Base):
    __tablename__ = "items"
    id = Column(Integer, primary_key=True)
    name = Column(String, unique=True)
    parent_id = Column(Integer, ForeignKey("items.id"))


def add(name, session=None, **fields):
    session = session or Session()
    item = Item(name=name, **fields)
    session.add(item)
    session.commit()
    found = item.id
    session.close()
    return found


def names():
    session = Session()
    found = [item.name for item in session.query(Item).order_by(Item.id)]
    session.close()
    return found
"""
_ENGINE = """
engine = create_engine("sqlite:///app.db", connect_args={"check_same_thread": False})
Session = sessionmaker(bind=engine)
Base.metadata.create_all(engine)
"""


class Code:
    """Code that runs in worlds, as in a host."""

    def __init__(self, *parts: str, schema: str = "", **settings: Any) -> None:
        self.vfs = OverlayVFS(_CLOCK)
        self.database = WorldDatabase(self.vfs, (), **settings)
        self.hook = Hook(self.database)
        self.names: dict[str, Any] = {"__name__": "server"}
        overlay = self.database.fresh_overlay()
        self.hook.enter(overlay)
        if schema:
            connection = sqlite3.connect("seeds.db")
            connection.executescript(schema)
            connection.close()
        for part in parts:
            exec(compile(dedent(part), "server.py", "exec"), self.names)
        self.hook.leave()
        self.database.rebase(self.database.pages_of(overlay))
        self.template = template_of(
            self.database.pages_of(self.database.fresh_overlay()), self.vfs, Path("server.py")
        )
        self.states = States(small(""), self.template, ())  # as in the pool's process

    def new(self) -> Overlay:
        return self.template.overlay()

    def call(self, overlay: Overlay, name: str, *arguments: Any, **named: Any) -> Any:
        """The result of a function, or its exception, and the effects of the call."""
        self.hook.enter(overlay)
        try:
            value = self.names[name](*arguments, **named)
        except Exception as exc:
            value = exc
        return value, self.hook.leave()

    def close(self) -> None:
        self.states.close()
        self.hook.close()
        self.database.close()
        self.vfs.unregister()


@pytest.fixture
def hosted() -> Iterator[Callable[..., Code]]:
    """Create hosted code, which is closed after the test."""
    made: list[Code] = []

    def make(*parts: str, **settings: Any) -> Code:
        made.append(Code(*parts, **settings))
        return made[-1]

    yield make
    for code in made:
        code.close()


def check_effects(code: Code, overlay: Overlay, before: Overlay, effects: CallEffects) -> None:
    """Assert that the effects of a call equal a comparison of both states."""
    assert repr(effects.changes) == repr(code.states.diff(before, overlay))
    assert overlay.total == effects.total
    assert code.states.verify_digest(overlay) == hex_digest(effects.total)


_ENGINES = {
    "one line": "engine = create_engine('sqlite:///x.db')",
    "many lines": """
        engine = create_engine(
            "postgresql://user:secret@db/prod",
            echo=True,
            future=True,
            pool_size=20,
            max_overflow=0,
            pool_pre_ping=True,
        )
    """,
    "a static pool": """
        from sqlalchemy.pool import StaticPool
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"timeout": 3})
    """,
    "no pool": """
        from sqlalchemy.pool import NullPool
        engine = create_engine(url="sqlite:///x.db", poolclass=NullPool)
    """,
    "sqlalchemy.engine": """
        import sqlalchemy.engine
        engine = sqlalchemy.engine.create_engine("sqlite:///x.db")
    """,
    "an alias": """
        import sqlalchemy as sa
        engine = sa.create_engine("sqlite:///x.db")
    """,
    "engine.create": """
        from sqlalchemy.engine.create import create_engine as make
        engine = make("sqlite:///x.db")
    """,
    "future": """
        from sqlalchemy.future import create_engine as make
        engine = make("sqlite:///x.db")
    """,
    "a configuration": """
        from sqlalchemy import engine_from_config
        engine = engine_from_config({"sqlalchemy.url": "sqlite:///x.db"})
    """,
    "disposed": """
        engine = create_engine("sqlite:///x.db")
        Base.metadata.create_all(engine)
        engine.dispose()
    """,
}


@pytest.mark.parametrize("spelling", _ENGINES)
def test_every_engine_uses_the_world(hosted: Callable[..., Code], spelling: str) -> None:
    """However the engine is created, its sessions read and write the world of the call."""
    code = hosted(
        _MODELS,
        _ENGINES[spelling],
        "Session = sessionmaker(bind=engine)\nBase.metadata.create_all(engine)",
    )
    first, second = code.new(), code.new()
    for overlay in (first, second, first):
        before = overlay.copy()
        value, effects = code.call(overlay, "add", f"n{len(overlay.pages)}")
        assert isinstance(value, int), value
        check_effects(code, overlay, before, effects)
    assert [len(code.call(overlay, "names")[0]) for overlay in (first, second)] == [2, 1]


def test_an_engine_created_in_a_call_uses_its_world(hosted: Callable[..., Code]) -> None:
    """An endpoint may create its own engine and its own connection, in any call."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        import sqlite3

        def again(name):
            global Session
            Session = sessionmaker(bind=create_engine("sqlite:///other.db"))
            add(name)
            with sqlite3.connect("third.db") as connection:
                connection.execute("INSERT INTO items (name) VALUES (?)", (name * 2,))
            connection.close()
            return names()
        """,
    )
    for overlay in (code.new(), code.new()):
        before = overlay.copy()
        value, effects = code.call(overlay, "again", "a")
        assert value == ["a", "aa"]
        check_effects(code, overlay, before, effects)


def test_sqlite3_is_the_stdlibs_outside_of_calls(tmp_path: Path) -> None:
    """The hook is active in its block only, and does not affect in-memory databases."""
    vfs = OverlayVFS(_CLOCK)
    database = WorldDatabase(vfs, ())
    real = sqlite3.connect
    with Hook(database):
        with sqlite3.connect(str(tmp_path / "x.db")) as world:
            world.execute("CREATE TABLE t (a)")
        memory = sqlite3.connect(":memory:")
        assert memory.execute("SELECT count(*) FROM sqlite_master").fetchall() == [(0,)]
        memory.close()
    assert sqlite3.connect is real
    assert [*tmp_path.iterdir()] == []
    database.close()
    vfs.unregister()


def test_asynchronous_engines_are_refused() -> None:
    """create_async_engine raises a ToolsetError with the reason."""
    vfs = OverlayVFS(_CLOCK)
    database = WorldDatabase(vfs, ())
    with (
        Hook(database),
        pytest.raises(ToolsetError, match=r"create_async_engine: asynchronous engines are not"),
    ):
        exec(
            "from sqlalchemy.ext.asyncio import create_async_engine as c\n"
            "c('sqlite+aiosqlite:///x.db')",
            {},
        )
    database.close()
    vfs.unregister()


def test_what_a_failed_call_committed_stays(hosted: Callable[..., Code]) -> None:
    """When a call commits, writes more, and fails, its commits stay and nothing else; the next call
    finds no lock."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def half(name):
            add(name)
            session = Session()
            session.add(Item(name=name + "2"))
            session.flush()
            sessions.append(session)
            raise RuntimeError("after the flush")

        def twice(name):
            add(name)
            add(name)

        sessions = []
        """,
    )
    overlay = code.new()
    value, effects = code.call(overlay, "half", "a")
    assert str(value) == "after the flush"
    item = {"id": 1, "name": "a", "parent_id": None}
    assert effects.changes == (RowChange("items", (1,), None, item),)
    value, effects = code.call(overlay, "twice", "b")
    assert "UNIQUE constraint failed: items.name" in str(value)
    assert type(value.orig) is sqlite3.IntegrityError
    assert [change.key for change in effects.changes] == [(2,)]
    value, effects = code.call(overlay, "names")
    assert (value, effects.changes) == (["a", "b"], ())
    assert code.states.dump(overlay) == {"items": [item, {"id": 2, "name": "b", "parent_id": None}]}


def test_changes_are_the_net_of_a_whole_call(hosted: Callable[..., Code]) -> None:
    """Several commits and rollbacks, in several sessions, give one net change for each row."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def busy():
            first = add("a")
            session = Session()
            session.query(Item).filter_by(id=first).update({"name": "b"})
            session.rollback()
            session.query(Item).filter_by(id=first).update({"name": "c"})
            session.commit()
            other = Session()
            other.delete(other.get(Item, first))
            other.add(Item(name="d"))
            other.commit()
            other.add(Item(name="e"))
            other.flush()
        """,
    )
    overlay = code.new()
    before = overlay.copy()
    _, effects = code.call(overlay, "busy")
    assert effects.changes == (
        RowChange("items", (2,), None, {"id": 2, "name": "d", "parent_id": None}),
    )
    check_effects(code, overlay, before, effects)


def test_sessions_lock_each_other(hosted: Callable[..., Code]) -> None:
    """A second session reads in spite of an open write; its own write fails at once."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def nested():
            outer, inner = Session(), Session()
            outer.add(Item(name="outer"))
            outer.flush()
            seen = inner.query(Item).count()
            inner.add(Item(name="inner"))
            try:
                inner.commit()
            except Exception as exc:
                inner.rollback()
                errors = str(exc.orig)
            outer.commit()
            return seen, errors, inner.query(Item).count()
        """,
    )
    assert code.call(code.new(), "nested")[0] == (0, "database is locked", 1)


def test_a_global_session_uses_the_world_of_each_call(hosted: Callable[..., Code]) -> None:
    """A session, a connection and objects that outlive calls see, in each call, its world."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        session = Session(expire_on_commit=False)
        connection = engine.connect()

        def rename(name):
            item = session.get(Item, 1)
            if item is None:
                item = Item(id=1)
                session.add(item)
            was, item.name = item.name, name
            if name != "never":
                session.commit()
            return was, connection.execute(text("SELECT name FROM items")).scalars().all()
        """,
    )
    first, second = code.new(), code.new()
    assert code.call(first, "rename", "a")[0] == (None, ["a"])
    assert code.call(second, "rename", "b")[0] == (None, ["b"])
    assert code.call(first, "rename", "never")[0] == ("a", ["a"])
    assert code.call(first, "rename", "c")[0] == ("a", ["c"])
    assert code.call(second, "rename", "d")[0] == ("b", ["d"])


def test_foreign_keys_are_as_the_code_sets_them(hosted: Callable[..., Code]) -> None:
    """Off as with `sqlite3`, on when a listener sets them; a call's own setting ends with it."""
    listening = """
    from sqlalchemy.engine import Engine
    import sqlite3

    @event.listens_for(Engine, "connect")
    def keys(connection, record):
        if isinstance(connection, sqlite3.Connection):
            cursor = connection.cursor()
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.close()
    """
    asking = """
    def keys_on():
        session = Session()
        session.execute(text("PRAGMA foreign_keys=ON"))
        return add("a", session, parent_id=99)
    """
    plain = hosted(_MODELS, _ENGINE, asking)
    for overlay in (plain.new(), plain.new()):
        value, _ = plain.call(overlay, "keys_on")
        assert "FOREIGN KEY constraint failed" in str(value)
        assert plain.call(overlay, "add", "a", parent_id=99)[0] == 1
    code, other = hosted(_MODELS, listening, _ENGINE), hosted(_MODELS, _ENGINE)
    for overlay in (code.new(), code.new()):
        value, _ = code.call(overlay, "add", "a", parent_id=99)
        assert "FOREIGN KEY constraint failed" in str(value)
        assert code.call(overlay, "add", "a")[0] == 1
    assert other.call(other.new(), "add", "a", parent_id=99)[0] == 1


def test_a_changed_schema_belongs_to_its_world(hosted: Callable[..., Code]) -> None:
    """New, changed and dropped tables of one world are in its changes, recounts and dumps, even if
    two worlds changed their schemas equally often; a third world is not affected."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def run(*statements):
            with engine.begin() as connection:
                results = [connection.execute(text(statement)) for statement in statements]
                return [tuple(row) for row in results[-1]] if results[-1].returns_rows else None
        """,
    )
    one, two, three = code.new(), code.new(), code.new()
    steps: list[tuple[Overlay, tuple[str, ...]]] = [
        (one, ("INSERT INTO items (name) VALUES ('a')", "CREATE TABLE logs (line TEXT)")),
        (two, ("ALTER TABLE items ADD COLUMN price DEFAULT 3", "INSERT INTO items DEFAULT VALUES")),
        (one, ("INSERT INTO logs VALUES ('x'), ('y')",)),
        (two, ("UPDATE items SET price = 4",)),
        (three, ("INSERT INTO items (name) VALUES ('c')",)),
        (one, ("DELETE FROM logs WHERE line = 'x'", "UPDATE items SET name = 'b'")),
        (two, ("DROP TABLE items",)),
        (one, ("CREATE INDEX named ON items (name)", "VACUUM")),
        (one, ("DELETE FROM logs", "INSERT INTO logs VALUES ('y')")),
    ]
    for overlay, statements in steps:
        before = overlay.copy()
        value, effects = code.call(overlay, "run", *statements)
        assert value is None
        check_effects(code, overlay, before, effects)
    states = code.states
    assert [states.dump(overlay) for overlay in (one, two, three)] == [
        {"items": [{"id": 1, "name": "b", "parent_id": None}], "logs": [{"line": "y"}]},
        {},
        {"items": [{"id": 1, "name": "c", "parent_id": None}]},
    ]
    assert code.call(one, "run", "SELECT * FROM items")[0] == [(1, "b", None)]
    assert "no such table: items" in str(code.call(two, "run", "SELECT * FROM items")[0])
    assert code.call(three, "names")[0] == ["c"]


_ODD_SCHEMA = """
CREATE TABLE lines (id INTEGER PRIMARY KEY, num INT, price REAL,
    total REAL GENERATED ALWAYS AS (num * price) STORED, big INT AS (num > 3) VIRTUAL);
CREATE TABLE tags (name TEXT PRIMARY KEY COLLATE NOCASE, n) WITHOUT ROWID;
CREATE TABLE plain (a, b);
CREATE VIRTUAL TABLE found USING fts5(body, tokenize = 'porter');
CREATE VIEW bigs AS SELECT id FROM lines WHERE big;
CREATE TRIGGER lined AFTER INSERT ON lines BEGIN INSERT INTO found VALUES ('line ' || new.id); END;
INSERT INTO lines (num, price) VALUES (1, 2.5), (5, 1);
INSERT INTO found VALUES ('running dogs');
"""
_WRITES = [
    "INSERT INTO lines (num, price) VALUES (4, 1.5)",
    "UPDATE lines SET num = num + 1",
    "DELETE FROM lines WHERE id = 1",
    "INSERT OR REPLACE INTO lines (id, num, price) VALUES (2, 9, 9)",
    "INSERT OR REPLACE INTO tags VALUES ('a', 1), ('A', 2)",
    "UPDATE tags SET name = 'b'",
    "DELETE FROM tags",
    "INSERT INTO plain VALUES (1, NULL), (1, NULL)",
    "UPDATE plain SET rowid = rowid + 1 WHERE rowid = 1",
    "DELETE FROM plain WHERE rowid IN (SELECT max(rowid) FROM plain)",
    "INSERT INTO found VALUES ('a runner')",
    "DELETE FROM found WHERE found MATCH 'run'",
    "UPDATE found SET body = 'cats' WHERE rowid = 1",
    "CREATE TABLE IF NOT EXISTS more (x)",
    "CREATE TRIGGER IF NOT EXISTS t AFTER DELETE ON tags BEGIN DELETE FROM plain; END",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "COMMIT",
    "ROLLBACK",
]


@pytest.fixture(scope="module")
def odd() -> Iterator[Code]:
    code = Code(
        """
        def run(statements):
            connection = sqlite3.connect("x.db")
            for statement in statements:
                try:
                    connection.execute(statement)
                except sqlite3.Error:
                    pass
            return connection.execute("SELECT count(*) FROM found WHERE found MATCH 'runs'")

        import sqlite3
        """,
        schema=_ODD_SCHEMA,
    )
    yield code
    code.close()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from(_WRITES), max_size=6))))
def test_changes_are_found_in_tables_of_every_kind(odd: Code, calls: list[Any]) -> None:
    """Generated columns, full-text tables, tables without rowids, triggers: the changes of a call
    equal a comparison of both states, in worlds that take turns."""
    overlays = [odd.new() for _ in range(3)]
    for index, statements in calls:
        before = overlays[index].copy()
        _, effects = odd.call(overlays[index], "run", statements)
        check_effects(odd, overlays[index], before, effects)


def test_changed_rows_include_generated_columns(odd: Code) -> None:
    """Generated columns are part of rows, changes and dumps; shadow tables are not shown."""
    overlay = odd.new()
    _, effects = odd.call(overlay, "run", ["UPDATE lines SET num = 4 WHERE id = 1", "COMMIT"])
    was = {"id": 1, "num": 1, "price": 2.5, "total": 2.5, "big": 0}
    assert effects.changes == (
        RowChange("lines", (1,), was, {**was, "num": 4, "total": 10.0, "big": 1}),
    )
    assert [*odd.states.dump(overlay)] == ["found", "lines", "plain", "tags"]


def test_settings_of_a_call_do_not_affect_another(hosted: Callable[..., Code]) -> None:
    """Temporary tables, PRAGMAs, functions, adapters and open transactions end with the call,
    although its connections stay open."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        import sqlite3

        connection = sqlite3.connect("x.db")

        class Money:
            pass

        def leave():
            session = Session()
            for statement in (
                "CREATE TEMP TABLE secrets (word)",
                "INSERT INTO secrets VALUES ('s')",
                "PRAGMA case_sensitive_like=ON",
                "PRAGMA foreign_keys=ON",
                "INSERT INTO items (name) VALUES ('open')",
            ):
                session.execute(text(statement))
                connection.execute(statement) if "items" not in statement else None
            connection.create_function("spy", 0, lambda: "seen")
            sqlite3.register_adapter(Money, lambda money: "1 EUR")
            assert connection.in_transaction

        def inspect():
            found = []
            for execute in (connection.execute, lambda sql: Session().execute(text(sql))):
                for sql in (
                    "SELECT * FROM secrets",
                    "SELECT 'a' LIKE 'A'",
                    "PRAGMA foreign_keys",
                    "SELECT count(*) FROM items",
                    "SELECT last_insert_rowid()",
                    "SELECT spy()",
                ):
                    try:
                        found += execute(sql).fetchall()
                    except Exception as exc:
                        found.append(str(exc).split("\\n")[0].split(") ")[-1])
            return found, connection.in_transaction

        def adapted():
            return connection.execute("SELECT ?", (Money(),)).fetchall()
        """,
    )
    nothing = ["no such table: secrets", (1,), (0,), (0,), (0,), "no such function: spy"]
    for overlay in (code.new(), code.new()):
        assert code.call(overlay, "leave")[0] is None
        assert code.call(overlay, "inspect")[0] == (nothing * 2, False)
        assert code.call(overlay, "adapted")[0] == [("1 EUR",)]
    with pytest.raises(sqlite3.ProgrammingError):
        sqlite3.connect(":memory:").execute("SELECT ?", (code.names["Money"](),))


_HARMLESS = {
    "PRAGMA journal_mode=DELETE": [],
    "PRAGMA journal_mode": [("memory",)],
    "PRAGMA locking_mode=EXCLUSIVE": [],
    "PRAGMA busy_timeout=60000": [],
    "PRAGMA temp_store_directory='/tmp'": [],
    "PRAGMA hard_heap_limit=1": [],
    "PRAGMA writable_schema=ON": [],
    "PRAGMA schema_version=1": [],
    "PRAGMA mmap_size=100000000": [],
    "PRAGMA page_size=65536": [],
    "PRAGMA wal_checkpoint": [],
    "PRAGMA user_version=3": [],
    "ATTACH 'other.db' AS other": "not authorized",
    "ATTACH '/etc/passwd' AS other": "not authorized",
    "VACUUM INTO 'copy.db'": "authorization denied",
    "SELECT load_extension('evil')": "not authorized to use function: load_extension",
    "SELECT length(zeroblob(1000000000))": "string or blob too big",
    "SELECT 1 -- VACUUM": [(1,)],
    "VACUUM": [],
    "ANALYZE": [],
}


@pytest.mark.parametrize("sql", _HARMLESS)
def test_statements_about_files_and_settings_are_harmless(odd: Code, sql: str) -> None:
    """Statements about files, memory or the connection's internals do nothing or are refused, and
    the world stays usable."""
    odd.names["statement"] = sql
    exec(
        dedent(
            """
            def ask():
                connection = sqlite3.connect("x.db")
                try:
                    return connection.execute(statement).fetchall()
                except sqlite3.Error as exc:
                    return str(exc)
            """
        ),
        odd.names,
    )
    overlay = odd.new()
    assert odd.call(overlay, "ask")[0] == _HARMLESS[sql]
    before = overlay.copy()
    _, effects = odd.call(overlay, "run", ["INSERT INTO plain VALUES (1, 2)", "COMMIT"])
    assert [change.after for change in effects.changes] == [{"a": 1, "b": 2}]
    check_effects(odd, overlay, before, effects)


def test_randomness_and_time_are_the_hosts(hosted: Callable[..., Code]) -> None:
    """SQL's random functions use the host's random bytes and SQL's clock is the world's, so calls
    repeat exactly."""
    asking = """
    import sqlite3

    def draw():
        connection = sqlite3.connect("x.db")
        return connection.execute(
            "SELECT random(), hex(randomblob(4)), CURRENT_TIMESTAMP, datetime('now', '-1 day')"
        ).fetchone()
    """
    code = hosted(asking, schema="CREATE TABLE t (a);")
    drawn = []
    for _ in range(2):
        code.database.random_bytes = random.Random(7).randbytes
        drawn.append(code.call(code.new(), "draw")[0])
    expected = random.Random(7)
    number = int.from_bytes(expected.randbytes(8), "big", signed=True)
    blob = expected.randbytes(4).hex().upper()
    assert drawn == [(number, blob, "2025-01-01 00:00:00", "2024-12-31 00:00:00")] * 2


def test_endless_sql_is_stopped(hosted: Callable[..., Code]) -> None:
    """At the limit of instructions a call's statement is interrupted, and further ones at once; the
    next call has the whole limit again."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def spin():
            session = Session()
            session.add(Item(name="before"))
            session.commit()
            errors = []
            for _ in range(3):
                try:
                    session.execute(text(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                        "SELECT count(*) FROM n"
                    ))
                except Exception as exc:
                    errors.append(str(exc.orig))
                    session.rollback()
            return errors
        """,
        max_steps=500_000,
    )
    overlay = code.new()
    errors, effects = code.call(overlay, "spin")
    assert (errors, effects.stopped, len(effects.changes)) == (["interrupted"] * 3, True, 1)
    names, effects = code.call(overlay, "names")
    assert (names, effects.stopped) == (["before"], False)


def test_the_size_of_a_world_is_limited(hosted: Callable[..., Code]) -> None:
    """A call that would exceed the limit of a world's file fails as on a full disk."""
    code = hosted(
        _MODELS,
        _ENGINE,
        """
        def grow():
            for number in range(100):
                add("x" * 900 + str(number))
        """,
        max_pages=40,
    )
    overlay = code.new()
    value, effects = code.call(overlay, "grow")
    assert "database or disk is full" in str(value)
    assert overlay.num_pages <= 40
    assert len(effects.changes) == len(code.call(overlay, "names")[0]) > 10


@pytest.mark.slow
def test_interleaved_worlds_stay_separate(hosted: Callable[..., Code]) -> None:
    """Hundreds of worlds that take turns on the same few connections do not affect each other."""
    code = hosted(_MODELS, _ENGINE)
    rng = random.Random(5)
    num_worlds = repeats(short=200, long=1_000)
    worlds: list[tuple[Overlay, list[str]]] = [(code.new(), []) for _ in range(num_worlds)]
    for number in range(3 * num_worlds):
        overlay, expected = rng.choice(worlds)
        if expected and rng.random() < 0.3:
            value, _ = code.call(overlay, "add", expected[-1])
            assert "UNIQUE" in str(value)
        else:
            expected.append(f"n{number}")
            assert code.call(overlay, "add", expected[-1])[0] == len(expected)
    for overlay, expected in worlds:
        assert code.call(overlay, "names")[0] == expected
