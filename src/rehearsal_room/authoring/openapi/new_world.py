"""A new world of a REST service, by its OpenAPI document.

With a command that starts the service, it is a package like that of any MCP server; of a service
behind a URL it is a file of tasks, whose checks are tool calls.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import msgspec

from rehearsal_room.authoring.openapi import server
from rehearsal_room.authoring.server_worlds.new_world import (
    NewServerWorld,
    free_folder,
    write_server_world,
)
from rehearsal_room.authoring.server_worlds.package_text import toml_text, tool_lines
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.scenarios.core.server_record import WORLD
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks

_DOCUMENT = "openapi.json"
_FIRST = """
# A check is a tool call that is made after the episode, and what its text must be:
# [[task.check]]
# name = "a_tool"
# arguments = { id = 3 }
# expect = { contains = "milk" }
[[task]]
id = "first"
instruction = "Say hello."
answer = "Hello."
"""


class RestService(msgspec.Struct, frozen=True):
    """A REST service, and how it is reached."""

    document: Path
    base_url: str = ""  # empty: the document's own
    headers: tuple[str, ...] = ()  # NAME=VARIABLE of the environment
    bearer: str = ""  # the variable of a bearer token
    serve: str = ""  # the command that starts it, with {port}; empty: it is at a URL

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the environment that it needs."""
        named = tuple(one.partition("=")[2] for one in self.headers)
        return (*named, *([self.bearer] if self.bearer else []))

    def command(self, document: Path) -> str:
        """The command of its MCP server, which reads this document."""
        is_in_package = document.is_relative_to(WORLD)
        path = str(document) if is_in_package else os.path.abspath(document)
        words = [sys.executable, os.path.abspath(server.__file__), path]
        words += ["--serve", self.serve] if self.serve else []
        words += ["--base-url", self.base_url] if self.base_url and not self.serve else []
        words += [word for one in self.headers for word in ("--header", one)]
        words += ["--bearer", self.bearer] if self.bearer else []
        return shlex.join(words)


class NewRestTasks(msgspec.Struct, frozen=True):
    """The file of tasks that was written for a service behind a URL."""

    path: Path
    command: str
    tools: tuple[ToolSpec, ...]


async def write_rest_world(
    name: str,
    parent: Path,
    service: RestService,
    *,
    environment: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    probe: bool = True,
) -> NewServerWorld | NewRestTasks:
    """Write a new world `name` of a service below `parent`. Only a service that its command starts
    is called. Raises PackageError and PoolError."""
    try:
        document = server.load(service.document)
        if not service.serve:
            sends = bool(service.variables)
            server.base_url_of(document, service.base_url, sends_variables=sends)
    except server.DocumentError as exc:
        raise PackageError(f"new world: {exc}") from exc
    content = json.dumps(document, indent=1, ensure_ascii=False).encode()
    if service.serve:
        return await write_server_world(
            name,
            parent,
            service.command(Path(WORLD, _DOCUMENT)),
            environment=(*service.variables, *environment),
            variables=variables,
            probe=probe,
            files={_DOCUMENT: content},
        )
    return await _write_tasks(free_folder(name, parent), service, content)


async def _write_tasks(folder: Path, service: RestService, content: bytes) -> NewRestTasks:
    await anyio.Path(folder.parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as made:
        draft = Path(made, folder.name)
        await anyio.Path(draft).mkdir()
        (draft / _DOCUMENT).write_bytes(content)
        tools = await _tools(service, draft / _DOCUMENT)
        lines = [
            f"# Tasks on a REST service: docs/external-worlds.md. Its {len(tools)} tools:",
            tool_lines(tools),
            f"name = {toml_text(folder.name)}",
            f"description = {toml_text(f'What the service of {service.document.name} keeps.')}",
        ]
        (draft / "tasks.toml").write_text("\n".join(lines) + "\n" + _FIRST, encoding="utf-8")
        command = service.command(folder / _DOCUMENT)
        read_mcp_tasks(draft / "tasks.toml", command)
        shutil.move(draft, folder)
    return NewRestTasks(folder / "tasks.toml", command, tools)


async def _tools(service: RestService, document: Path) -> tuple[ToolSpec, ...]:
    """The tools of its operations: its MCP server is started, and nothing is called."""
    command = service.command(document)
    settings = McpSettings(command, environment=service.variables)
    connection = ServerConnection(settings, command_of(command))
    try:
        await connection.open()
        return tuple(connection.tools)
    finally:
        await connection.close()
