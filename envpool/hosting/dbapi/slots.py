"""Slots: the connections that serve one scenario's worlds, and what hosted code may do with them.

Slots of one database look at one world together, as connections to one file would: SQLite's locks
hold between them, and what one commits the others see. A lock that another slot holds is refused
at once, not after five seconds: nobody else runs who could release it.

Nothing here reaches a file. ATTACH of one, extensions and PRAGMAs that concern files, memory or
threads do nothing or are refused, whatever the hosted code asks for.
"""

from collections.abc import Callable
from typing import Any

import apsw

from envpool.hosting.dbapi.errors import adapted
from envpool.store.overlay import Overlay, OverlayFile, OverlayVFS

MAX_BYTES = 64 * 2**20  # of one text, blob or row; of one statement a quarter of it
STRIDE = 100_000  # SQLite virtual machine instructions between two looks at the count

_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_BYTES,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_BYTES // 4,
    apsw.SQLITE_LIMIT_ATTACHED: 1,  # VACUUM attaches an empty one
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# PRAGMAs that are what they are elsewhere; any other one does nothing, as `journal_mode=WAL`.
_PRAGMAS = frozenset(
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
_READABLE = frozenset(
    {"busy_timeout", "cache_size", "journal_mode", "page_size", "schema_version", "synchronous"}
)

# A slot that holds at least the lock on the right bars another from the one on the left.
_BARRED_BY = {
    apsw.SQLITE_LOCK_SHARED: apsw.SQLITE_LOCK_PENDING,
    apsw.SQLITE_LOCK_RESERVED: apsw.SQLITE_LOCK_RESERVED,
    apsw.SQLITE_LOCK_EXCLUSIVE: apsw.SQLITE_LOCK_SHARED,
}


class SlotFile(OverlayFile):
    """One slot's view of the world's file."""

    __slots__ = ("level", "peers")

    def __init__(self, template: tuple[bytes, ...], current: Overlay) -> None:
        super().__init__(template, current)
        self.level = 0
        self.peers: list[SlotFile] = []  # the files of all slots, itself included

    def join(self, peers: "list[SlotFile]") -> None:
        """Respect the locks of these files from now on, as they do this one's. (A connection that
        is being opened reads, whoever holds a lock.)"""
        self.peers = peers
        peers.append(self)

    def xLock(self, level: int) -> None:
        bar = _BARRED_BY[level]
        for peer in self.peers:
            if peer.level >= bar and peer is not self:
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


class Known:
    """What a slot has learnt of a statement by running it."""

    __slots__ = ("converters", "description", "kind")

    def __init__(
        self,
        kind: int,
        description: tuple[Any, ...] | None,
        converters: tuple[Callable[[bytes], Any] | None, ...],
    ) -> None:
        self.kind = kind  # see envpool.hosting.dbapi.statements
        self.description = description  # of DB-API; None: it gives no rows
        self.converters = converters  # one a column, where the connection detects types


class Slot:
    """One connection. `chance(n)` gives n random bytes; `count` is asked every STRIDE instructions
    whether the statement is to be stopped."""

    __slots__ = (
        "connection",
        "execute",
        "file",
        "keys_at_rest",
        "keys_moved",
        "known",
        "plain",
        "stained",
    )

    def __init__(
        self,
        vfs: OverlayVFS,
        file: SlotFile,
        *,
        chance: Callable[[int], bytes],
        count: Callable[[], bool],
        max_pages: int,
    ) -> None:
        self.file = file
        self.connection = connection = vfs.connect(file)
        self.execute = connection.execute
        self.known: dict[str, Known] = {}  # by the statement's text
        self.keys_at_rest = False  # whether foreign keys are enforced at the start of a call
        self.keys_moved = False  # somebody has set whether they are
        self.stained = False  # somebody has set what cannot be set back
        self.plain = True  # it has no functions but SQLite's and the host's
        self.execute(f"PRAGMA max_page_count={max_pages}").fetchall()
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)  # as `sqlite3` has it
        for limit, value in _LIMITS.items():
            connection.limit(limit, value)
        connection.convert_binding = adapted
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1)
        connection.create_scalar_function("random", _random(chance), 0)
        connection.create_scalar_function("randomblob", _random_blob(chance), 1)
        connection.authorizer = _authorise
        connection.set_progress_handler(count, STRIDE)

    def __repr__(self) -> str:
        return f"<Slot [{len(self.known)} statements, lock {self.file.level}]>"

    def settle(self) -> None:
        """Take what is set now as what every call finds."""
        if self.keys_moved:
            self.keys_at_rest = self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, -1) == 1
            self.keys_moved = False
        self.stained = False

    def rest(self) -> None:
        """End what a call left open, and set back what it set."""
        if self.connection.in_transaction:
            self.execute("ROLLBACK")
        if self.keys_moved:
            self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, int(self.keys_at_rest))
            self.keys_moved = False
        if self.file.level:  # a statement is not at its end: it would go on in another world
            self.stained = True

    def close(self) -> None:
        """Close the connection; it serves nobody after this."""
        self.connection.close(True)


def _random(chance: Callable[[int], bytes]) -> Callable[..., int]:
    return lambda *_: int.from_bytes(chance(8), "big", signed=True)


def _random_blob(chance: Callable[[int], bytes]) -> Callable[..., bytes]:
    return lambda num: chance(min(max(1, int(num or 0)), MAX_BYTES + 1))


def _authorise(
    op: int, a: str | None, b: str | None, _database: str | None, _trigger: str | None
) -> int:
    if op == apsw.SQLITE_PRAGMA:
        name = (a or "").lower()
        allowed = name in _PRAGMAS or (name in _READABLE and b is None)
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_IGNORE
    if op == apsw.SQLITE_ATTACH and a:
        return apsw.SQLITE_DENY
    if op == apsw.SQLITE_FUNCTION and b == "load_extension":
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK
