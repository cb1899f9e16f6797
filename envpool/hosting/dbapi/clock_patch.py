"""Give the real `sqlite3` the scenario's clock: for verifiers, which open database files.

SQLite's library reads the machine's clock. Connections made in a `patch_sql_clock` block have
replaced date functions: they insert Python's time where SQL has 'now' or no time at all, and SQLite
computes the rest. Not covered: a connection made by calling `sqlite3.Connection`.
"""

import functools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

# Function -> the position of its time argument.
_FUNCTIONS = {"date": 0, "time": 0, "datetime": 0, "julianday": 0, "unixepoch": 0, "strftime": 1}
_KEYWORDS = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}


_computing: list[sqlite3.Connection] = []  # one for each open block; the last one computes
_connect: Callable[..., sqlite3.Connection] = sqlite3.connect


@contextmanager
def patch_sql_clock() -> Iterator[None]:
    """A block in which `sqlite3.connect` returns connections whose 'now' is the time of Python's
    clock (see envpool.hosting.determinism.clock).

    The first block installs the function that does so, which stays: replacing it for each block
    would change the namespace of `sqlite3`, which is then compared with all that it contains
    (envpool.hosting.dict_versions). Outside of a block it does what it replaces.
    """
    for module in (sqlite3, sqlite3.dbapi2):
        if vars(module)["connect"] is _connect:
            vars(module)["connect"] = _connect_by_clock
    computing = _connect(":memory:")
    _computing.append(computing)
    try:
        yield
    finally:
        _computing.remove(computing)
        computing.close()


@functools.wraps(_connect)
def _connect_by_clock(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    connection = _connect(*args, **kwargs)
    if _computing:
        for name, function in _functions(_computing[-1]).items():
            connection.create_function(name, -1, function, deterministic=True)
    return connection


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
