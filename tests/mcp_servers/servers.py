"""The servers of servers.toml, and the worlds that are made of them.

.venv/bin/python -m tests.mcp_servers.servers [SERVER...]     what is to be installed
"""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-mcp-servers"
MEMORY = "memory"
_VERIFY = """\
import json

from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Check, Finding, mentions


def first(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    {body}
    check.nothing_else()
    return check.findings
"""


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server, and a task for it; see servers.toml."""

    name: str
    command: str
    state: str
    instruction: str
    oracle: list[dict[str, Any]]
    pip: list[str] = []
    npm: str = ""
    variables: dict[str, str] = {}
    setup: str = ""
    files: dict[str, str] = {}
    databases: dict[str, str] = {}
    answer: str = "It is done."
    difficulty: str = "simple"
    verify: str = ""
    unwanted: dict[str, Any] = {}
    read: dict[str, Any] = {}
    checks: list[dict[str, Any]] = []
    starts_anew: bool = False
    of_disk: list[str] = []
    ignore_files: list[str] = []

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        environment = ENVIRONMENTS / self.name
        return environment / ("node_modules/.bin" if self.npm else "bin")

    @property
    def is_installed(self) -> bool:
        return (ENVIRONMENTS / self.name / ".installed").exists()

    def program(self, command: str) -> str:
        """A command whose first word is the path of a program."""
        first, _, rest = command.partition(" ")
        return f"{self.programs / first} {rest}".strip()


def servers() -> list[Server]:
    """The servers of the file, or those that MCP_SERVERS names."""
    content = (Path(__file__).parent / "servers.toml").read_bytes()
    found = msgspec.toml.decode(content, type=dict[str, list[Server]])["server"]
    chosen = [name for name in os.environ.get("MCP_SERVERS", "").split(",") if name]
    if unknown := set(chosen) - {server.name for server in found}:
        raise SystemExit(f"no such servers: {', '.join(sorted(unknown))}")
    return [server for server in found if not chosen or server.name in chosen]


def rehearse(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line, as a user does."""
    command = [sys.executable, "-m", "rehearsal_room", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=ROOT)


def write_seed(server: Server, folder: Path) -> None:
    """Set the server up in a folder."""
    folder.mkdir(parents=True)
    for path, text in server.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for path, script in server.databases.items():
        with closing(sqlite3.connect(folder / path)) as made:
            made.executescript(script)
    if server.setup:
        environment = {**os.environ, "HOME": str(folder)}
        words = shlex.split(server.program(server.setup))
        subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)


def new_world(server: Server, parent: Path) -> subprocess.CompletedProcess[str]:
    """`rehearse new world` of a server, below `parent`."""
    words: list[str | Path] = ["new", "world", server.name, "-o", parent]
    words += ["--mcp", server.program(server.command)]
    for name, value in server.variables.items():
        words += ["--var", f"{name}={value}"]
    if server.setup or server.files or server.databases:
        write_seed(server, parent / "seeds" / server.name)
        words += ["--seed", parent / "seeds" / server.name]
    made = rehearse(*words)
    head = parent / server.name / "scenario.toml"
    if server.ignore_files and made.returncode == 0:
        line = f"{server.state}\nignore_files = {_inline(server.ignore_files)}"
        head.write_text(head.read_text().replace(server.state, line))
    return made


def write_task(server: Server, folder: Path, *, more: tuple[Mapping[str, Any], ...] = ()) -> None:
    """Put the server's task into its world; `more` calls end its solution."""
    toml = _task_toml(server, [*server.oracle, *more])
    (folder / "tasks.toml").write_text(toml)
    body = "\n    ".join(server.verify.strip().splitlines())
    (folder / "verify.py").write_text(_VERIFY.format(body=body))


def task_file(server: Server, folder: Path, calls: list[dict[str, Any]]) -> Path:
    """The file of tasks for `rehearse run --mcp`, of a server whose state is in memory; `calls` are
    played as its solution."""
    path = folder / f"{server.name}.toml"
    text = f'name = "{server.name}"\ndescription = "A server in memory."\n\n'
    text += _task_toml(server, calls, is_file=True)
    for check in server.checks:
        lines = [f"{name} = {_inline(value)}" for name, value in check.items()]
        text += "\n".join(["", "[[task.check]]", *lines, ""])
    path.write_text(text)
    return path


def _task_toml(server: Server, calls: list[Mapping[str, Any]], *, is_file: bool = False) -> str:
    made = "".join(f"    {_inline(call)},\n" for call in calls)
    kind = "" if is_file else f'difficulty = "{server.difficulty}"\nkind = "change"\n'
    answer = (
        "" if is_file and server.answer == "It is done." else f"answer = {_inline(server.answer)}\n"
    )
    return (
        f'[[task]]\nid = "first"\ninstruction = {_inline(server.instruction)}\n{kind}{answer}'
        f"oracle = [\n{made}]\n"
    )


def _inline(value: object) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_inline(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def main(names: list[str]) -> None:
    """Write what is to be installed: kind, name, packages."""
    os.environ["MCP_SERVERS"] = ",".join(names)
    for server in servers():
        words = (
            ["npm", server.name, server.npm] if server.npm else ["pip", server.name, *server.pip]
        )
        sys.stdout.write(" ".join(words) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
