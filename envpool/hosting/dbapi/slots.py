"""Slots: the connections that serve one scenario's worlds, and what hosted code may do with them.

The slots of one database see one world together, as connections to one file would: SQLite's locks
apply between them, and each sees what another commits. A lock that another slot holds is refused
at once, not after five seconds: no other code runs that could release it.

Nothing here accesses a file. ATTACH of a file, extensions, and PRAGMAs that concern files, memory
or threads do nothing or are refused, whatever the hosted code asks for.
"""

from collections.abc import Callable
from typing import Any

import apsw

from rehearsal_room.envpool.hosting.dbapi.errors import adapt
from rehearsal_room.envpool.store.overlay import Overlay, OverlayFile, OverlayVFS

MAX_BYTES = 64 * 2**20  # of one text, blob or row; of one statement a quarter of it
STRIDE = 100_000  # SQLite virtual machine instructions between two checks of the limit

_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_BYTES,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_BYTES // 4,
    apsw.SQLITE_LIMIT_ATTACHED: 1,  # VACUUM attaches an empty one
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# PRAGMAs that have their usual effect; any other one does nothing, for example `journal_mode=WAL`.
_ALLOWED_PRAGMAS = frozenset(
    {
        "application_id",
        "automatic_index",
        "case_sensitive_like",
        "collation_list",
        "compile_options",
        "count_changes",
        "data_version",
        "database_list",
        "defer_foreign_keys",
        "encoding",
        "foreign_key_check",
        "foreign_key_list",
        "foreign_keys",
        "freelist_count",
        "full_column_names",
        "function_list",
        "ignore_check_constraints",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "legacy_alter_table",
        "module_list",
        "page_count",
        "pragma_list",
        "query_only",
        "quick_check",
        "read_uncommitted",
        "recursive_triggers",
        "reverse_unordered_selects",
        "short_column_names",
        "table_info",
        "table_list",
        "table_xinfo",
        "user_version",
    }
)
_READ_ONLY_PRAGMAS = frozenset(
    {"busy_timeout", "cache_size", "journal_mode", "page_size", "schema_version", "synchronous"}
)

# A slot that holds at least the lock on the right blocks another from the lock on the left.
_BLOCKED_BY = {
    apsw.SQLITE_LOCK_SHARED: apsw.SQLITE_LOCK_PENDING,
    apsw.SQLITE_LOCK_RESERVED: apsw.SQLITE_LOCK_RESERVED,
    apsw.SQLITE_LOCK_EXCLUSIVE: apsw.SQLITE_LOCK_SHARED,
}


class SlotFile(OverlayFile):
    """The world's file as one slot reads and locks it."""

    __slots__ = ("level", "peers")

    def __init__(self, template: tuple[bytes, ...], current: Overlay) -> None:
        super().__init__(template, current)
        self.level = 0
        self.peers: list[SlotFile] = []  # the files of all slots, itself included

    def join(self, peers: "list[SlotFile]") -> None:
        """Respect the locks of these files from now on, as they respect this one's.

        (A connection that is being opened reads in spite of locks.)
        """
        self.peers = peers
        peers.append(self)

    def xLock(self, level: int) -> None:
        blocking = _BLOCKED_BY[level]
        for peer in self.peers:
            if peer.level >= blocking and peer is not self:
                if level == apsw.SQLITE_LOCK_EXCLUSIVE:
                    self.level = apsw.SQLITE_LOCK_PENDING
                raise apsw.BusyError("another connection to this world holds a lock")
        self.level = level

    def xUnlock(self, level: int) -> None:
        self.level = level

    def xCheckReservedLock(self) -> bool:
        return any(peer.level >= apsw.SQLITE_LOCK_RESERVED for peer in self.peers)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if offset == 0:
            for peer in self.peers:
                if peer is not self:
                    peer.invalidate()

    def xClose(self) -> None:
        if self in self.peers:
            self.peers.remove(self)


class StatementInfo:
    """What a slot knows about a statement after running it once."""

    __slots__ = ("converters", "description", "kind")

    def __init__(
        self,
        kind: int,
        description: tuple[Any, ...] | None,
        converters: tuple[Callable[[bytes], Any] | None, ...],
    ) -> None:
        self.kind = kind  # see envpool.hosting.dbapi.statements
        self.description = description  # as in DB-API; None: the statement returns no rows
        self.converters = converters  # for each column, when the connection detects types


class Slot:
    """One connection of apsw, used by one connection of hosted code at a time.

    `random_bytes(n)` returns n random bytes. `should_stop()` is called every STRIDE instructions
    and stops the statement when it returns True.
    """

    __slots__ = (
        "connection",
        "dirty",
        "execute",
        "file",
        "foreign_keys_changed",
        "foreign_keys_default",
        "plain",
        "statements",
    )

    def __init__(
        self,
        vfs: OverlayVFS,
        file: SlotFile,
        *,
        random_bytes: Callable[[int], bytes],
        should_stop: Callable[[], bool],
        max_pages: int,
    ) -> None:
        self.file = file
        self.connection = connection = vfs.connect(file)
        self.execute = connection.execute
        self.statements: dict[str, StatementInfo] = {}  # by the statement's text
        self.foreign_keys_default = False  # whether a call begins with them enforced
        self.foreign_keys_changed = False  # whether the call has set this
        self.dirty = False  # something was set that cannot be undone
        self.plain = True  # it has only SQLite's functions and the host's
        self.execute(f"PRAGMA max_page_count={max_pages}").fetchall()
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)  # as in `sqlite3`
        for limit, value in _LIMITS.items():
            connection.limit(limit, value)
        connection.convert_binding = adapt
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1)
        connection.create_scalar_function("random", _random_function(random_bytes), 0)
        connection.create_scalar_function("randomblob", _randomblob_function(random_bytes), 1)
        connection.authorizer = _authorize
        connection.set_progress_handler(should_stop, STRIDE)

    def __repr__(self) -> str:
        return f"<Slot [{len(self.statements)} statements, lock {self.file.level}]>"

    def save_defaults(self) -> None:
        """Make the current settings those with which every call begins."""
        if self.foreign_keys_changed:
            self.foreign_keys_default = (
                self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, -1) == 1
            )
            self.foreign_keys_changed = False
        self.dirty = False

    def reset(self) -> None:
        """End the transaction that a call left open, and undo its settings."""
        if self.connection.in_transaction:
            self.execute("ROLLBACK")
        if self.foreign_keys_changed:
            self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, int(self.foreign_keys_default))
            self.foreign_keys_changed = False
        if self.file.level:  # an unfinished statement would continue in another world
            self.dirty = True

    def close(self) -> None:
        """Close the connection; it cannot be used after this."""
        self.connection.close(True)


def _random_function(random_bytes: Callable[[int], bytes]) -> Callable[..., int]:
    return lambda *_: int.from_bytes(random_bytes(8), "big", signed=True)


def _randomblob_function(random_bytes: Callable[[int], bytes]) -> Callable[..., bytes]:
    return lambda num: random_bytes(min(max(1, int(num or 0)), MAX_BYTES + 1))


def _authorize(
    op: int, a: str | None, b: str | None, _database: str | None, _trigger: str | None
) -> int:
    if op == apsw.SQLITE_PRAGMA:
        name = (a or "").lower()
        allowed = name in _ALLOWED_PRAGMAS or (name in _READ_ONLY_PRAGMAS and b is None)
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_IGNORE
    if op == apsw.SQLITE_ATTACH and a:
        return apsw.SQLITE_DENY
    if op == apsw.SQLITE_FUNCTION and b == "load_extension":
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK
