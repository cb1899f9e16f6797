"""One connection to an MCP server: its tools, calls, and what broke it in words."""

import shlex
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import mcp_types
import msgspec
import structlog
from fastmcp.client import Client
from mcp import MCPError

from envpool.core.errors import PoolError, WorldError
from envpool.core.types import ToolError, ToolSpec
from envpool.mcp.content import text_of
from envpool.mcp.process import ServerProcess

_CLOSING = 15.0  # seconds that the end of a connection may take; a process takes 3 at most
_DYING = 1.0  # seconds within which a server that closed its streams is seen to have died
_WORDS = 500  # characters of a foreign message that a sentence of ours repeats
_PROTOCOL_BROKEN = frozenset(
    {
        mcp_types.PARSE_ERROR,
        mcp_types.INVALID_REQUEST,  # an expired session too: its world is lost
        mcp_types.METHOD_NOT_FOUND,
        mcp_types.REQUEST_TIMEOUT,
    }
)
_log = structlog.get_logger(__name__)


class McpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which server, and how it is reached."""

    target: str  # an http or https URL, or a command as a shell would split it
    protocol: str = "auto"  # or `legacy`, the handshake of before 2026, or a version since
    token: str = ""  # bearer token for a URL
    environment: tuple[str, ...] = ()  # variables that a command inherits besides PATH and such
    start_timeout: float = 60.0  # seconds until a server has told its tools
    starts: int = 4  # servers that start at once


def is_url(target: str) -> bool:
    """Whether a target is a URL; else it is a command."""
    return target.startswith(("http://", "https://"))


def command_of(target: str) -> tuple[str, ...]:
    """The words of a command; empty for a URL. Raises PoolError when it is neither.

    Example: "python notes.py --db '{scratch}/n.db'" -> ("python", "notes.py", "--db", …)
    """
    if is_url(target):
        return ()
    if "://" in target.partition(" ")[0]:
        raise PoolError(f"the MCP server {target!r}: expected an http or https URL, or a command")
    try:
        words = tuple(shlex.split(target))
    except ValueError as exc:
        raise PoolError(f"the MCP server {target!r} is no command: {exc}") from exc
    if not words:
        raise PoolError("the MCP server is not named: expected a URL or a command")
    if shutil.which(words[0]) is None:
        raise PoolError(f"the MCP server {target!r}: there is no program {words[0]!r}")
    return words


class Link:
    """A connection. `open` it once, `close` it whatever happened."""

    def __init__(self, settings: McpSettings, command: Sequence[str]) -> None:
        self._settings = settings
        self._process = ServerProcess(command, settings.environment) if command else None
        self._client: Client[Any] = Client(
            self._process or settings.target,
            auth=(settings.token or None) if self._process is None else None,
            mode=settings.protocol,
            init_timeout=0,  # `open` has a limit of its own
        )
        self._stack = AsyncExitStack()
        self.tools: tuple[ToolSpec, ...] = ()

    def __repr__(self) -> str:
        return f"<Link {self._settings.target!r} [{len(self.tools)} tools]>"

    async def open(self) -> None:
        """Connect and list the tools. Raises PoolError saying why it cannot be."""
        name, seconds = self._settings.target, self._settings.start_timeout
        try:
            with anyio.fail_after(seconds):
                await self._stack.enter_async_context(self._client)
                listed = await self._client.list_tools()
        except TimeoutError as exc:
            raise PoolError(
                f"the MCP server {name!r} did not tell its tools within {seconds:g} s"
            ) from exc
        except Exception as exc:  # whatever its transport makes of what went wrong
            raise PoolError(f"the MCP server {name!r} does not work: {self._why(exc)}") from exc
        self.tools = tuple(map(_spec, listed))
        if not self.tools:
            raise PoolError(f"the MCP server {name!r} has no tools")

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolError | None]:
        """The text of a call's result and why it failed (None: it did not).

        Raises WorldError when the server is gone or says what is no MCP.
        """
        try:
            result = await self._client.call_tool_mcp(name, arguments)
        except Exception as exc:
            if await self._is_broken(exc):
                raise WorldError(
                    f"the MCP server {self._settings.target!r} was lost in a call of {name}: "
                    f"{self._why(exc)}"
                ) from exc
            bad = isinstance(exc, MCPError) and exc.code == mcp_types.INVALID_PARAMS
            return _short(_words(exc)), "arguments" if bad else "internal"
        return text_of(result), "refused" if result.is_error else None

    async def close(self) -> None:
        """End the connection, and with it the process."""
        with anyio.move_on_after(_CLOSING, shield=True):
            try:
                await self._stack.aclose()
            except Exception as exc:  # what broke the connection comes up once more
                _log.debug("mcp_connection_ended", server=self._settings.target, why=_words(exc))

    async def _is_broken(self, exc: Exception) -> bool:
        """Whether the connection is of no more use, not just this one call."""
        if isinstance(exc, MCPError):
            if exc.code == mcp_types.CONNECTION_CLOSED and exc.error.message == "Connection closed":
                if self._process is not None:
                    await self._process.dead(_DYING)  # to know how
                return True
            return exc.code in _PROTOCOL_BROKEN
        if self._process is not None and await self._process.dead(0.0):
            return True
        return not self._client.is_connected()

    def _why(self, exc: Exception) -> str:
        """What broke it: how its process ended, where it did, else what the exception says."""
        died = "" if self._process is None else self._process.obituary()
        return died or _short(_words(exc))


def _spec(tool: mcp_types.Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description or "", tool.input_schema)


def _words(exc: Exception) -> str:
    if isinstance(exc, MCPError):
        return exc.error.message or f"error {exc.code}"
    return str(exc).removeprefix("Client failed to connect: ") or type(exc).__name__


def _short(text: str) -> str:
    return text if len(text) <= _WORDS else text[:_WORDS] + "…"
