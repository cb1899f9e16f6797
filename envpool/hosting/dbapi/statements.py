"""Classify statements by their texts, by the rules of the stdlib's `sqlite3`."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Literal

StatementKind = Literal[0, 1, 2, 3, 4]

PLAIN: StatementKind = 0
CHANGE: StatementKind = (
    1  # INSERT, UPDATE, DELETE, REPLACE: `sqlite3` begins a transaction before it
)
SCHEMA: StatementKind = 2  # it may change the tables
FOREIGN_KEYS: StatementKind = 3  # PRAGMA foreign_keys with a value
SETTING: StatementKind = 4  # it may change the connection's own state

_SPACE = re.compile(r"(?:[ \t\f\n\r]+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE"})
_SCHEMA = frozenset({"CREATE", "DROP", "ALTER", "VACUUM", "REINDEX", "ANALYZE"})
_TEMPORARY = re.compile(r"CREATE\s+TEMP(?:ORARY)?\b", re.IGNORECASE)
_PRAGMA = re.compile(r"PRAGMA\s+(?:\w+\s*\.\s*)?(\w+)\s*([=(]?)", re.IGNORECASE)
# PRAGMAs whose setting lasts; the others only query, write into the file, or do nothing here.
_LASTING = frozenset(
    {
        "automatic_index",
        "case_sensitive_like",
        "count_changes",
        "defer_foreign_keys",
        "full_column_names",
        "ignore_check_constraints",
        "legacy_alter_table",
        "query_only",
        "recursive_triggers",
        "reverse_unordered_selects",
        "short_column_names",
    }
)


def skip(sql: str, start: int = 0) -> int:
    """The position of the first character after white space and comments."""
    match = _SPACE.match(sql, start)
    return match.end() if match else start


def is_empty(sql: str) -> bool:
    """Whether a text has no statement, only white space, comments and semicolons."""
    start = skip(sql)
    while sql[start : start + 1] == ";":
        start = skip(sql, start + 1)
    return start == len(sql)


def kind_of(sql: str) -> StatementKind:
    """The kind of a statement, by its first words.

    Example: "-- new\\nINSERT INTO t VALUES (1)" -> CHANGE; "WITH … INSERT …" -> PLAIN, as in
    `sqlite3`, which begins no transaction for it.
    """
    start = skip(sql)
    word = _WORD.match(sql, start)
    first = word.group().upper() if word else ""
    if first in _CHANGES:
        return CHANGE
    if first == "PRAGMA":
        return _pragma_kind(sql, start)
    if first in _SCHEMA:
        return SETTING if _TEMPORARY.match(sql, start) else SCHEMA
    return SETTING if first in ("ATTACH", "DETACH") else PLAIN


def _pragma_kind(sql: str, start: int) -> StatementKind:
    match = _PRAGMA.match(sql, start)
    name, value = match.groups() if match else ("", "")
    if not value:
        return PLAIN
    if name.lower() == "foreign_keys":
        return FOREIGN_KEYS
    return SETTING if name.lower() in _LASTING else PLAIN


def is_more_than_one(sql: str) -> bool:
    """Whether anything but comments follows the first statement."""
    if ";" not in sql:
        return False
    first = next(statements_of(sql), "")
    return skip(sql, len(first)) < len(sql)


def statements_of(script: str) -> Iterator[str]:
    """Split a script into pieces of one statement each; together they are the script.

    Semicolons before a statement belong to it. The last piece may have no statement.
    """
    start = position = 0
    while position < len(script):
        end = script.find(";", position) + 1
        if not end:
            break
        piece = script[start:end]
        if sqlite3.complete_statement(piece) and piece.strip("; \t\f\n\r"):
            yield piece
            start = end
        position = end
    if start < len(script):
        yield script[start:]
