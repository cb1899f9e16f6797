"""Where the worlds of a run come from: what a source does, and what the user says about it.

A source finds scenarios by name and says what pool runs their worlds. Each kind of source is one
module; `envpool.sources.registry` chooses one.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from rehearsal_room.envpool.mcp.asks import AskMode
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.format import Scenario, Seeding
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags


class McpTarget(msgspec.Struct, frozen=True):
    """One MCP server of a world, and how to reach it."""

    target: str  # an http or https URL, or a command that is split like in a shell
    name: str = ""  # as the user names it; empty: its own name stands for it
    headers: tuple[tuple[str, str], ...] = ()  # for a URL: name, value
    environment: tuple[str, ...] = ()  # variables that a command inherits
    token: str = ""  # bearer token for a URL
    ask: AskMode = "refuse"  # who answers its requests
    has_resources: bool = False  # whether the agent has tools for its resources and prompts

    @property
    def is_url(self) -> bool:
        """Whether it is reached at a URL; otherwise a command starts it."""
        return self.target.startswith(("http://", "https://"))

    @property
    def given(self) -> str:
        """As the user wrote it: TARGET or NAME=TARGET."""
        return f"{self.name}={self.target}" if self.name else self.target


class SourceArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the source. At most one of `mcp`, `openenv`, `suite` and `awm` is
    set; with `pool`, their worlds are leased from another process."""

    pool: str = ""  # URL of a `rehearse serve` process
    mcp: tuple[McpTarget, ...] = ()  # the servers that are the world together
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
        """Whether the tasks may have reference solutions, which policy `oracle` plays. Tasks are
        not read for it. Raises ScenarioError where a suite's data is not there."""

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
