"""The reader of PostgreSQL databases against a PostgreSQL server (Debian's), which is started here.

Without one, or without psycopg, these tests are skipped; `just mcp-postgres` has both.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from rehearsal_room.envpool.core.errors import WorldError  # noqa: E402
from rehearsal_room.envpool.mcp_state.postgres_catalog import SETTINGS  # noqa: E402
from rehearsal_room.envpool.mcp_state.postgres_reader import PostgresReader  # noqa: E402
from tests.mcp_postgres.cluster import cluster, programs  # noqa: E402
from tests.mcp_postgres.worlds import SEED  # noqa: E402

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")
_COPY, _, _AFTER = SEED.partition("COPY public.customers")
STATEMENTS = (
    _COPY
    + "INSERT INTO customers VALUES ('C-1', 'Ada', true), ('C-2', 'Bo', false);"
    + _AFTER.partition("\\.\n")[2]
)
WRITES = """
INSERT INTO log (line) VALUES ('same')
DELETE FROM log WHERE line = 'same'
UPDATE log SET line = line || '!'
INSERT INTO tickets (customer, title) VALUES ('C-1', 'X')
UPDATE tickets SET price = price + 0.10
UPDATE tickets SET weight = 'Infinity'
DELETE FROM tickets WHERE id = (SELECT max(id) FROM tickets)
UPDATE tickets SET id = DEFAULT
UPDATE stock.parts SET place = place || '1' WHERE sku = 'bulb'
DELETE FROM stock.parts
INSERT INTO stock.parts VALUES ('bulb', 'A1', 1), ('50%', 'A1', 2) ON CONFLICT DO NOTHING
TRUNCATE log
BEGIN; DELETE FROM customers; ROLLBACK
SELECT count(*) FROM tickets
CREATE TABLE IF NOT EXISTS extra (a int, "b % c" point)
INSERT INTO extra VALUES (1, '(1,2)')
INSERT INTO log VALUES ('x', now())
ALTER TABLE tickets ADD COLUMN IF NOT EXISTS more text DEFAULT 'm'
VACUUM FULL tickets
ALTER TYPE urgency RENAME VALUE 'low' TO 'lower'
DROP TABLE IF EXISTS extra
BEGIN; UPDATE tickets SET title = 'a'; UPDATE tickets SET title = title || 'b'; COMMIT
ALTER TABLE log ADD COLUMN IF NOT EXISTS n serial PRIMARY KEY
ANALYZE
""".strip().splitlines()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with cluster() as started:
        yield started


class Sessions:
    """Opens sessions, and closes them at the end."""

    def __init__(self, address: str) -> None:
        self.address, self.stack = address, ExitStack()

    def plain(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        """A session as any program's."""
        connection = psycopg.connect(self.address, autocommit=True, dbname=database)
        return self.stack.enter_context(closing(connection))

    def made(self, database: str) -> "psycopg.Connection[tuple[Any, ...]]":
        """The same, in a new database."""
        with closing(psycopg.connect(self.address, autocommit=True)) as admin:
            admin.execute(f"CREATE DATABASE {database}")
        return self.plain(database)

    def reader(self, database: str) -> PostgresReader:
        """A reader."""
        connection = self.plain(database)
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        return PostgresReader(connection)


@pytest.fixture
def sessions(address: str) -> Iterator[Sessions]:
    found = Sessions(address)
    with found.stack:
        yield found


def rows_of(reader: PostgresReader) -> list[str]:
    """Tables, shapes and rows, without the numbers of rows that have no key."""
    found = [repr((table, values)) for table, _, values in reader.all_rows()]
    return sorted([*found, *map(repr, reader.shapes)])


@pytest.mark.slow  # 150 transactions, each read by two readers
@pytest.mark.timeout(300)
def test_each_reading_is_what_a_new_reader_sees(sessions: Sessions) -> None:
    """After any statement (also one that moves rows, renames a word of an enum, swaps keys, or is
    rolled back) the reading's writes, applied to the rows before, give the rows that a reader
    without memory finds; and a reading without a statement in between finds nothing."""
    writer = sessions.made("reading")
    writer.execute(STATEMENTS)
    reader, rng = sessions.reader("reading"), random.Random(7)
    held = {(table, rowid, values) for table, rowid, values in reader.all_rows()}
    num_changed = 0
    for _ in range(150):
        try:
            writer.execute(rng.choice(WRITES))
        except psycopg.Error:
            writer.execute("ROLLBACK")
        found = reader.read()
        held -= {(one.table, one.rowid, one.before) for one in found.writes if one.before}
        held |= {(one.table, one.rowid, one.after) for one in found.writes if one.after}
        num_changed += bool(found.writes)
        fresh = sessions.reader("reading")
        assert rows_of(reader) == rows_of(fresh)
        assert held == set(reader.all_rows())
        assert reader.read().writes == ()
        fresh.close()
    assert num_changed > 50


def test_the_start_is_put_back_exactly(sessions: Sessions) -> None:
    """Rows, their order, numbers of rows without a key, and sequences are as they were, and no
    trigger fires; after a change of the schema, and while a lock is held, it is refused."""
    writer = sessions.made("putting")
    writer.execute(STATEMENTS)
    reader, rng = sessions.reader("putting"), random.Random(3)
    start, first = reader.snapshot, set(reader.all_rows())
    unordered = "SELECT line FROM log UNION ALL SELECT id || token::text FROM tickets"
    order = writer.execute(unordered).fetchall()
    shaping = ("ALTER", "CREATE", "TRUNC", "VAC", "DROP")
    for _ in range(25):
        for sql in rng.choices([one for one in WRITES if not one.startswith(shaping)], k=4):
            try:
                writer.execute(sql)
            except psycopg.Error:
                writer.execute("ROLLBACK")
        reader.read()
        assert reader.put_back(start)
        reader.read()
        assert set(reader.all_rows()) == first
        assert sessions.reader("putting").snapshot.sequences == start.sequences
        assert writer.execute(unordered).fetchall() == order
    writer.execute("UPDATE customers SET name = 'other'")
    reader.read()
    writer.execute("BEGIN; LOCK TABLE customers")
    assert not reader.put_back(start)
    writer.execute("ROLLBACK; CREATE INDEX ON log (line)")
    reader.read()
    assert not reader.put_back(start)


def test_what_cannot_be_read_is_one_sentence(sessions: Sessions) -> None:
    """Two tables that get one name, and a database that is gone."""
    writer = sessions.made("clashing")
    writer.execute("CREATE TABLE public.a_b (x int)")
    reader = sessions.reader("clashing")
    writer.execute("CREATE SCHEMA a CREATE TABLE b (x int)")
    with pytest.raises(WorldError, match="two tables that are both read as 'a_b'"):
        reader.read()
    sessions.plain("postgres").execute("DROP DATABASE clashing WITH (FORCE)")
    with pytest.raises(WorldError, match=r"database clashing cannot be read: "):
        reader.read()
