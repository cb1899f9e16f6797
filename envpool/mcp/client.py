"""One connection to an MCP server: its tools, its calls, and why it broke."""

import logging
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import msgspec
import structlog
from fastmcp.client import Client
from fastmcp.client.transports import StreamableHttpTransport, infer_transport
from mcp import MCPError
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    Subscription,
    SubscriptionLost,
    listen,
)

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import ServerRequest, ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.asks import Answerer, AskMode
from rehearsal_room.envpool.mcp.content import text_of
from rehearsal_room.envpool.mcp.http import TolerantHttp
from rehearsal_room.envpool.mcp.process import ServerProcess
from rehearsal_room.envpool.mcp.questions import NOT_ANSWERED, Questions, Warnings
from rehearsal_room.envpool.mcp.resources import call_resource_tool, resource_tools
from rehearsal_room.scenarios.core.short_text import shortened

_CLOSE_S = 15.0  # seconds that the end of a connection may take; a process takes at most 3
_LISTEN_S = 5.0  # seconds that a server may take to accept a subscription
_EXIT_S = 1.0  # seconds to wait for the end of a server that closed its streams
_MAX_QUOTE = 500  # characters of a foreign message that our messages quote
_PROTOCOL_BROKEN = frozenset(
    {
        mcp_types.PARSE_ERROR,
        mcp_types.INVALID_REQUEST,  # also an expired session: its world is lost
        mcp_types.METHOD_NOT_FOUND,
        mcp_types.REQUEST_TIMEOUT,
    }
)
_OF_THE_CLIENT = (  # how messages begin that the SDK makes itself
    *("Connection closed", "Server returned an error response", "Session terminated"),
    *("Not Found", "Failed to parse", "Unexpected content type"),
)
_KINDS: dict[int | None, ToolErrorKind] = {
    mcp_types.INVALID_PARAMS: "arguments",
    mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY: "refused",  # so it does, and knows that already
    NOT_ANSWERED: "refused",  # it asked for an answer that nobody gives
}
# The place and the fault in a message of pydantic.
_INVALID = re.compile(r"^(\S.*)\n  (.+?)(?: \[type=.*)?$", re.MULTILINE)
logging.getLogger("mcp").addHandler(logging.NullHandler())  # its tracebacks are our errors
_log = structlog.get_logger(__name__)


class McpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server, and how to reach it."""

    target: str  # an http or https URL, or a command that is split like in a shell
    protocol: str = "auto"  # or `legacy` (the handshake before 2026), or a later version
    token: str = ""  # bearer token for a URL
    headers: tuple[tuple[str, str], ...] = ()  # further headers for a URL: name, value
    environment: tuple[
        str, ...
    ] = ()  # variables that a command inherits, besides PATH and the like
    start_timeout: float = 60.0  # seconds until a server has listed its tools
    starts: int = 4  # servers that start concurrently
    name: str = ""  # as the user names it; empty: messages name its target
    ask: AskMode = "refuse"  # who answers what it asks during a call
    has_resources: bool = False  # whether there are tools for its resources and prompts

    @property
    def token_variable(self) -> str:
        """The variable of the environment in which its own token is given."""
        suffix = f"_{self.name.upper().replace('-', '_')}" if self.name else ""
        return f"REHEARSE_TOKEN{suffix}"

    @property
    def label(self) -> str:
        """What a message calls it."""
        return repr(self.name or self.target)


def is_url(target: str) -> bool:
    """Whether a target is a URL; otherwise it is a command."""
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
        raise PoolError(f"the MCP server {target!r} is not a valid command: {exc}") from exc
    if not words:
        raise PoolError("the MCP server is empty: expected a URL or a command")
    if shutil.which(words[0]) is None:
        raise PoolError(f"the MCP server {target!r}: there is no program {words[0]!r}")
    return words


class ServerConnection:
    """A connection. Call `open` once and `close` in any case."""

    def __init__(
        self,
        settings: McpSettings,
        command: Sequence[str],
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        warnings: Warnings | None = None,
    ) -> None:
        """`warnings` None: this connection gives its own."""
        self._settings = settings
        self._label = f"the MCP server {settings.label}"
        self._warnings = warnings = warnings or Warnings()
        self._questions = Questions(settings.name or settings.target, settings.ask, warnings)
        self._process = self._http = None
        if command:
            self._process = ServerProcess(
                command,
                settings.environment,
                variables,
                folder,
                questions=self._questions,
                warnings=warnings,
            )
        elif isinstance(infer_transport(settings.target), StreamableHttpTransport):
            self._http = TolerantHttp(
                settings.target,
                dict(settings.headers),
                settings.token,
                token_variable=settings.token_variable,
                questions=self._questions,
                warnings=warnings,
            )
        self._client: Client[Any] = Client(
            self._process or self._http or settings.target,
            auth=(settings.token or None) if not (self._process or self._http) else None,
            mode=_mode(settings),
            init_timeout=0,  # `open` has a limit of its own
            message_handler=self._on_message,
        )
        self._is_listed = True  # the tools are those that the server has now
        self._changes: Subscription | None = None  # None: the server announces changes to all
        self._stack = AsyncExitStack()
        self._added: frozenset[str] = frozenset()  # names of tools that are ours
        self.tools: tuple[ToolSpec, ...] = ()
        self.last_asked: tuple[ServerRequest, ...] = ()  # what it asked during the last call

    def __repr__(self) -> str:
        return f"<ServerConnection {self._settings.target!r} [{len(self.tools)} tools]>"

    @property
    def asks(self) -> AskMode:
        """Who is to answer what the server asks during a call."""
        return self._questions.asks

    def answer_with(self, answerer: Answerer) -> None:
        """Let this function answer what the server asks from now on."""
        self._questions.answerer = answerer

    @property
    def own_name(self) -> str:
        """The name that the server gives itself; empty: none."""
        found = self._client.session.server_info
        return "" if found is None else found.name

    async def open(self) -> None:
        """Connect and list the tools. Raises PoolError with the reason."""
        seconds = self._settings.start_timeout
        try:
            with anyio.fail_after(seconds):
                await self._stack.enter_async_context(self._client)
                await self._listen()
                listed = await self._client.list_tools()
        except TimeoutError as exc:
            raise PoolError(
                f"{self._label} did not list its tools within {seconds:g} s{self._so_far()}"
            ) from exc
        except Exception as exc:  # its transport may raise anything
            raise PoolError(f"{self._label} does not work: {self._why(exc)}") from exc
        self._has_now(listed)
        if not self.tools:
            has = self._client.session.server_capabilities
            hint = "; with --mcp-resources the agent can read its resources and prompts"
            has_more = has is not None and (has.resources or has.prompts)
            raise PoolError(f"{self._label} has no tools{hint if has_more else ''}")

    async def renew_tools(self) -> None:
        """List the tools again where the server has said that they changed. Raises WorldError."""
        if self._is_listed and not await self._has_heard():
            return
        try:
            listed = await self._client.list_tools()
        except Exception as exc:
            raise WorldError(
                f"{self._label} changed its tools and does not list them: {self._why(exc)}"
            ) from exc
        self._has_now(listed)

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
        """The text of a call's result and why it failed (None: it did not).

        Raises WorldError when the server is gone or does not speak MCP.
        """
        with self._questions.during_call() as asked:
            called = await self._called(name, arguments)
        self.last_asked = tuple(asked)
        return called

    async def _called(
        self, name: str, arguments: dict[str, Any]
    ) -> tuple[str, ToolErrorKind | None]:
        try:
            if name in self._added:
                return await call_resource_tool(self._client, name, arguments)
            result = await self._client.call_tool_mcp(name, arguments)
        except Exception as exc:
            if await self._is_broken(exc):
                raise WorldError(
                    f"{self._label} was lost in a call of {name}: {self._why(exc)}"
                ) from exc
            code = exc.code if isinstance(exc, MCPError) else None
            if code == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY and self.asks == "refuse":
                self._questions.was_refused("elicitation or sampling", _message_of(exc))
            return self._why(exc), _KINDS.get(code, "internal")
        return text_of(result), "refused" if result.is_error else None

    def has_ended(self) -> bool:
        """Whether the process has ended, or the connection was lost."""
        ended = self._process is not None and bool(self._process.exit_reason())
        return ended or not self._client.is_connected()

    async def close(self) -> None:
        """End the connection, and with it the process."""
        with anyio.move_on_after(_CLOSE_S, shield=True):
            try:
                await self._stack.aclose()
            except Exception as exc:  # the cause of the break is raised once more
                why = _message_of(exc)
                _log.debug("mcp_connection_ended", server=self._settings.target, why=why)

    async def _is_broken(self, exc: Exception) -> bool:
        """Whether the whole connection is broken, not just this one call."""
        if self._http is not None and self._http.is_broken:
            return True  # the server is gone, or it is unknown whether it made the call
        if isinstance(exc, MCPError):
            if exc.code == mcp_types.CONNECTION_CLOSED and exc.error.message == "Connection closed":
                if self._process is not None:
                    await self._process.has_ended(_EXIT_S)  # then its exit reason is known
                return True
            return exc.code in _PROTOCOL_BROKEN
        if self._process is not None and await self._process.has_ended(0.0):
            return True
        return not self._client.is_connected()

    async def _listen(self) -> None:
        """Subscribe to changes of the tools, where the server has them and its protocol version
        (2026-07-28) says so to subscribers only."""
        session = self._client.session
        capabilities = session.server_capabilities
        if not (capabilities and capabilities.tools and capabilities.tools.list_changed):
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError):
            with anyio.move_on_after(_LISTEN_S):
                self._changes = await self._stack.enter_async_context(
                    listen(session, tools_list_changed=True)
                )

    async def _has_heard(self) -> bool:
        """Whether a change of the tools was announced since they were listed."""
        if self._changes is None:
            return False
        with suppress(StopAsyncIteration, SubscriptionLost), anyio.move_on_after(0):
            await anext(self._changes)
            return True
        return False

    def _has_now(self, listed: Iterable[mcp_types.Tool]) -> None:
        """Take the tools that it lists, and say once what else it has."""
        named = {tool.name: _spec(tool) for tool in reversed(tuple(listed))}
        own = tuple(reversed(named.values()))  # the first one of a name
        capabilities = self._client.session.server_capabilities
        added = resource_tools(capabilities, own) if self._settings.has_resources else ()
        self._added = frozenset(tool.name for tool in added)
        self.tools, self._is_listed = (*own, *added), True

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._is_listed = False

    def _so_far(self) -> str:
        """What a server has written that does not answer, as the end of a sentence."""
        said = "" if self._process is None else self._process.last_errors()
        return f"; its last output was: {said}" if said else ""

    def _why(self, exc: Exception) -> str:
        """Why it broke: what the server itself said, how its process ended, how it refused a
        request, otherwise the message of the exception."""
        if said := _said_by_server(exc):
            return shortened(said, _MAX_QUOTE)
        reason = "" if self._process is None else self._process.exit_reason()
        if self._http is not None:
            reason = self._http.refusal()
        return reason or shortened(_message_of(exc), _MAX_QUOTE)


def _mode(settings: McpSettings) -> str:
    """The protocol. Since 2026-07-28 a server cannot send requests, and most servers that ask
    something send one: they are used as a client of the versions before it uses them."""
    if settings.protocol == "auto" and settings.ask != "refuse":
        return "legacy"
    return settings.protocol


def _said_by_server(exc: BaseException) -> str:
    """The message of an error that the server sent; empty: it sent none."""
    found: BaseException | None = exc
    while found is not None:
        said = found.error.message if isinstance(found, MCPError) else ""
        if said and not said.startswith(_OF_THE_CLIENT):
            return said
        found = found.__cause__ or found.__context__
    return ""


def _spec(tool: mcp_types.Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description or "", tool.input_schema)


def _message_of(exc: Exception) -> str:
    if isinstance(exc, MCPError):
        return exc.error.message or f"error {exc.code}"
    said = str(exc).removeprefix("Client failed to connect: ") or type(exc).__name__
    if (faults := _INVALID.findall(said)) and " validation error" in said:
        return f"it sent what is not MCP: {'; '.join(': '.join(one) for one in faults[:3])}"
    return said
