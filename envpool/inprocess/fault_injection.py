"""Worlds that are broken on purpose, to see what is made of failures that are not the agent's.

    raises   the tool raises KeyError
    timeout  the tool's SQL never ends; the world stops it at its limit
    locked   SQLite tells the tool that a table is locked

A fault strikes inside of a call that is executed for real, when the tool has done its work and
before it answers: rows were written by then, and the world must undo them. A call that the tool
refuses is refused as ever, for it does not come so far.

A world has one connection at a time, so its own tables are never locked. The locked one is in a
database that the tool keeps beside it.
"""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args

from envpool.inprocess.toolset import Tool, load
from scenarios.api import Db
from scenarios.format import read

Fault = Literal["raises", "timeout", "locked"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_TOOLS_PY = """

# --- broken on purpose (see envpool.inprocess.fault_injection) ---------------------------------

from envpool.inprocess.fault_injection import breaking as _breaking  # noqa: E402

{tool} = _breaking({tool}, {fault!r})
"""


def breaking(function: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    """A tool's function that breaks each time it would have answered."""
    strike = _STRIKES[fault]

    @wraps(function)
    def broken(db: Db, **arguments: Any) -> Any:
        answer = function(db, **arguments)
        strike(db)
        return answer

    return broken


class FaultInjector:
    """The tools of a world, of which one breaks when it was told to.

        injector = FaultInjector(load(scenario))
        world = HostedScenario(scenario, tools=injector.tools)
        injector.plant("locked", call=2)  # the third call from now will break, once

    The world's `max_steps` says how long a `timeout` takes: a million are some 7 ms.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.tools = {name: tool.doing(self._mined(name, tool)) for name, tool in tools.items()}
        self._fault: Fault | None = None  # None: nothing is planted, or it has struck
        self._tool = ""
        self._left = 0  # calls that pass before it strikes

    def __repr__(self) -> str:
        if self._fault is None:
            return f"<FaultInjector [{len(self.tools)} tools]>"
        where = self._tool or "any tool"
        return f"<FaultInjector [{self._fault} in {where} after {self._left} calls]>"

    @property
    def is_planted(self) -> bool:
        """Whether a fault waits to strike."""
        return self._fault is not None

    def plant(self, fault: Fault, *, tool: str = "", call: int = 0) -> None:
        """Break one call from now on: that of this number (from 0) among those of the tool; empty:
        among all. Calls that never reach a tool, for their arguments, are not counted."""
        self._fault, self._tool, self._left = fault, tool, call

    def _mined(self, name: str, tool: Tool) -> Callable[..., Any]:
        def function(db: Db, **arguments: Any) -> Any:
            fault = self._due(name)
            if fault is None:
                return tool.function(db, **arguments)
            return breaking(tool.function, fault)(db, **arguments)

        return function

    def _due(self, name: str) -> Fault | None:
        """The fault that strikes in this call of a tool; None: none."""
        if self._fault is None or (self._tool and self._tool != name):
            return None
        if self._left:
            self._left -= 1
            return None
        fault, self._fault = self._fault, None
        return fault


def sabotaged(package: Path, destination: Path, fault: Fault, tool: str) -> Path:
    """Copy a package of ours into the folder `destination`, with one tool that breaks whenever it
    would have answered; gives the copy's folder, which can be run like any other.

    Raises PackageError and ToolsetError for what is no package, ValueError for one that lacks the
    tool, FileExistsError where the copy would overwrite something.
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


def _run_away(db: Db) -> None:
    db.value(
        "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted) "
        "SELECT max(n) FROM counted"
    )


def _meet_a_lock(db: Db) -> None:
    """SQLITE_LOCKED, which SQLite gives when a table is dropped that is still being read."""
    with closing(sqlite3.connect(":memory:")) as beside, closing(beside.cursor()) as reader:
        beside.execute("CREATE TABLE queue AS SELECT 1 AS number UNION ALL SELECT 2")
        reader.execute("SELECT number FROM queue").fetchone()
        beside.execute("DROP TABLE queue")


_STRIKES: dict[Fault, Callable[[Db], None]] = {
    "raises": _raise,
    "timeout": _run_away,
    "locked": _meet_a_lock,
}
