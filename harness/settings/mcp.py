"""The MCP servers of a run, as its settings name them: targets, headers, tokens, variables.

    --mcp notes=https://notes.example/mcp --mcp "uvx some-server"
    --mcp-header notes:X-Api-Key=NOTES_KEY

A header, a variable or a token belongs to one server wherever there are several: a server never
gets what is meant for another one. Values are in the environment, so that neither a command line
nor a run.toml has them.
"""

import os
import re

import msgspec

from rehearsal_room.envpool.sources.base import McpTarget
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.scenarios.errors import ScenarioError

TOKEN = "REHEARSE_TOKEN"
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})=(.+)", re.DOTALL)


class _Owned(msgspec.Struct, frozen=True):
    """A header or a variable, and the server that it is for."""

    server: str  # its name; empty: every one that can have it
    name: str  # of the header; empty: it is a variable
    variable: str


def mcp_targets(worlds: WorldSettings) -> tuple[McpTarget, ...]:
    """The servers, with the values from the environment. Raises SettingsError for settings that do
    not go together, and ScenarioError where a variable is not set."""
    targets = _named(worlds.mcp_servers)
    check_mcp(worlds)
    headers = [_header(text) for text in worlds.mcp_header]
    return tuple(
        msgspec.structs.replace(
            target,
            headers=tuple((one.name, _value(one)) for one in headers if _is_for(one, target)),
            environment=_variables(worlds, target),
            token=_token(target, alone=sum(one.is_url for one in targets) == 1),
            ask=worlds.mcp_ask,
            has_resources=worlds.mcp_resources,
        )
        for target in targets
    )


def check_mcp(worlds: WorldSettings) -> None:
    """Refuse servers, headers and variables that do not go together. Raises SettingsError."""
    targets = _named(worlds.mcp_servers)
    names = [target.name for target in targets if target.name]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise SettingsError(f"mcp: two servers are named {twice!r}")
    urls = [target for target in targets if target.is_url]
    if any("@" in target.target for target in urls):
        raise SettingsError(
            "mcp: the URL contains a user name or a password; put the server's token into "
            f"the environment variable {TOKEN}, and leave them out"
        )
    for text in worlds.mcp_header:
        header = _header(text)
        if not urls:
            raise SettingsError("mcp_header: headers are for the URL of --mcp, which is not given")
        if header.server and header.server not in [target.name for target in urls]:
            raise SettingsError(
                f"mcp_header: no URL of --mcp is named {header.server!r}; name it: "
                f"--mcp {header.server}=URL"
            )
        if not header.server and len(urls) > 1:
            raise SettingsError(
                f"mcp_header: the run has several URLs; say whose header {text!r} is, as in "
                f"--mcp {names[0] if names else 'notes'}=URL "
                f"--mcp-header {names[0] if names else 'notes'}:{text}"
            )
    for text in worlds.mcp_env:
        server = _owned(text).server
        if server and server not in names:
            raise SettingsError(f"mcp_env: no server of --mcp is named {server!r}")
    if worlds.mcp_env and not (targets or worlds.suite):
        raise SettingsError("mcp_env: variables are for the command of --mcp, which is not given")
    for key, default in (("mcp_ask", "refuse"), ("mcp_resources", False)):
        if not targets and getattr(worlds, key) != default:
            raise SettingsError(f"{key}: this is for the server of --mcp, which is not given")


def variable_names(worlds: WorldSettings) -> tuple[str, ...]:
    """The names of the variables that commands may have, whichever command it is."""
    return tuple(_owned(text).variable for text in worlds.mcp_env)


def header_variables(worlds: WorldSettings) -> tuple[str, ...]:
    """The names of the variables that have the values of headers."""
    return tuple(_header(text).variable for text in worlds.mcp_header)


def _named(given: tuple[str, ...]) -> list[McpTarget]:
    found = []
    for text in given:
        parts = _NAMED.fullmatch(text.strip())
        found.append(McpTarget(parts[2], parts[1]) if parts else McpTarget(text))
    return found


def _header(text: str) -> _Owned:
    before, _, variable = text.partition("=")
    server, colon, name = before.partition(":")
    if not colon:
        server, name = "", before
    if not name.strip() or not variable.strip() or (colon and not server.strip()):
        raise SettingsError(
            f"mcp_header: expected NAME=VARIABLE, a variable of the environment, or "
            f"SERVER:NAME=VARIABLE, found {text!r}"
        )
    return _Owned(server.strip(), name.strip(), variable.strip())


def _owned(text: str) -> _Owned:
    """Whose a variable is. Example: "notes:KEY" -> of the server notes, KEY"""
    server, colon, variable = text.partition(":")
    return _Owned(server, "", variable) if colon else _Owned("", "", text)


def _is_for(header: _Owned, target: McpTarget) -> bool:
    return target.is_url and header.server in ("", target.name)


def _variables(worlds: WorldSettings, target: McpTarget) -> tuple[str, ...]:
    owned = map(_owned, worlds.mcp_env)
    return tuple(one.variable for one in owned if one.server in ("", target.name))


def _token(target: McpTarget, *, alone: bool) -> str:
    """The bearer token of a URL: the one of its name, or the one for the only URL."""
    if not target.is_url:
        return ""
    names = [f"{TOKEN}_{target.name.upper().replace('-', '_')}"] if target.name else []
    found = (os.environ.get(name, "") for name in (*names, *((TOKEN,) if alone else ())))
    return next(filter(None, found), "")


def _value(header: _Owned) -> str:
    """The value of a header. Raises ScenarioError."""
    value = os.environ.get(header.variable, "").strip()
    if not value or any(character in value for character in "\r\n"):
        fault = "has a line break" if value else "is not set"
        raise ScenarioError(
            f"--mcp-header {header.name}={header.variable}: the environment variable "
            f"{header.variable!r} {fault}"
        )
    return value
