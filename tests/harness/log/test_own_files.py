"""Databases in a run's folder that somebody else has made. SQLite is real: without the checks it
removes the file that a journal names, writes through links, and never ends."""

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from rehearsal_room.harness.core.errors import HarnessError, LogError
from rehearsal_room.harness.log.reader import open_reader, require_format
from rehearsal_room.harness.log.schema import LOG_NAME, empty_log
from rehearsal_room.harness.log.writer import LOCK_NAME, has_writer, open_log
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.llm.verdict_cache import VerdictCache

ERRORS = (HarnessError, JudgeError)
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user."""
    (tmp_path / "mine").write_text("mine")
    return tmp_path / "mine"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with a log."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOG_NAME).write_bytes(empty_log())
    return tmp_path / "run"


def journal_that_names(database: Path, victim: Path) -> None:
    """Put a journal beside a database as a kill in a transaction over two of them leaves it."""
    page = struct.unpack(">H", database.read_bytes()[16:18])[0]
    magic = bytes.fromhex("d9d505f920a163d7")
    pages = database.stat().st_size // page
    head = (magic + struct.pack(">5I", 0, 0, pages, 512, page)).ljust(512, b"\0")
    name = os.fsencode(victim)
    lock_page, size, total = (1 << 30) // page + 1, len(name), sum(name)
    record = struct.pack(">I", lock_page) + name + struct.pack(">2I", size, total) + magic
    Path(f"{database}-journal").write_bytes(head + record)


def changed(run: Path, *statements: str) -> None:
    """Change the log's schema, as its stranger can."""
    with closing(sqlite3.connect(run / LOG_NAME)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def read(run: Path) -> None:
    """Read all of a log."""
    with open_reader(run) as reader:
        reader.episodes()
        list(reader.trajectories())


def append(run: Path) -> None:
    """Continue a log."""

    async def main() -> None:
        async with open_log(run, resume=True):
            pass

    anyio.run(main)


def look(run: Path) -> None:
    """Look whether somebody writes it."""
    has_writer(run)
    require_format(run)


def cache(run: Path) -> None:
    """Use its cache of verdicts."""

    async def main() -> None:
        async with VerdictCache(run / "verdicts.sqlite") as cache:
            await cache.get("x", "x", "x", "x")

    anyio.run(main)


USES: dict[str, Callable[[Path], None]] = {
    "read": read,
    "append": append,
    "look": look,
    "cache": cache,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", [LOG_NAME, LOCK_NAME, "verdicts.sqlite"])
def test_no_journal_of_a_stranger_removes_a_file(
    run: Path, mine: Path, use: str, name: str
) -> None:
    """SQLite removes the file that a journal names when it undoes the journal."""
    if name != LOG_NAME:
        shutil.copy(run / LOG_NAME, run / name)
    journal_that_names(run / name, mine)
    try:
        USES[use](run)
    except ERRORS as exc:
        assert f"{name}-journal names another file" in str(exc)
    assert mine.read_text() == "mine"


def test_sqlite_would_remove_the_file(run: Path, mine: Path) -> None:
    """What the other tests attack with works: a plain connection loses the user's file."""
    journal_that_names(run / LOG_NAME, mine)
    with closing(sqlite3.connect(run / LOG_NAME)) as database:
        database.execute("SELECT * FROM meta").fetchall()
    assert not mine.exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", ""])
@pytest.mark.parametrize("use", USES)
def test_nothing_is_read_or_written_through_a_link(
    run: Path, mine: Path, use: str, suffix: str, kind: str
) -> None:
    """Each file of a log, a lock and a cache that is not a regular one is a sentence; nothing
    blocks, and the user's file stays as it was."""
    for name in (LOG_NAME, LOCK_NAME, "verdicts.sqlite"):
        file = run / f"{name}{suffix}"
        file.unlink(missing_ok=True)
        {"link": lambda f: f.symlink_to(mine), "fifo": os.mkfifo, "folder": os.mkdir}[kind](file)
    if use != "look":
        with pytest.raises(ERRORS, match=r"link|not a regular file|there is no log|not a database"):
            USES[use](run)
    assert mine.read_text() == "mine"


SCHEMAS = {
    "a view that never ends": (
        "DROP TABLE events",
        f"CREATE VIEW events AS {ENDLESS} SELECT x AS position, 'e' AS episode, 1 AS attempt,"
        " 0 AS seq, 'step' AS kind, 0.0 AS at, x'' AS data, NULL AS state FROM n",
    ),
    "a view for the format": (
        "DROP TABLE meta",
        f"CREATE VIEW meta AS {ENDLESS} SELECT 'format' AS key, x AS value FROM n",
    ),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON scenarios BEGIN"
        f" INSERT INTO meta {ENDLESS} SELECT x, x FROM n; END",
    ),
    "a trigger under another name": (
        "CREATE TRIGGER t AFTER INSERT ON scenarios BEGIN DELETE FROM events; END",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET type = 'table', name = 'x', tbl_name = 'x' WHERE name = 't'",
    ),
    "a virtual table": ("DROP TABLE events", "CREATE VIRTUAL TABLE events USING fts5(position)"),
    "an index that computes": ("CREATE INDEX i ON events (hex(zeroblob(100000000)))",),
    "a table more": ("CREATE TABLE more (x)",),
    "many tables": tuple(f"CREATE TABLE t{n} (x)" for n in range(500)),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("use", [read, append, look])
def test_a_log_has_our_schema_only(run: Path, use: Callable[[Path], None], schema: str) -> None:
    """Views, triggers, virtual tables and the like of a stranger are a sentence, before any query
    could run them."""
    changed(run, *SCHEMAS[schema])
    if use is look:  # which leaves it to the next reader
        return use(run)
    with pytest.raises(LogError, match=r"no log of this version|malformed database schema"):
        use(run)
