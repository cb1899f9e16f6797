"""Give the real `sqlite3` the scenario's clock: for verifiers, which open database files.

SQLite's library reads the machine's clock. Connections made in a `patch_sql_clock` block have
replaced date functions: they insert Python's time where SQL has 'now' or no time at all, and SQLite
computes the rest. Not covered: a connection made by calling `sqlite3.Connection`.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

# Function -> the position of its time argument.
_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
_KEYWORDS = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}


@contextmanager
def patch_sql_clock() -> Iterator[None]:
    """A block in which `sqlite3.connect` returns connections whose 'now' is the time of Python's
    clock (see envpool.hosting.determinism.clock)."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    computing = connect(":memory:")

    def connect_patched(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        for name, function in _functions(computing).items():
            connection.create_function(name, -1, function, deterministic=True)
        return connection

    _replace_connect(connect_patched)
    try:
        yield
    finally:
        _replace_connect(connect)
        computing.close()


def _replace_connect(connect: Callable[..., sqlite3.Connection]) -> None:
    for module in (sqlite3, sqlite3.dbapi2):
        vars(module)["connect"] = connect


def _functions(computing: sqlite3.Connection) -> dict[str, Callable[..., Any]]:
    def patched(name: str, position: int) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            values = list(arguments)
            if len(values) == position:
                values.append("now")
            if len(values) > position and str(values[position]).lower() == "now":
                values[position] = _now()
            marks = ", ".join("?" * len(values))
            return computing.execute(f"SELECT {name}({marks})", values).fetchone()[0]

        return function

    functions = {name: patched(name, position) for name, position in _FUNCTIONS.items()}
    return functions | {keyword: functions[name] for keyword, name in _KEYWORDS.items()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
