"""Translate apsw's errors into those of the stdlib's `sqlite3`: its classes, codes and texts."""

import sqlite3
from typing import Any

import apsw

_CLASSES: dict[int, type[sqlite3.Error]] = {
    apsw.SQLITE_INTERNAL: sqlite3.InternalError,
    apsw.SQLITE_NOTFOUND: sqlite3.InternalError,
    apsw.SQLITE_ERROR: sqlite3.OperationalError,
    apsw.SQLITE_PERM: sqlite3.OperationalError,
    apsw.SQLITE_ABORT: sqlite3.OperationalError,
    apsw.SQLITE_BUSY: sqlite3.OperationalError,
    apsw.SQLITE_LOCKED: sqlite3.OperationalError,
    apsw.SQLITE_READONLY: sqlite3.OperationalError,
    apsw.SQLITE_INTERRUPT: sqlite3.OperationalError,
    apsw.SQLITE_IOERR: sqlite3.OperationalError,
    apsw.SQLITE_FULL: sqlite3.OperationalError,
    apsw.SQLITE_CANTOPEN: sqlite3.OperationalError,
    apsw.SQLITE_PROTOCOL: sqlite3.OperationalError,
    apsw.SQLITE_EMPTY: sqlite3.OperationalError,
    apsw.SQLITE_SCHEMA: sqlite3.OperationalError,
    apsw.SQLITE_TOOBIG: sqlite3.DataError,
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_MISMATCH: sqlite3.IntegrityError,
    apsw.SQLITE_MISUSE: sqlite3.InterfaceError,
    apsw.SQLITE_RANGE: sqlite3.InterfaceError,
}


def as_sqlite3(
    exc: Exception, connection: apsw.Connection, sql: str, parameters: Any
) -> BaseException:
    """The exception that `sqlite3` raises where apsw raised `exc` for this statement."""
    if isinstance(exc, apsw.Error) and not isinstance(exc, apsw.BindingsError):
        return _sqlite_error(exc)
    if isinstance(exc, MemoryError):
        return exc
    if isinstance(exc, ValueError) and "\0" in sql:
        return sqlite3.ProgrammingError("the query contains a null character")
    return _parameter_error(_placeholders(connection, sql), parameters) or _function_error(exc)


def _sqlite_error(exc: apsw.Error) -> BaseException:
    code = getattr(exc, "result", apsw.SQLITE_ERROR)
    if code == apsw.SQLITE_NOMEM:
        return MemoryError()
    kind = _CLASSES.get(code, sqlite3.DatabaseError)
    return _error(kind, str(exc), getattr(exc, "extendedresult", code))


def _error(kind: type[sqlite3.Error], text: str, code: int) -> sqlite3.Error:
    error = kind(text)
    names = apsw.mapping_extended_result_codes if code > 255 else apsw.mapping_result_codes
    error.sqlite_errorcode = code
    error.sqlite_errorname = str(names.get(code, "unknown"))
    return error


class _Names(dict[str, None]):
    """Parameters that contain every name and record it."""

    def __missing__(self, name: str) -> None:
        self[name] = None


def _placeholders(connection: apsw.Connection, sql: str) -> list[str]:
    """The placeholders of a statement that apsw can prepare, ":name" or "?". Runs nothing."""
    cursor = connection.cursor()
    cursor.exec_trace = lambda *_: False
    names = _Names()
    for parameters in (names, ()):
        try:
            cursor.execute(sql, parameters)
        except apsw.ExecTraceAbort:
            return [f":{name}" for name in names]
        except apsw.BindingsError as exc:  # "…  The current statement uses 2 and there are …"
            words = str(exc).partition(" uses ")[2].split()
            if words:
                return ["?"] * int(words[0])
        except apsw.Error:
            return []
    return []


def _parameter_error(placeholders: list[str], parameters: Any) -> BaseException | None:
    """The error of `sqlite3` for these parameters and placeholders; None: it accepts them."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"SELECT {', '.join(placeholders) or '1'}", parameters).fetchall()
    except Exception as exc:
        return exc.with_traceback(None)
    finally:
        connection.close()
    return None


def _function_error(exc: Exception) -> BaseException:
    """The error of a failure between SQL and Python: in a function, or of a text not in UTF-8."""
    if isinstance(exc, UnicodeDecodeError):
        return sqlite3.OperationalError(f"Could not decode to UTF-8: {exc}")
    text = "user-defined function raised exception"
    return _error(sqlite3.OperationalError, text, apsw.SQLITE_ERROR)


def adapt(_cursor: apsw.Cursor, _number: int, value: Any) -> Any:
    """Adapt a parameter that SQLite has no type for, by the adapters registered with `sqlite3`.

    Example: datetime(2024, 1, 2, 3, 4) -> "2024-01-02 03:04:00"

    Raises TypeError when no adapter accepts it.
    """
    found = sqlite3.adapt(value, sqlite3.PrepareProtocol, value)
    if found is value:
        raise TypeError(f"type {type(value).__name__!r} is not supported")
    return found
