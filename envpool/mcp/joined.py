"""Several MCP servers that are one world: their tools together, each call sent to its server.

A tool has the name that its server gives it. Where two servers have a tool of one name, all of them
are called `server__tool`; the server's name is the one that the user gives it (NAME=TARGET), or
that it gives itself. A name stays as it was shown: a tool that comes later, and whose name is
taken, gets the long one. The world is lost with the first server that is lost, whose name the error
has.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ServerRequest, ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode
from rehearsal_room.envpool.mcp.client import ServerConnection

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")  # of a tool, as chat APIs take them


class JoinedConnections:
    """The open connections to the servers of one world. It implements
    envpool.mcp.server_pool.WorldConnection and envpool.mcp.asks.AsksBack."""

    def __init__(self, connections: Sequence[ServerConnection], names: Sequence[str]) -> None:
        """`names` are those that the user gave; empty: the server's own name stands for it."""
        self._connections = tuple(connections)
        own = (one.own_name for one in connections)
        self._names = _distinct([given or found for given, found in zip(names, own, strict=True)])
        self._shown: dict[tuple[int, str], str] = {}  # server and tool -> its name in this world
        self._routes: dict[str, tuple[ServerConnection, str]] = {}
        self.last_asked: tuple[ServerRequest, ...] = ()
        self.tools: tuple[ToolSpec, ...] = ()
        self._join()

    def __repr__(self) -> str:
        return f"<JoinedConnections {', '.join(self._names)} [{len(self.tools)} tools]>"

    @property
    def asks(self) -> AskMode:
        """Who is to answer what the servers ask during a call."""
        return self._connections[0].asks

    def answer_with(self, answerer: Answerer) -> None:
        """Let this function answer what any of the servers asks."""
        for connection in self._connections:
            connection.answer_with(answerer)

    async def renew_tools(self) -> None:
        """See envpool.mcp.server_pool.WorldConnection."""
        for connection in self._connections:
            await connection.renew_tools()
        self._join()

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """See envpool.mcp.server_pool.WorldConnection."""
        connection, own_name = self._routes[name]
        called = await connection.call(own_name, arguments)
        self.last_asked = connection.last_asked
        return called

    async def close(self) -> None:
        """End all connections, the last one first, whatever one of them does."""
        for connection in reversed(self._connections):
            await connection.close()

    def _join(self) -> None:
        """Name the tools, and the server of each."""
        listed = [
            (number, connection, tool)
            for number, connection in enumerate(self._connections)
            for tool in connection.tools
        ]
        times = Counter(tool.name for _, _, tool in listed)
        taken = set(self._shown.values())
        tools: list[ToolSpec] = []
        self._routes = {}
        for number, connection, tool in listed:
            name = self._shown.get((number, tool.name), "")
            if not name:
                is_alone = times[tool.name] == 1 and tool.name not in taken
                name = tool.name if is_alone else f"{self._names[number]}__{tool.name}"
                while name in taken:
                    name += "_"
                self._shown[number, tool.name] = name
                taken.add(name)
            tools.append(msgspec.structs.replace(tool, name=name))
            self._routes[name] = connection, tool.name
        self.tools = tuple(tools)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that can begin the name of a tool; equal ones are numbered.

    Example: ["My notes", "mail", "My notes"] -> ["My_notes", "mail", "My_notes2"]
    """
    found: list[str] = []
    for name in names:
        start = base = _NOT_IN_NAMES.sub("_", name).strip("_")[:32] or "server"
        number = 1
        while start in found:
            number += 1
            start = f"{base}{number}"
        found.append(start)
    return found
