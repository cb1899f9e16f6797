"""Where the worlds of a run come from: what a source does, and what the user says about it.

A source finds scenarios by name and says what pool runs their worlds. Each kind of source is one
module; `envpool.sources.registry` chooses one.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.format import Scenario, Seeding
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags


class SourceArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the source. At most one of `mcp`, `openenv`, `suite` and `awm` is
    set; with `pool`, their worlds are leased from another process."""

    pool: str = ""  # URL of a `rehearse serve` process
    mcp: str = ""  # URL or command of an MCP server
    mcp_env: tuple[str, ...] = ()  # names of environment variables that its command may have
    mcp_headers: tuple[tuple[str, str], ...] = ()  # name and value, for the URL of a server
    openenv: str = ""  # URL of an OpenEnv environment
    suite: str = ""  # name of a suite
    suite_flags: SuiteFlags = SuiteFlags()
    awm: str = ""  # folder of AgentWorldModel-1K's files
    seeding: Seeding = "awm"  # of the databases of AWM records
    token: str = ""  # bearer token for the server of the worlds; empty: it asks for none


class WorldSource(Protocol):
    """A source of worlds."""

    @property
    def needs_call_timeout(self) -> bool:
        """Whether the caller must time the calls: nothing here can end one that hangs. (Workers
        end such calls themselves, and calls in this process never wait.)"""

    @property
    def has_solutions(self) -> bool:
        """Whether the tasks may have reference solutions, which policy `oracle` plays."""

    def names(self, given: Sequence[str]) -> Sequence[str]:
        """The names of single scenarios; a name that stands for several is replaced by theirs.
        Raises ScenarioError."""

    def find(self, name: str) -> Scenario:
        """The scenario of a name (or path). Raises ScenarioError."""

    def logged_finder(self) -> Callable[[str], Scenario]:
        """A function that finds a scenario by the path or the name that a log has of it; the
        function raises ScenarioError. Raises ScenarioError where the data of a suite is gone."""

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """The pool that runs the worlds, to be entered; None: they run in this process and its
        workers. Raises PoolError and ScenarioError."""
