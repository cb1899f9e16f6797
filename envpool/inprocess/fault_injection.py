"""Worlds broken on purpose, to test how failures that are not the agent's are handled.

    raises   the tool raises KeyError
    timeout  the tool's SQL never ends; the world stops it at its limit
    locked   SQLite reports to the tool that a table is locked

A fault happens inside a call that is executed for real, after the tool has done its work and
before it answers: it has written rows by then, and the world must undo them. A call that the tool
refuses is refused as usual, because it does not get that far.

A world has one connection at a time, so its own tables are never locked. The locked table is in a
second database that the fault creates.
"""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args

from rehearsal_room.envpool.inprocess.toolset import Tool, load
from rehearsal_room.scenarios.api import Db
from rehearsal_room.scenarios.format import read

ToolFault = Literal["raises", "timeout", "locked"]
FAULTS: tuple[ToolFault, ...] = get_args(ToolFault)

_TOOLS_PY = """

# --- broken on purpose (see envpool.inprocess.fault_injection) ---------------------------------

from rehearsal_room.envpool.inprocess.fault_injection import with_fault as _with_fault  # noqa: E402

{tool} = _with_fault({tool}, {fault!r})
"""


def with_fault(function: Callable[..., Any], fault: ToolFault) -> Callable[..., Any]:
    """A tool's function that fails each time before it would have answered."""
    fail = _FAILURES[fault]

    @wraps(function)
    def broken(db: Db, **arguments: Any) -> Any:
        answer = function(db, **arguments)
        fail(db)
        return answer

    return broken


class FaultInjector:
    """The tools of a world; a scheduled fault breaks one of their calls.

        injector = FaultInjector(load(scenario))
        world = HostedScenario(scenario, tools=injector.tools)
        injector.schedule("locked", call=2)  # the third call from now will break, once

    The world's `max_steps` determines how long a `timeout` takes: a million are about 7 ms.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools = {
            name: tool.with_function(self._breakable(name, tool)) for name, tool in tools.items()
        }
        self._fault: ToolFault | None = None  # None: no fault is scheduled, or it has happened
        self._tool = ""
        self._calls_left = 0  # calls that pass before the fault

    def __repr__(self) -> str:
        if self._fault is None:
            return f"<FaultInjector [{len(self.tools)} tools]>"
        where = self._tool or "any tool"
        return f"<FaultInjector [{self._fault} in {where} after {self._calls_left} calls]>"

    @property
    def is_pending(self) -> bool:
        """Whether a scheduled fault has not happened yet."""
        return self._fault is not None

    def schedule(self, fault: ToolFault, *, tool: str = "", call: int = 0) -> None:
        """Break one call from now on: the call with this index (from 0) among the calls of `tool`,
        or among all calls where `tool` is empty. Calls with bad arguments never reach a tool and do
        not count."""
        self._fault, self._tool, self._calls_left = fault, tool, call

    def _breakable(self, name: str, tool: Tool) -> Callable[..., Any]:
        def function(db: Db, **arguments: Any) -> Any:
            fault = self._next_fault(name)
            if fault is None:
                return tool.function(db, **arguments)
            return with_fault(tool.function, fault)(db, **arguments)

        return function

    def _next_fault(self, name: str) -> ToolFault | None:
        """The fault of this call of a tool; None: the call does not break."""
        if self._fault is None or (self._tool and self._tool != name):
            return None
        if self._calls_left:
            self._calls_left -= 1
            return None
        fault, self._fault = self._fault, None
        return fault


def copy_with_fault(package: Path, destination: Path, fault: ToolFault, tool: str) -> Path:
    """Copy a package into the folder `destination`, with one tool that always breaks before it
    answers; returns the folder of the copy, which can be run like any other package.

    Raises PackageError and ToolsetError for a folder that is not a valid package, ValueError for a
    package without this tool, FileExistsError where the copy would overwrite something.
    """
    tools = load(read(package))
    if tool not in tools:
        raise ValueError(f"{package} has no tool {tool!r}; it has {', '.join(tools)}")
    copy = destination / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "tools.py").open("a", encoding="utf-8") as file:
        file.write(_TOOLS_PY.format(tool=tool, fault=fault))
    return copy


def _raise(db: Db) -> None:
    raise KeyError("a column that is not there")


def _run_forever(db: Db) -> None:
    db.value(
        "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted) "
        "SELECT max(n) FROM counted"
    )


def _raise_locked(db: Db) -> None:
    """SQLITE_LOCKED, which SQLite reports when a table that is still being read is dropped."""
    with closing(sqlite3.connect(":memory:")) as other, closing(other.cursor()) as reader:
        other.execute("CREATE TABLE queue AS SELECT 1 AS number UNION ALL SELECT 2")
        reader.execute("SELECT number FROM queue").fetchone()
        other.execute("DROP TABLE queue")


_FAILURES: dict[ToolFault, Callable[[Db], None]] = {
    "raises": _raise,
    "timeout": _run_forever,
    "locked": _raise_locked,
}
