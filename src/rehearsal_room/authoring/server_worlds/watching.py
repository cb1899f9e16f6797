"""Start an MCP server and see where it writes.

It starts in an empty folder, which is its home, too, and some calls of its tools are made. What it
has then written is its state: SQLite databases, else files.
"""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import anyio
import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.envpool.mcp_state.sqlite_reader import SqliteReader
from rehearsal_room.envpool.mcp_worlds.state import NOT_STATE, plain_database
from rehearsal_room.envpool.seeded.moments import Moments
from rehearsal_room.harness.policies.random_calls import ArgumentDrawer
from rehearsal_room.scenarios.core.server_record import SCRATCH, WORLD
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call

_MAGIC = b"SQLite format 3\0"
_LOGS = ("-wal", "-shm", "-journal")  # of databases
CALL_S = 20.0  # seconds that a call may take that looks for a write
_CACHES = {  # of programs that fetch the server: not in its home, where they would begin empty
    "npm_config_cache": ".npm",
    "UV_CACHE_DIR": ".cache/uv",
    "UV_TOOL_DIR": ".local/share/uv/tools",
    "PIPX_HOME": ".local/share/pipx",
}


class StateUnknown(PackageError):
    """A server wrote nothing in its folder: its state is in memory or elsewhere."""

    def __init__(self, message: str, tools: Sequence[ToolSpec]) -> None:
        super().__init__(message)
        self.tools = tools


class Found(msgspec.Struct, frozen=True):
    """What a server is, and where it writes, relative to its folder."""

    tools: tuple[ToolSpec, ...]
    databases: tuple[str, ...]
    files: tuple[str, ...]  # other files, links and empty folders that it wrote


def home_of(command: str) -> dict[str, str]:
    """Variables: a home of the server's own, with the caches of the program that fetches it."""
    home = {"HOME": SCRATCH}
    program = Path(shlex.split(command)[0]).name if command.strip() else ""
    if program in ("npx", "npm", "uvx", "uv", "pipx", "bunx", "pnpm"):
        real = Path.home()
        home |= {name: os.environ.get(name, str(real / path)) for name, path in _CACHES.items()}
    return home


async def watched(
    command: str,
    environment: Sequence[str],
    variables: Mapping[str, str],
    seed: Path,
    clock: str,
    *,
    probe: bool,
    calls: Sequence[Call] = (),
) -> Found:
    """Start the server in a copy of the seed (empty, where there is none), see what it writes
    there, and keep what it starts with as the seed, which lies in the package's folder. `calls` are
    tried before others. Raises PoolError, and StateUnknown where it writes nothing."""
    with (
        own_folder("new") as made,
        closing(Moments(made / "moments", seed=command, clock=clock)) as moments,
    ):
        scratch, temporary = made / "scratch", made / "tmp"
        await anyio.Path(temporary).mkdir()
        if await anyio.Path(seed).is_dir():
            shutil.copytree(seed, scratch, symlinks=True)
        else:
            await anyio.Path(scratch).mkdir()
        words = tuple(
            word.replace(SCRATCH, str(scratch)).replace(WORLD, str(seed.parent.resolve()))
            for word in command_of(command)
        )
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
                await _try_all(connection, calls)
        finally:
            await connection.close()
        after = _files(scratch)
        databases = tuple(path for path in after if _is_database(scratch / path))
        wrote = [path for path, marks in after.items() if started.get(path) != marks]
        others = tuple(_shown(path) for path in (wrote or after) if path not in databases)
        databases = tuple(map(_shown, databases))
    if not databases and not others:
        raise StateUnknown(
            f"new world: the server {command!r} ({len(tools)} tools) wrote nothing in its "
            f"folder{' when some of them were called' if probe else ''}: its state is in memory or "
            "elsewhere. Without rows there is no diff, no fork and no check that nothing else "
            f"changed; write tasks with checks as tool calls, and play them with `rehearse run "
            f"--mcp {shlex.quote(command)} tasks.toml` (docs/external-worlds.md). If it needs a "
            "path, give it below {scratch} in the command or as --var NAME={scratch}/FILE; if it "
            "has to be set up first, give a folder that was set up as --seed DIR",
            tools,
        )
    return Found(tools, databases, others)


async def _try_all(connection: ServerConnection, calls: Sequence[Call]) -> None:
    """Make these calls, and a few of each tool with values that its schema allows."""
    drawer = ArgumentDrawer(Random(0), {})
    drawn = (Call(tool.name, drawer.draw(tool.schema)) for tool in connection.tools for _ in "12")
    for call in (*calls, *drawn):
        with anyio.move_on_after(CALL_S):
            try:
                await connection.call(call.name, call.arguments)
            except PoolError:
                return


def _shown(path: str) -> str:
    """A path as a text: a name need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The files, links and empty folders below a folder, by path: size and time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        parents = {relative.as_posix(), *map(Path.as_posix, relative.parents)}
        is_own = parents.isdisjoint(NOT_STATE) and not path.name.endswith(_LOGS)
        is_folder = path.is_dir() and not path.is_symlink()
        if is_own and not (is_folder and any(path.iterdir())):
            stat = path.lstat()
            found[relative.as_posix()] = (stat.st_size, stat.st_mtime_ns)
    return found


def _keep(scratch: Path, seed: Path, files: Mapping[str, object]) -> None:
    """Copy what the server starts with; a database with what stands in its log."""
    for name in files:
        target = seed / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (scratch / name).is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to((scratch / name).readlink())
        elif (scratch / name).is_dir():
            target.mkdir(exist_ok=True)
        elif _is_database(scratch / name):
            with closing(SqliteReader(scratch / name)) as reader:
                target.write_bytes(plain_database(reader.snapshot.image))
        elif (scratch / name).is_file():  # no socket or pipe
            shutil.copy2(scratch / name, target)


def _is_database(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():  # opening a pipe would wait
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
