"""The Protocols of a host for worlds that are being made: it seeds a world and executes calls.

`scenarios` cannot host a world itself; the caller of the generator passes a host.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.generate.core.package import Package


class HostedOutcome(msgspec.Struct, frozen=True):
    """The result of one call."""

    text: str  # JSON, or the refusal
    is_error: bool
    wrote: bool  # whether it changed rows


class WorldRun(Protocol):
    """One fresh copy of a world, on which calls are executed."""

    def call(self, name: str, arguments: dict[str, Any]) -> HostedOutcome:
        """Execute one call."""

    def changes(self) -> Sequence[RowChange]:
        """The rows that differ from the start, by table and key."""


class SeededWorld(Protocol):
    """A world with its seed rows."""

    def start_run(self) -> WorldRun:
        """A fresh copy of the world."""


class WorldHost(Protocol):
    """Hosts worlds while they are made."""

    def __call__(self, package: Package) -> AbstractContextManager[SeededWorld]:
        """Seed a package's schema and data and load its tools; the package has no tasks yet.

        A fault of the package is raised as the host's own exception.
        """
