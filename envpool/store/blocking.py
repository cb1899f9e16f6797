"""Worlds whose calls block the calling thread: what the gate plays tasks on.

A hosted package (envpool.inprocess.world) answers at once; the world of an MCP server
(judge.gate.server_world) waits for its server.
"""

from abc import abstractmethod
from typing import Any, Protocol

from rehearsal_room.envpool.core.types import StoredState, ToolResult
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.states import States


class BlockingLease(Protocol):
    """One world of a BlockingWorld. A fork costs little."""

    overlay: Overlay

    @property
    def digest(self) -> str:
        """The state's digest now."""

    def call(self, name: str, arguments: Any, call_id: str = "") -> ToolResult:
        """Execute one call. Raises WorldError where the world as a whole breaks."""

    def state(self) -> StoredState:
        """The state now, as changed pages."""

    def fork(self) -> "BlockingLease":
        """A second world that continues from here."""


class BlockingWorld(States):
    """A hosted scenario, its states and its worlds."""

    @abstractmethod
    def lease(self) -> BlockingLease:
        """The world of a new episode."""

    @abstractmethod
    def lease_at(self, lease: Any) -> BlockingLease:
        """A world of this host in the state of a lease, which another host of the scenario may have
        made."""
