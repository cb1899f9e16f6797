"""apsw's errors as the stdlib's `sqlite3` would have raised them: its classes, codes and texts."""

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
        return _of_sqlite(exc)
    if isinstance(exc, MemoryError):
        return exc
    if isinstance(exc, ValueError) and "\0" in sql:
        return sqlite3.ProgrammingError("the query contains a null character")
    return _of_parameters(_marks(connection, sql), parameters) or _of_function(exc)


def _of_sqlite(exc: apsw.Error) -> BaseException:
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
    """Parameters that say yes to every name and remember it."""

    def __missing__(self, name: str) -> None:
        self[name] = None


def _marks(connection: apsw.Connection, sql: str) -> list[str]:
    """The parameters of a statement that apsw can prepare, as ":name" or "?"; nothing is run."""
    cursor = connection.cursor()
    cursor.exec_trace = lambda *_: False
    names = _Names()
    for given in (names, ()):
        try:
            cursor.execute(sql, given)
        except apsw.ExecTraceAbort:
            return [f":{name}" for name in names]
        except apsw.BindingsError as exc:  # "…  The current statement uses 2 and there are …"
            words = str(exc).partition(" uses ")[2].split()
            if words:
                return ["?"] * int(words[0])
        except apsw.Error:
            return []
    return []


def _of_parameters(marks: list[str], parameters: Any) -> BaseException | None:
    """What `sqlite3` says to such parameters for such a statement; None: it takes them."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"SELECT {', '.join(marks) or '1'}", parameters).fetchall()
    except Exception as exc:
        return exc.with_traceback(None)
    finally:
        connection.close()
    return None


def _of_function(exc: Exception) -> BaseException:
    """Of what broke between SQL and Python: a function of the user's, a text that is none."""
    if isinstance(exc, UnicodeDecodeError):
        return sqlite3.OperationalError(f"Could not decode to UTF-8: {exc}")
    text = "user-defined function raised exception"
    return _error(sqlite3.OperationalError, text, apsw.SQLITE_ERROR)


def adapted(_cursor: apsw.Cursor, _number: int, value: Any) -> Any:
    """A parameter that SQLite has no type for, as the adapters registered with `sqlite3` give it.

    Example: datetime(2024, 1, 2, 3, 4) -> "2024-01-02 03:04:00"

    Raises TypeError when nobody can adapt it.
    """
    found = sqlite3.adapt(value, sqlite3.PrepareProtocol, value)
    if found is value:
        raise TypeError(f"type {type(value).__name__!r} is not supported")
    return found
