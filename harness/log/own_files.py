"""What SQLite must not do with a database that somebody else has made.

A run's folder may come from anybody, and to open a database is to obey the files beside it:

    a rollback journal may name another file, which SQLite removes when it has undone the journal
    a link in the place of a `-wal` or `-journal` is written through, a FIFO blocks
    the schema says what a query runs: views that never end, triggers, virtual tables

So a database of a run's folder is opened after `require_own_files`, and used after `require_schema`
has compared its tables with ours.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rehearsal_room.scenarios.files import own_fault

SUFFIXES = ("", "-wal", "-shm", "-journal")  # of the files of a database
SCHEMA_QUERY = "SELECT type, name, sql FROM sqlite_master"
_MOST = 2**48  # bytes: a log may be large
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # SQLite's file format, 3: the rollback journal


def require_own_files(path: Path) -> None:
    """Refuse a database with a file that is not a regular one, and one whose journal names
    another file. Raises OSError with the reason."""
    for suffix in SUFFIXES:
        file = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            if fault := own_fault(file, most=_MOST):
                raise OSError(f"{file.name}: {fault}")
            if suffix == "-journal" and _names_a_file(file):
                raise OSError(f"{file.name} names another file, which SQLite would remove")


def require_schema(found: Iterable[Iterable[Any]], known: Iterable[str]) -> None:
    """Refuse a database whose schema (see SCHEMA_QUERY) has more than these statements. Raises
    OSError with the reason."""
    ours = set(map(_normal, known))
    for kind, name, sql in found:
        is_key = sql is None and name.startswith("sqlite_autoindex_")
        if not is_key and (not isinstance(sql, str) or _normal(sql) not in ours):
            raise OSError(f"it has a {kind} {name!r}, and no log of this version has that")


def _normal(sql: str) -> str:
    return " ".join(sql.split())


def _names_a_file(journal: Path) -> bool:
    """Whether the end of a journal is that of a transaction over several databases."""
    with journal.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_MAGIC)))
        return file.read() == _MAGIC
