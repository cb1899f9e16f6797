"""A new world from an MCP server: it is started, watched, and written down with a first task.

Where the server writes is found, not asked for: it starts in an empty folder, which is its home,
too, and some calls of its tools are made. What it has then written is its state: SQLite databases,
else files. Where nothing was written the state is in memory, and the world is refused with what to
do instead.
"""

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import anyio
import apsw
import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import Env, ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.envpool.seeded.moments import Moments
from rehearsal_room.harness.policies.random_calls import ArgumentDrawer
from rehearsal_room.judge.playback.tool_fuzzing import Prober
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.core.server_record import SCRATCH
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call, difficulty_of, read
from rehearsal_room.scenarios.scaffold.new_world import check_name, is_taken
from rehearsal_room.scenarios.scaffold.verifier_text import HEAD, verifier_text

_BARE = re.compile(r"[\w-]+", re.ASCII)  # a key of TOML without quotes
_MAGIC = b"SQLite format 3\0"
_LOGS = ("-wal", "-shm", "-journal")  # of databases
_PROBES = 6  # calls of each tool that look for a write
_CALL_S = 20.0  # seconds that such a call may take
_CACHES = {  # of programs that fetch the server: not in its home, where they would begin empty
    "npm_config_cache": ".npm",
    "UV_CACHE_DIR": ".cache/uv",
    "UV_TOOL_DIR": ".local/share/uv/tools",
    "PIPX_HOME": ".local/share/pipx",
}
_NOT_STATE = (".npm", ".cache", "__pycache__", "node_modules")


class Found(msgspec.Struct, frozen=True):
    """What a server is, and where it writes, relative to its folder."""

    tools: tuple[ToolSpec, ...]
    databases: tuple[str, ...]
    files: tuple[str, ...]  # other files that it wrote


class NewServerWorld(msgspec.Struct, frozen=True):
    """The world that was written."""

    folder: Path
    found: Found
    task: str  # the instruction of its first task
    is_write: bool  # whether the task's solution changes rows


async def write_server_world(
    name: str,
    parent: Path,
    command: str,
    *,
    environment: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    probe: bool = True,
) -> NewServerWorld:
    """Write a new world `name` of the server that a command starts, below `parent`.

    `environment` names variables that the server inherits; `variables` are further ones, in whose
    values {scratch} stands for its folder. Without `probe` no call is made. Raises PackageError and
    PoolError.
    """
    check_name(name)
    folder = parent / name
    if is_taken(folder):
        raise PackageError(f"new world: {folder} exists already; choose another name or folder")
    given = {**_home(command), **(variables or {})}
    clock = datetime.now(UTC).strftime("%Y-%m-%dT09:00:00Z")
    await anyio.Path(parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as made:
        draft = Path(made, name)
        await anyio.Path(draft).mkdir()
        found = await _watched(command, environment, given, draft / "seed", clock, probe=probe)
        server = _Server(name, command, tuple(environment), given, clock)
        _write_package(draft, server, found)
        task, is_write = await _first_task(draft, probe=probe)
        shutil.move(draft, folder)
    return NewServerWorld(folder, found, task, is_write)


def _home(command: str) -> dict[str, str]:
    """A home of the server's own, with the caches of the program that fetches it."""
    home = {"HOME": SCRATCH}
    program = Path(shlex.split(command)[0]).name if command.strip() else ""
    if program in ("npx", "npm", "uvx", "uv", "pipx", "bunx", "pnpm"):
        real = Path.home()
        home |= {name: os.environ.get(name, str(real / path)) for name, path in _CACHES.items()}
    return home


async def _watched(
    command: str,
    environment: Sequence[str],
    variables: Mapping[str, str],
    seed: Path,
    clock: str,
    *,
    probe: bool,
) -> Found:
    """Start the server in an empty folder, see what it writes there, and keep what it starts with
    as the seed. Raises PoolError."""
    with (
        tempfile.TemporaryDirectory(prefix="rehearse-new-", ignore_cleanup_errors=True) as made,
        closing(Moments(Path(made, "moments"), seed=command, clock=clock)) as moments,
    ):
        scratch, temporary = Path(made, "scratch"), Path(made, "tmp")
        for folder in (scratch, temporary):
            await anyio.Path(folder).mkdir()
        words = tuple(word.replace(SCRATCH, str(scratch)) for word in command_of(command))
        filled = {name: text.replace(SCRATCH, str(scratch)) for name, text in variables.items()}
        connection = ServerConnection(
            McpSettings(command, environment=tuple(environment)),
            words,
            {"TMPDIR": str(temporary), **filled, **moments.variables(filled)},
            folder=scratch,
        )
        try:
            await connection.open()
            tools, started = connection.tools, _files(scratch)
            _keep(scratch, seed, started)
            if probe:
                await _try_all(connection)
        finally:
            await connection.close()
        after = _files(scratch)
        databases = tuple(path for path in after if _is_database(scratch / path))
        wrote = [path for path, marks in after.items() if started.get(path) != marks]
        others = tuple(path for path in (wrote or after) if path not in databases)
    if not databases and not others:
        raise PackageError(
            f"new world: the server {command!r} has {len(tools)} tools and wrote nothing in its "
            f"folder{' when some of them were called' if probe else ''}: its state is in memory or "
            "elsewhere. Without rows there is no diff, no fork and no check that nothing else "
            f"changed; write tasks with checks as tool calls, and play them with `rehearse run "
            f"--mcp {shlex.quote(command)} tasks.toml` (docs/external-worlds.md). If it needs a "
            "path, give it below {scratch} in the command or as --var NAME={scratch}/FILE"
        )
    return Found(tools, databases, others)


async def _try_all(connection: ServerConnection) -> None:
    """Make a few calls of each tool, with values that its schema allows."""
    drawer = ArgumentDrawer(Random(0), {})
    for tool in connection.tools:
        for _ in range(2):
            with anyio.move_on_after(_CALL_S):
                try:
                    await connection.call(tool.name, drawer.draw(tool.schema))
                except PoolError:
                    return


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The files below a folder, by path: size and time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        is_own = relative.parts[0] not in _NOT_STATE and not path.name.endswith(_LOGS)
        if is_own and path.is_file() and not path.is_symlink():
            stat = path.stat()
            found[relative.as_posix()] = (stat.st_size, stat.st_mtime_ns)
    return found


def _keep(scratch: Path, seed: Path, files: Mapping[str, object]) -> None:
    """Copy what the server starts with; a database with what stands in its log."""
    for name in files:
        target = seed / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if _is_database(scratch / name):
            with (
                closing(apsw.Connection(str(scratch / name))) as source,
                closing(apsw.Connection(str(target))) as copy,
                copy.backup("main", source, "main") as backup,
            ):
                backup.step()
        else:
            shutil.copy2(scratch / name, target)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class _Server(msgspec.Struct, frozen=True):
    """What the package says of the server."""

    name: str  # of the world
    command: str
    environment: tuple[str, ...]
    variables: Mapping[str, str]
    clock: str


def _write_package(folder: Path, server: _Server, found: Found) -> None:
    texts = {
        "scenario.toml": _scenario_toml(folder, server, found),
        "policy.md": "",
        "tasks.toml": _FIRST_TASKS,
        "verify.py": HEAD + "\n\n" + verifier_text("first", (), ()),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


_FIRST_TASKS = """\
[[task]]
id = "first"
instruction = "Say hello."
difficulty = "simple"
kind = "question"
answer = "Hello."
"""


def _scenario_toml(folder: Path, server: _Server, found: Found) -> str:
    name, command = server.name, server.command
    variables = ", ".join(f"{key} = {_toml(value)}" for key, value in server.variables.items())
    tools = "\n".join(f"#   {tool.name}: {_first_line(tool.description)}" for tool in found.tools)
    lines = [
        f"# A world of an MCP server: docs/mcp-worlds.md. Its {len(found.tools)} tools:",
        tools,
        'format = "mcp"',
        f"name = {_toml(name)}",
        f"title = {_toml(name.replace('_', ' ').capitalize())}",
        'version = "1"',
        f"description = {_toml(f'What the MCP server {command} keeps.')}",
        f"clock = {_toml(server.clock)}  # the server's time at its start",
        "",
        "[user]  # who acts",
        'id = "u1"',
        'name = "Ada Okafor"',
        'role = "owner"',
        "",
        "[server]",
        f"command = {_toml(command)}",
        *([f"environment = {_toml(server.environment)}"] if server.environment else []),
        f"variables = {{ {variables} }}",
        "",
        "[state]",
        *_state_lines(found),
    ]
    if (folder / "seed").is_dir():
        lines += ["", "[start]", 'copy = "seed"  # what {scratch} begins with']
    return "\n".join(lines) + "\n"


def _state_lines(found: Found) -> list[str]:
    if found.databases:
        first, *more = found.databases
        others = [*more, *found.files]
        lines = [f"sqlite = {_toml(f'{SCRATCH}/{first}')}"]
        if others:
            shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
            lines.append(f"# It writes {shown}, too. If that is state: folder = {_toml(SCRATCH)}")
        return lines
    parents = [Path(path).parent.as_posix() for path in found.files]
    common = os.path.commonpath(parents)
    return [f"folder = {_toml(SCRATCH + ('/' + common if common not in ('', '.') else ''))}"]


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


def _toml(value: object) -> str:
    """A text or a list of texts as TOML: a basic string is one of JSON's."""
    return json.dumps(value, ensure_ascii=False)


async def _first_task(folder: Path, *, probe: bool) -> tuple[str, bool]:
    """Write a first task: the first call that changes rows, if some are found. Returns its
    instruction and whether it does. Raises PoolError and PackageError."""
    scenario = read(folder)
    async with ServerWorldPool() as pool:
        states = await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            made = await _a_write(env, Prober(states, 0)) if probe else None
    if made is None:
        return "Say hello.", False
    call, changes = made
    shown = ", ".join(f"{name} {value!r}" for name, value in call.arguments.items())
    instruction = f"Please {call.name.replace('_', ' ')}" + (f" with {shown}." if shown else ".")
    tables = {change.table for change in changes}
    arguments = _inline(call.arguments)
    (folder / "tasks.toml").write_text(
        "# The first task is a call that changed rows. Say in words of a person what it is for.\n"
        "[[task]]\n"
        'id = "first"\n'
        f"instruction = {_toml(instruction)}\n"
        f"difficulty = {_toml(difficulty_of(1 + len(tables)))}\n"
        'kind = "change"\n'
        'answer = "It is done."\n'
        f"oracle = [ {{ name = {_toml(call.name)}, arguments = {arguments} }} ]\n",
        encoding="utf-8",
    )
    text = verifier_text("first", changes, [call])
    head = HEAD if "ANY" in text else HEAD.replace("ANY, ", "")
    (folder / "verify.py").write_text(f"{head}\n\n{text}", encoding="utf-8")
    read(folder)
    return instruction, True


async def _a_write(env: Env, prober: Prober) -> tuple[Call, tuple[RowChange, ...]] | None:
    """A call that the server carries out and that changes rows; new rows before other changes.
    None: none was found."""
    found: list[tuple[Call, tuple[RowChange, ...]]] = []
    for tool in env.tools:
        for _ in range(_PROBES):
            call = prober.call(tool)
            try:
                with anyio.fail_after(_CALL_S):
                    result = await env.call(call.name, call.arguments, "")
            except (PoolError, TimeoutError):
                env.reset()
                break
            if result.changes:
                env.reset()
                if result.error is None:
                    found.append((call, result.changes))
                    break
    return min(found, key=_rank, default=None)


def _rank(one: tuple[Call, tuple[RowChange, ...]]) -> tuple[int, int]:
    _, changes = one
    return len(changes), -sum(change.before is None for change in changes)


def _inline(value: object) -> str:
    """JSON as a TOML inline value; null cannot be written, and is left out."""
    if isinstance(value, dict):
        items = (
            f"{key if _BARE.fullmatch(key) else _toml(key)} = {_inline(one)}"
            for key, one in value.items()
            if one is not None
        )
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(one) for one in value if one is not None) + "]"
    return _toml(value)
