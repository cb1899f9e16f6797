"""Lists of MCP servers, as MCP-Universe's server_list.json has them:

{"notes": {"stdio": {"command": "python3", "args": ["-m", "notes"]}, "env": {"KEY": "{{KEY}}"}}}
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.served_worlds import PYTHON, ServerSpec
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.nearest import did_you_mean


class _Command(msgspec.Struct):
    command: str = ""
    args: list[str] = []


class _Server(msgspec.Struct):
    stdio: _Command = msgspec.field(default_factory=_Command)
    env: dict[str, str] = {}


def read_servers(path: Path) -> dict[str, ServerSpec]:
    """The servers of a file by name, those alone that a command starts. Raises PackageError."""
    try:
        listed = msgspec.convert(json.loads(path.read_bytes()), dict[str, _Server])
    except OSError as exc:
        raise PackageError(f"{path}: it cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError, msgspec.ValidationError) as exc:
        raise PackageError(f"{path}: it is not a list of MCP servers: {exc}") from exc
    return {
        name: ServerSpec(name, (_program(one.stdio.command), *one.stdio.args), one.env)
        for name, one in listed.items()
        if one.stdio.command
    }


def servers_of(
    task: str, entries: Sequence[Mapping[str, Any]], known: Mapping[str, ServerSpec]
) -> tuple[ServerSpec, ...]:
    """The servers that a task names, each with the tools that the task may use. Raises
    PackageError."""
    found = []
    for entry in entries:
        name = str(entry.get("name", ""))
        if name not in known:
            hint = did_you_mean(name, known) or f"; servers: {', '.join(known) or 'none'}"
            raise PackageError(f"{task} needs the server {name!r}, which no list has{hint}")
        tools = tuple(map(str, entry.get("tools") or ()))
        found.append(msgspec.structs.replace(known[name], tools=tools))
    if not found:
        raise PackageError(f"{task} names no MCP server")
    return tuple(found)


def _program(command: str) -> str:
    return PYTHON if command in ("python", "python3") else command
