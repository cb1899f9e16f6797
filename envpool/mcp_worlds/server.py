"""The Protocol of a world's running servers. What implements it (envpool.mcp_worlds.running) needs
the MCP client, which takes a second to import, so the pool imports it with its first world."""

from collections.abc import Sequence
from typing import Any, Protocol

from rehearsal_room.envpool.core.types import ServerRequest, ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.asks import AsksBack
from rehearsal_room.envpool.mcp_worlds.state import ServerState, Start

Way = tuple[str, bool, bool]  # a tool, whether its call failed, whether it changed rows


class Server(AsksBack, Protocol):
    """The server of one world, or its servers, and their state."""

    state: ServerState
    served: set[Way]  # in episodes before this one

    @property
    def has_ended(self) -> bool:
        """Whether it was ended, or ended by itself."""

    @property
    def is_unused(self) -> bool:
        """Whether no call has reached it since it started."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that it listed last."""

    @property
    def is_seeded(self) -> bool:
        """Whether its ids and times follow from the calls."""

    @property
    def last_asked(self) -> tuple[ServerRequest, ...]:
        """What it asked during the last call."""

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """The text of a call's result and why it failed (None: it did not). Raises WorldError."""

    async def renew_tools(self) -> None:
        """List the tools again where the server has said that they changed. Raises WorldError."""

    def put_back(self, start: Start) -> bool:
        """Write the state at the start under the server, which goes on; False: that cannot be."""

    async def end(self) -> None:
        """End the server; returns when it has ended."""
