"""The real `sqlite3`, with the scenario's clock: for verifiers, which open database files.

SQLite's library asks the machine for the time. Connections made in a `telling_time` block have date
functions of their own: they put the clock where SQL says 'now', or says no time at all, and
SQLite itself computes the rest. Not covered: a connection made by calling `sqlite3.Connection`.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

# Function -> how many arguments stand before the time.
_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
_KEYWORDS = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}


@contextmanager
def telling_time() -> Iterator[None]:
    """While it is open, `sqlite3.connect` gives connections on which 'now' is what Python's clock
    says (see envpool.hosting.determinism.clock)."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    computing = connect(":memory:")

    def connect_told(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        for name, function in _functions(computing).items():
            connection.create_function(name, -1, function, deterministic=True)
        return connection

    _put(connect_told)
    try:
        yield
    finally:
        _put(connect)
        computing.close()


def _put(connect: Callable[..., sqlite3.Connection]) -> None:
    for module in (sqlite3, sqlite3.dbapi2):
        vars(module)["connect"] = connect


def _functions(computing: sqlite3.Connection) -> dict[str, Callable[..., Any]]:
    def told(name: str, position: int) -> Callable[..., Any]:
        def function(*given: Any) -> Any:
            values = list(given)
            if len(values) == position:
                values.append("now")
            if len(values) > position and str(values[position]).lower() == "now":
                values[position] = _now()
            marks = ", ".join("?" * len(values))
            return computing.execute(f"SELECT {name}({marks})", values).fetchone()[0]

        return function

    functions = {name: told(name, position) for name, position in _FUNCTIONS.items()}
    return functions | {keyword: functions[name] for keyword, name in _KEYWORDS.items()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
