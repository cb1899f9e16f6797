"""A new world from an MCP server: it is started, watched, and written down with a first task.

Where the server writes is found, not asked for: it starts in an empty folder, which is its home,
too, and some calls of its tools are made. What it has then written is its state: SQLite databases,
else files. Where nothing was written the state is in memory, and the world is refused with what to
do instead.
"""

import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import unquote, urlsplit

import anyio
import msgspec

from rehearsal_room.authoring.server_worlds.log_probe import is_large, other_with_logs
from rehearsal_room.authoring.server_worlds.package_text import (
    NO_TASK,
    NewTask,
    ServerTexts,
    write_head,
    write_tasks,
)
from rehearsal_room.authoring.server_worlds.watching import CALL_S, Found, home_of, watched
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.harness.policies.random_calls import ArgumentDrawer
from rehearsal_room.judge.playback.tool_fuzzing import plausible
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call, Scenario, read
from rehearsal_room.scenarios.scaffold.new_world import check_name, is_taken

_VARIABLE = re.compile(r"\{\w+\}")
_ADDRESS = re.compile(r"postgres(?:ql)?://[^\s'\"]+")
_PROBES = 6  # calls of each tool that look for a write


class Database(msgspec.Struct, frozen=True):
    """Where a server on PostgreSQL has its state."""

    address: str  # of the PostgreSQL server, as in state.postgres
    dump: Path | None  # with which the database begins; None: it is empty

    def fault(self) -> str:
        """What is wrong, as the end of a sentence; empty: nothing."""
        try:
            password = urlsplit(self.address).password
        except ValueError as exc:
            return f"is not an address: {exc}"
        if password and not _VARIABLE.fullmatch(unquote(password)):
            return (
                "has a password, which the package would show: put it into a variable of the "
                "environment, and give that in braces, as in postgresql://ada:{DB_PASSWORD}@host/db"
            )
        return ""


class NewServerWorld(msgspec.Struct, frozen=True):
    """The world that was written."""

    folder: Path
    found: Found
    tasks: tuple[NewTask, ...]  # none: no call was found that changes rows
    postgres: str = ""  # the PostgreSQL server with its state; empty: there is none
    journal: str = ""  # what was found of its databases' mode; empty: it was not asked for
    fault: str = ""  # why the world broke in the calls that looked for a task; empty: it did not


MakeTasks = Callable[[Scenario], Awaitable[Sequence[NewTask]]]


async def write_postgres_world(
    name: str,
    parent: Path,
    command: str,
    database: Database,
    *,
    environment: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    probe: bool = True,
) -> NewServerWorld:
    """Write a new world `name` of a server whose state is in a database of its own on a PostgreSQL
    server; {postgres} and {database} stand for it in its command and in `variables`.

    Without `probe` no call is made. Raises PackageError and PoolError.
    """
    if fault := database.fault():
        raise PackageError(f"new world: --postgres {fault}")
    folder = free_folder(name, parent)
    given = {**home_of(command), **(variables or {})}
    clock = datetime.now(UTC).strftime("%Y-%m-%dT09:00:00Z")
    await anyio.Path(parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as made:
        draft = Path(made, name)
        await anyio.Path(draft).mkdir()
        dump = "" if database.dump is None else f"seed{database.dump.suffix or '.sql'}"
        if database.dump is not None:
            shutil.copy2(database.dump, draft / dump)
        texts = ServerTexts(name, command, tuple(environment), given, clock, database.address, dump)
        write_head(draft, texts, Found((), (), ()))
        write_tasks(draft, [NO_TASK])
        async with ServerWorldPool() as pool:
            tools = tuple((await pool.host(read(draft))).tools)
        write_head(draft, texts, Found(tools, (), ()))
        faults: list[str] = []
        tasks = await _first_task(read(draft), faults) if probe else []
        if tasks:
            write_tasks(draft, tasks)
            read(draft)
        shutil.move(draft, folder)
    found = Found(tools, (), ())
    fault = "" if tasks else "; ".join(faults[:1])
    return NewServerWorld(folder, found, tuple(tasks), database.address, fault=fault)


async def write_server_world(
    name: str,
    parent: Path,
    command: str,
    *,
    environment: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    seed: Path | None = None,
    probe: bool = True,
    calls: Sequence[Call] = (),
    files: Mapping[str, bytes] | None = None,
    make_tasks: MakeTasks | None = None,
) -> NewServerWorld:
    """Write a new world `name` of the server that a command starts, below `parent`.

    `environment` names variables that the server inherits; `variables` are further ones, in whose
    values {scratch} stands for its folder, which begins as a copy of `seed`. Without `probe` no
    call is made; `calls` are those that are made first. `files` lie in the package, {world} of the
    command. `make_tasks` finds the tasks in the world without tasks; None: one from a call that
    changes rows. Raises PackageError (also StateUnknown) and PoolError.
    """
    if probe:
        _check_no_database(command, variables or {})
    folder = free_folder(name, parent)
    given = {**home_of(command), **(variables or {})}
    clock = datetime.now(UTC).strftime("%Y-%m-%dT09:00:00Z")
    await anyio.Path(parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as made:
        draft = Path(made, name)
        await anyio.Path(draft).mkdir()
        for file, content in (files or {}).items():
            (draft / file).write_bytes(content)
        kept = draft / "seed"
        if seed is not None:
            shutil.copytree(seed, kept, symlinks=True)
        found = await watched(command, environment, given, kept, clock, probe=probe, calls=calls)
        texts = ServerTexts(name, command, tuple(environment), given, clock)
        write_head(draft, texts, found)
        write_tasks(draft, [NO_TASK])
        faults: list[str] = []
        make = make_tasks or partial(_first_task, faults=faults)
        tasks = await make(read(draft)) if probe else []
        if tasks:
            write_tasks(draft, tasks)
            read(draft)
        journal = ""
        if probe and is_large(draft, found.databases):
            plain = read(draft)
            write_head(draft, texts, found, logs=True)
            why_not = await other_with_logs(plain, read(draft))
            if why_not:
                write_head(draft, texts, found)
            journal = why_not or "a write-ahead log, with which it gave the same texts and rows"
        shutil.move(draft, folder)
    fault = "" if tasks else "; ".join(faults[:1])
    return NewServerWorld(folder, found, tuple(tasks), journal=journal, fault=fault)


def free_folder(name: str, parent: Path) -> Path:
    """The folder of a new world, which is not there yet. Raises PackageError."""
    check_name(name)
    folder = parent / name
    if is_taken(folder):
        raise PackageError(f"new world: {folder} exists already; choose another name or folder")
    return folder


def _check_no_database(command: str, variables: Mapping[str, str]) -> None:
    """Refuse a server that is given a PostgreSQL database of the user's, which the calls would
    change. Raises PackageError."""
    for text in (command, *variables.values()):
        if found := _ADDRESS.search(text):
            raise PackageError(
                "new world: the server is given a PostgreSQL database, which the calls that find "
                "its state would change; write {postgres} in the address's place, which stands for "
                "a database of its own, and give the address of the PostgreSQL server as "
                f"--postgres {_without_password(found[0])}"
            )


def _without_password(address: str) -> str:
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:{DB_PASSWORD}@", address)


async def _first_task(scenario: Scenario, faults: list[str]) -> list[NewTask]:
    """A task whose solution is a call that changes rows; empty: none was found. Why the world broke
    in a call is appended to `faults`. Raises PoolError."""
    async with ServerWorldPool() as pool:
        states = await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            made = await _a_write(env, ArgumentDrawer(Random(0), plausible(states)), faults)
    if made is None:
        return []
    call, changes = made
    named = {name: value for name, value in call.arguments.items() if value is not None}
    shown = ", ".join(f"{name} {value!r}" for name, value in named.items())
    instruction = f"Please {call.name.replace('_', ' ')}" + (f" with {shown}." if shown else ".")
    return [NewTask("first", instruction, (call,), changes)]


async def _a_write(
    env: Env, drawer: ArgumentDrawer, faults: list[str]
) -> tuple[Call, tuple[RowChange, ...]] | None:
    """A call that the server carries out and that changes rows; new rows before other changes.
    None: none was found."""
    found: list[tuple[Call, tuple[RowChange, ...]]] = []
    for tool in env.tools:
        for _ in range(_PROBES):
            call = Call(tool.name, drawer.draw(tool.schema))
            try:
                with anyio.fail_after(CALL_S):
                    result = await env.call(call.name, call.arguments, "")
            except (PoolError, TimeoutError) as exc:
                faults.append(f"{call.name}: {exc or f'no answer within {CALL_S:g} s'}")
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
