"""The index of one run: `view.sqlite`, made from the log and continued where it stopped.

It is in the run's folder, or in the user's cache where that folder is read-only. Nothing is in it
that the log does not have: a file of another format, of another log or of a log that was replaced
is thrown away and made again. Any number of processes may fold and read at the same time.
"""

import gc
import os
import sqlite3
import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.log.log_file import READ_ERRORS
from rehearsal_room.harness.log.own_files import require_own_files
from rehearsal_room.harness.log.reader import LogReader, StoredRecord
from rehearsal_room.harness.log.schema import log_error
from rehearsal_room.harness.setup.run_trust import RUN_FILE, counts
from rehearsal_room.viewer.index.folding import Folding
from rehearsal_room.viewer.index.tables import FORMAT, NAME, SCHEMA

PAGE = 20_000  # records that one transaction folds, at most
_FIRST_PAGE = 5_000  # the same for the first one, so that a page has rows soon
_PAGE_BYTES = 64_000_000  # of events, after which a transaction folds no more
_READ = 1_000  # records that are read at once: so many are still in the processor's cache
_CACHE_PAGES = -65_536  # KiB of SQLite's page cache while folding
# Of FTS5: all words of a page are sorted in memory, and segments are merged 64 at a time. Its own
# settings merge with each page: half of the time that full text took.
_TEXT_OPTIONS = {"hashsize": 33_554_432, "automerge": 0, "crisismerge": 64}
_MAX_COUNTS = 1_000
_SUFFIXES = ("", "-wal", "-shm", "-journal")

T = TypeVar("T")


class RunIndex:
    """Folds one log and answers queries about it. Threads may use it at the same time."""

    def __init__(self, reader: LogReader, path: Path) -> None:
        self.path = path
        self._reader = reader
        self._folding_lock, self._reading_lock = Lock(), Lock()
        self._writer = _open_writer(path, reader)
        self._folding = Folding(self._writer, reader.path)
        self.position, self._diagnosed = _progress(self._writer)
        self.was_at_end = False  # whether the last look at the log found nothing new
        self._counts: dict[tuple[str, tuple[Any, ...]], int] = {}
        self._kept: dict[Any, Any] = {}
        self._counted_version = 0
        self._views = _connect(path)
        self._views.execute("PRAGMA query_only = ON")

    def fold(self, limit: int = PAGE) -> int:
        """Fold the next records of the log; returns how many there were, 0 at its end. Raises
        LogError."""
        with self._folding_lock, _no_collection():
            try:
                limit = limit if self.position else min(limit, _FIRST_PAGE)
                records = self._reader.stored_after(self.position, min(limit, _READ))
                self.was_at_end = not records
                if not records:
                    return 0
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    if self._was_overtaken():
                        self._writer.execute("ROLLBACK")
                        return len(records)
                    num_records, last = self._add(records, limit)
                    _put(self._writer, "position", last[0])
                    _put(self._writer, "last", _stamp(last))
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    self._folding.forget()
                    raise
            except READ_ERRORS as exc:
                raise log_error(self.path, "the index cannot be written", exc) from exc
            self.position = last[0]
            return num_records

    def undiagnosed(self, limit: int) -> list[tuple[str, int]]:
        """Episodes that are over and whose mistakes are to be found, each with the position of its
        latest record that is folded. Raises LogError."""
        sql = "SELECT episode, position FROM episodes WHERE is_diagnosed = 0 ORDER BY number"
        return self.rows(f"{sql} LIMIT ?", limit)

    def add_diagnoses(self, found: Sequence[tuple[str, int, Diagnosis]]) -> int:
        """Add the mistakes of episodes, with the positions that `undiagnosed` gave; returns how
        many were added. Raises LogError."""
        with self._folding_lock:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    num_added = 0
                    if not self._was_overtaken():
                        num_added = self._folding.add_diagnoses(found)
                        _put(self._writer, "diagnosed", self._diagnosed + (num_added > 0))
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    self._folding.forget()
                    raise
            except READ_ERRORS as exc:
                raise log_error(self.path, "the index cannot be written", exc) from exc
            self._diagnosed += num_added > 0
            return num_added

    def _was_overtaken(self) -> bool:
        """Whether another process has written the index; what it wrote is read again."""
        found = _progress(self._writer)
        if found == (self.position, self._diagnosed):
            return False
        self._folding.forget()
        self.position, self._diagnosed = found
        return True

    def _add(self, records: list[StoredRecord], limit: int) -> tuple[int, StoredRecord]:
        """Fold these records and those that follow them; returns their number and the last one."""
        num_records, size, last = 0, 0, records[-1]
        while records:
            self._folding.add(records)
            last = records[-1]
            num_records += len(records)
            size += sum(len(record[5]) for record in records)
            wanted = min(limit - num_records, _READ) if size < _PAGE_BYTES else 0
            records = self._reader.stored_after(last[0], wanted)
        faults = self._folding.store()
        if faults:
            add = "UPDATE meta SET value = value + ? WHERE key = 'faults'"
            self._writer.execute(add, (faults,))
        return num_records, last

    def rows(self, sql: str, *params: Any) -> list[Any]:
        """The rows that a query gives. Raises LogError."""
        with self._reading_lock:
            try:
                return self._views.execute(sql, params).fetchall()
            except READ_ERRORS as exc:
                raise log_error(self.path, "the index cannot be read", exc) from exc

    def num_episodes(self, where: str, bound: tuple[Any, ...]) -> int:
        """How many episodes fulfil a condition; pages of one table ask for it again and again.
        Raises LogError."""
        self._forget_what_changed()
        key = where, bound
        found = self._counts.get(key)
        if found is None:
            ((found,),) = self.rows(f"SELECT count(*) FROM episodes WHERE {where}", *bound)
            if len(self._counts) < _MAX_COUNTS:
                self._counts[key] = int(found)
        return int(found)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` computes from this index; it is computed again after the next fold."""
        self._forget_what_changed()
        kept = self._kept
        if key not in kept:
            kept[key] = make()
        found: T = kept[key]
        return found

    def _forget_what_changed(self) -> None:
        ((version,),) = self.rows("PRAGMA data_version")  # another one after each fold
        if version != self._counted_version:
            self._counts, self._kept, self._counted_version = {}, {}, version

    def num_faults(self) -> int:
        """How many faults on purpose the log has so far."""
        ((number,),) = self.rows("SELECT value FROM meta WHERE key = 'faults'")
        return int(number)

    def close(self) -> None:
        """Close the files."""
        with self._folding_lock, self._reading_lock:
            self._views.close()
            self._writer.close()


@contextmanager
def open_index(reader: LogReader) -> Iterator[RunIndex]:
    """The index of a log, until the block is left. Raises LogError."""
    with closing(RunIndex(reader, index_path(reader.path.parent))) as index:
        yield index


@contextmanager
def _no_collection() -> Iterator[None]:
    """Spare the collector the objects of a page, which make no cycles: a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def index_path(folder: Path) -> Path:
    """Where the index of a run's folder is: there, if this user began the run; else in the user's
    cache, because the folder's author could have made the file."""
    if os.access(folder, os.W_OK) and counts(folder / RUN_FILE):
        return folder / NAME
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rehearse" / "view"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        cache = Path(tempfile.gettempdir()) / f"rehearse-view-{os.getuid()}"
        cache.mkdir(mode=0o700, exist_ok=True)
    name = blake2b(str(folder.resolve()).encode(), digest_size=12).hexdigest()
    return cache / f"{name}.sqlite"


def _open_writer(path: Path, reader: LogReader) -> sqlite3.Connection:
    """The index's database, which belongs to the reader's log."""
    first = reader.stored_after(0, 1)
    identity = _stamp(first[0]) if first else ""
    try:
        database = _fitting(path, reader, identity)
        if database is None:
            _remove(path)
            database = _connect(path)
            _create(database, identity)
    except READ_ERRORS as exc:
        raise log_error(path, "the index cannot be opened", exc) from exc
    return database


def _fitting(path: Path, reader: LogReader, identity: str) -> sqlite3.Connection | None:
    """The database of the file that is there; None: there is none, or it is not this log's."""
    try:
        require_own_files(path)
    except OSError:  # what is there is removed
        return None
    if not path.is_file():
        return None
    with ExitStack() as stack:
        try:
            database = stack.enter_context(closing(_connect(path)))
            if not _fits(database, reader, identity):
                return None
        except sqlite3.DatabaseError as exc:
            if exc.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise  # it is in use, so it is not damaged
            return None
        stack.pop_all()
        return database


def _fits(database: sqlite3.Connection, reader: LogReader, identity: str) -> bool:
    """Whether the index has this format and was made from the beginning of this log."""
    found = dict(database.execute("SELECT key, value FROM meta").fetchall())
    if found.get("format") != FORMAT or found.get("log") != identity:
        return False
    position = found["position"]
    if not position:
        return True
    records = reader.stored_after(position - 1, 1)
    return bool(records) and _stamp(records[0]) == found.get("last")


def _create(database: sqlite3.Connection, identity: str) -> None:
    database.execute("PRAGMA page_size = 8192")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    if database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        database.execute("ROLLBACK")  # another process made it in the meantime
        return
    for statement in SCHEMA:
        database.execute(statement)
    for option, size in _TEXT_OPTIONS.items():
        database.execute("INSERT INTO texts (texts, rank) VALUES (?, ?)", (option, size))
    for key, value in (
        ("format", FORMAT),
        ("log", identity),
        ("position", 0),
        ("last", ""),
        ("faults", 0),
        ("diagnosed", 0),
    ):
        _put(database, key, value)
    database.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=20)
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA secure_delete = OFF")  # Debian's SQLite writes zeros over free pages
    database.execute(f"PRAGMA cache_size = {_CACHE_PAGES}")
    return database


def _remove(path: Path) -> None:
    for suffix in _SUFFIXES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def _put(database: sqlite3.Connection, key: str, value: Any) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _progress(database: sqlite3.Connection) -> tuple[int, int]:
    """The position up to which the log is folded, and how often mistakes were added."""
    sql = "SELECT value FROM meta WHERE key IN ('position', 'diagnosed') ORDER BY key DESC"
    (position,), (diagnosed,) = database.execute(sql)
    return int(position), int(diagnosed)


def _stamp(record: StoredRecord) -> str:
    """By which a record of the log is recognised: its position, attempt and time."""
    position, episode, attempt, _, at, _, _ = record
    return f"{position} {episode} {attempt} {at!r}"
