"""The files of a new world of an MCP server, as texts."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.authoring.server_worlds.watching import Found
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.core.server_record import SCRATCH
from rehearsal_room.scenarios.format import Call, difficulty_of
from rehearsal_room.scenarios.scaffold.verifier_text import HEAD, verifier_text

_BARE = re.compile(r"[\w-]+", re.ASCII)  # a key of TOML without quotes


class ServerTexts(msgspec.Struct, frozen=True):
    """What the package says of the server."""

    name: str  # of the world
    command: str
    environment: tuple[str, ...]
    variables: Mapping[str, str]
    clock: str
    postgres: str = ""  # the address of a PostgreSQL server; empty: its state is in its folder
    dump: str = ""  # the file in the package with which its database begins; empty: with nothing


class NewTask(msgspec.Struct, frozen=True):
    """A task from calls that were made, and from the rows that they changed."""

    id: str
    instruction: str
    calls: tuple[Call, ...] = ()
    changes: tuple[RowChange, ...] = ()  # net
    steps: tuple[tuple[RowChange, ...], ...] = ()  # by call; empty: there is one call
    answer: str = "It is done."
    note: str = ""  # a comment above it


NO_TASK = NewTask("first", "Say hello.", answer="Hello.")  # until its author writes one


def write_head(folder: Path, server: ServerTexts, found: Found, *, logs: bool = False) -> None:
    """Write the package without tasks; its seed is there already. `logs`: its databases keep
    write-ahead logs."""
    text = _scenario_toml(folder, server, found, logs)
    (folder / "scenario.toml").write_text(text, encoding="utf-8")
    (folder / "policy.md").write_text("", encoding="utf-8")


def write_tasks(folder: Path, tasks: Sequence[NewTask]) -> None:
    """Write the tasks and their verifiers."""
    text = "# Say in the words of a person what each task is for.\n\n"
    text += "\n".join(map(_task_toml, tasks))
    (folder / "tasks.toml").write_text(text, encoding="utf-8")
    functions = [verifier_text(task.id, task.changes, task.calls, task.steps) for task in tasks]
    body = "\n\n".join(functions)
    head = HEAD if "ANY" in body else HEAD.replace("ANY, ", "")
    (folder / "verify.py").write_text(f"{head}\n\n{body}", encoding="utf-8")


def _task_toml(task: NewTask) -> str:
    tables = {change.table for change in task.changes}
    calls = [
        f"    {{ name = {toml_text(call.name)}, arguments = {inline_table(call.arguments)} }},\n"
        for call in task.calls
    ]
    note = f"# {task.note}\n" if task.note else ""
    return (
        f"{note}[[task]]\n"
        f"id = {toml_text(task.id)}\n"
        f"instruction = {toml_text(task.instruction)}\n"
        f"difficulty = {toml_text(difficulty_of(len(task.calls) + len(tables)))}\n"
        f"kind = {toml_text('change' if task.changes else 'question')}\n"
        f"answer = {toml_text(task.answer)}\n"
        f"oracle = [\n{''.join(calls)}]\n"
    )


def _scenario_toml(folder: Path, server: ServerTexts, found: Found, logs: bool) -> str:
    name, command = server.name, server.command
    variables = ", ".join(f"{key} = {toml_text(value)}" for key, value in server.variables.items())
    lines = [
        f"# A world of an MCP server: docs/mcp-worlds.md. Its {len(found.tools)} tools:",
        tool_lines(found.tools),
        'format = "mcp"',
        f"name = {toml_text(name)}",
        f"title = {toml_text(name.replace('_', ' ').capitalize())}",
        'version = "1"',
        f"description = {toml_text(f'What the MCP server {command} keeps.')}",
        f"clock = {toml_text(server.clock)}  # the server's time at its start",
        "",
        "[user]  # who acts",
        'id = "u1"',
        'name = "Ada Okafor"',
        'role = "owner"',
        "",
        "[server]",
        f"command = {toml_text(command)}",
        *([f"environment = {toml_text(server.environment)}"] if server.environment else []),
        f"variables = {{ {variables} }}",
        "",
        "[state]",
        *(
            [f"postgres = {toml_text(server.postgres)}  # the server on which databases are made"]
            if server.postgres
            else _state_lines(found)
        ),
        *(['journal = "wal"  # the rows of a call are found faster'] if logs else []),
    ]
    if (folder / "seed").is_dir():
        lines += ["", "[start]", 'copy = "seed"  # what {scratch} begins with']
    elif server.dump:
        lines += ["", "[start]", f"postgres = {toml_text(server.dump)}  # what it begins with"]
    return "\n".join(lines) + "\n"


def _state_lines(found: Found) -> list[str]:
    if found.databases:
        named = {Path(path).stem: path for path in reversed(found.databases)}
        own = [path for path in found.databases if path in named.values()]
        others = [*(path for path in found.databases if path not in own), *found.files]
        paths = [f"{SCRATCH}/{path}" for path in own]
        lines = [f"sqlite = {toml_text(paths if len(paths) > 1 else paths[0])}"]
        if others:
            shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
            lines.append(
                f"# It writes {shown}, too. If that is state: folder = {toml_text(SCRATCH)}"
            )
        return lines
    parents = [Path(path).parent.as_posix() for path in found.files]
    common = os.path.commonpath(parents)
    return [f"folder = {toml_text(SCRATCH + ('/' + common if common not in ('', '.') else ''))}"]


def tool_lines(tools: Sequence[ToolSpec]) -> str:
    """The tools as comments: a line for each."""
    return "\n".join(f"#   {tool.name}: {_first_line(tool.description)}" for tool in tools)


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


def toml_text(value: object) -> str:
    """A text or a list of texts as TOML: a basic string is one of JSON's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def inline_table(value: object) -> str:
    """JSON as a TOML inline value; null cannot be written, and is left out."""
    if isinstance(value, dict):
        items = (
            f"{key if _BARE.fullmatch(key) else toml_text(key)} = {inline_table(one)}"
            for key, one in value.items()
            if one is not None
        )
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline_table(one) for one in value if one is not None) + "]"
    return toml_text(value)
