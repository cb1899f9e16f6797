"""How the world of a suite's task begins, and how it is removed: a folder, a database, nothing.

Both are made for one lease and are gone after it, whatever happened; only the end of this process
by SIGKILL leaves them behind.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from shutil import copytree
from subprocess import CompletedProcess
from urllib.parse import quote

import anyio
import anyio.to_thread

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.served.needs import ServedSettings
from rehearsal_room.scenarios.core.served_worlds import DatabaseStart, FolderStart, ServedWorld

_LONGEST = 600.0  # seconds that a client program or a script may take
_ADMIN = "postgres"  # the database to which commands about databases connect
# Variable of MCPMark -> that of Postgres' client programs, and its default.
_CLIENT = {
    "POSTGRES_HOST": ("PGHOST", "localhost"),
    "POSTGRES_PORT": ("PGPORT", "5432"),
    "POSTGRES_USERNAME": ("PGUSER", "postgres"),
    "POSTGRES_PASSWORD": ("PGPASSWORD", ""),
}


class Databases:
    """Makes databases on a Postgres server. Dumps are restored once and copied from then on; use it
    in `async with`, which drops what was restored."""

    def __init__(self, settings: ServedSettings) -> None:
        self._settings = settings
        self._restored: dict[str, str] = {}  # dump -> the database that has its content
        self._restoring = anyio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Databases":
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *why: object) -> None:
        await self._stack.aclose()

    @property
    def variables(self) -> dict[str, str]:
        """Where the server is, as MCPMark's variables say it."""
        named = self._settings.named()
        return {name: named.get(name, default) for name, (_, default) in _CLIENT.items()}

    @asynccontextmanager
    async def database(self, start: DatabaseStart, world: ServedWorld) -> AsyncIterator[str]:
        """The name of a new database, which is dropped at the end. Raises PoolError."""
        origin = await self._origin(start)
        name = f"rehearse_{start.database[:30]}_{token_hex(6)}"
        await self._create(name, origin)
        try:
            if not origin:
                await self._prepare(name, start, world)
            yield name
        finally:
            await self._drop(name)

    def url(self, database: str) -> str:
        """The address of a database, with user and password."""
        one = self.variables
        user, password = quote(one["POSTGRES_USERNAME"]), quote(one["POSTGRES_PASSWORD"], safe="")
        login = f"{user}:{password}" if password else user
        return f"postgresql://{login}@{one['POSTGRES_HOST']}:{one['POSTGRES_PORT']}/{database}"

    async def _origin(self, start: DatabaseStart) -> str:
        """The database that a world's is copied from; empty: a script fills an empty one."""
        query = "SELECT datname FROM pg_database"
        if start.database in (await self._client("psql", "-tAc", query, _ADMIN)).splitlines():
            return start.database
        if await anyio.Path(start.dump).is_file():
            async with self._restoring:
                if start.dump not in self._restored:
                    self._restored[start.dump] = await self._restore(start)
            return self._restored[start.dump]
        if start.script:
            return ""
        raise PoolError(
            f"the Postgres server has no database {start.database!r}, and there is no dump "
            f"{start.dump}: download it as MCPMark's docs/mcp/postgres.md says"
        )

    async def _restore(self, start: DatabaseStart) -> str:
        name = f"rehearse_origin_{start.database[:30]}_{token_hex(6)}"
        await self._create(name, "")
        self._stack.push_async_callback(self._drop, name)
        done = await self._run(["pg_restore", "-d", name, start.dump])
        if done.returncode and b"errors ignored on restore" not in done.stderr:
            raise PoolError(f"{start.dump} cannot be restored: {_last_line(done.stderr)}")
        return name

    async def _prepare(self, name: str, start: DatabaseStart, world: ServedWorld) -> None:
        environment = {**self._settings.environment(world.root), **self.variables}
        environment["POSTGRES_DATABASE"] = name
        command = [self._settings.interpreter, start.script]
        done = await run(command, environment, cwd=Path(start.script).parent)
        if done.returncode:
            raise PoolError(f"{start.script} failed: {_last_line(done.stderr)}")

    async def _create(self, name: str, origin: str) -> None:
        copied = ("-T", origin) if origin else ()
        await self._client("createdb", "--maintenance-db", _ADMIN, *copied, name)

    async def _drop(self, name: str) -> None:
        with anyio.CancelScope(shield=True):
            await self._client("dropdb", "--maintenance-db", _ADMIN, "--if-exists", "--force", name)

    async def _client(self, program: str, *arguments: str) -> str:
        done = await self._run([program, *arguments])
        if done.returncode:
            raise PoolError(f"{program} failed: {_last_line(done.stderr)}")
        return done.stdout.decode(errors="replace")

    async def _run(self, command: Sequence[str]) -> CompletedProcess[bytes]:
        values = {theirs: self.variables[name] for name, (theirs, _) in _CLIENT.items()}
        environment = {
            name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ
        }
        environment |= {name: value for name, value in values.items() if value}
        return await run(command, environment)


@asynccontextmanager
async def begun(world: ServedWorld, databases: Databases) -> AsyncIterator[dict[str, str]]:
    """The variables of a new world; at the end it is removed. Raises PoolError."""
    match world.start:
        case FolderStart(folder=folder, variable=variable):
            with own_folder("world") as made:
                copy = await anyio.to_thread.run_sync(_copied, folder, made)
                yield {variable: copy}
        case DatabaseStart():
            async with databases.database(world.start, world) as name:
                yield {
                    **databases.variables,
                    "POSTGRES_DATABASE": name,
                    "DATABASE_URL": databases.url(name),
                }
        case None:
            yield {}


def _copied(folder: str, made: Path) -> str:
    """Copy a folder into another one; returns the copy's real path, with which file system servers
    compare what they are asked for. Raises PoolError."""
    copy = made.resolve() / Path(folder).name
    try:
        copytree(folder, copy, symlinks=True)
    except OSError as exc:
        raise PoolError(f"{folder} cannot be copied: {exc}") from exc
    return str(copy)


async def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    given: bytes = b"",
    seconds: float = _LONGEST,
) -> CompletedProcess[bytes]:
    """Run a program to its end. Raises PoolError where it cannot be started or takes too long."""
    try:
        with anyio.fail_after(seconds):
            return await anyio.run_process(
                list(command), input=given, env=dict(environment), cwd=cwd, check=False
            )
    except TimeoutError as exc:
        raise PoolError(f"{command[0]} took longer than {seconds:g} s") from exc
    except OSError as exc:
        raise PoolError(f"{command[0]} cannot be started: {exc}") from exc


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it wrote nothing"
