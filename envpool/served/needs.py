"""What the worlds of a suite need that this machine may lack: programs, folders, variables.

A variable of the environment reaches a server only where the server's command or environment
contains it and the user has named it. Checks get all that the user has named.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.core.served_worlds import (
    PYTHON,
    DatabaseStart,
    FolderStart,
    ServedWorld,
    ServerSpec,
    filled,
    variables_of,
)

CLIENT_PROGRAMS = ("psql", "createdb", "dropdb", "pg_restore")  # of Postgres
_HARMLESS = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")


class ServedSettings(msgspec.Struct, frozen=True):
    """What the user lets servers and checks have."""

    python: str = ""  # the interpreter of the suite's own code; empty: ours
    variables: tuple[str, ...] = ()  # names of variables of the environment
    start_timeout: float = 60.0  # seconds until a server has listed its tools
    starts: int = 4  # worlds that start at the same time
    check_timeout: float = 300.0  # seconds that a check may take, as upstream

    @property
    def interpreter(self) -> str:
        """The interpreter's path: checks are started in other folders, so it is absolute. A link is
        not followed, since it is what makes an environment."""
        named = self.python or sys.executable
        return os.path.abspath(named) if os.sep in named else named

    def named(self) -> dict[str, str]:
        """The variables that the user has named and that are set."""
        return {name: os.environ[name] for name in self.variables if name in os.environ}

    def environment(self, root: str) -> dict[str, str]:
        """The variables of a check: harmless ones and those that the user has named; the checkout's
        packages are found first."""
        harmless = {name: os.environ[name] for name in _HARMLESS if name in os.environ}
        return {**harmless, "PYTHONPATH": root, **self.named()}


def command_of(server: ServerSpec, settings: ServedSettings, values: dict[str, str]) -> list[str]:
    """The command of a server, with the values of its variables."""
    return [
        settings.interpreter if part == PYTHON else filled(part, values) for part in server.command
    ]


def faults(world: ServedWorld, settings: ServedSettings) -> Iterator[str]:
    """What the world lacks here, a clause each, as in "server 'x' needs the program 'npx'"."""
    for name in world.unfilled:
        yield from _faults_of_variable("its question", name, settings)
    for server in world.servers:
        yield from _faults_of_server(server, world, settings)
    match world.start:
        case FolderStart(folder=folder) if not Path(folder).is_dir():
            yield (
                f"it begins with a copy of the folder {folder}, which does not exist: download it "
                "as the suite's documentation says"
            )
        case DatabaseStart():
            for program in CLIENT_PROGRAMS:
                if shutil.which(program) is None:
                    yield f"it needs the program {program!r} of Postgres, which is not installed"


def _faults_of_server(
    server: ServerSpec, world: ServedWorld, settings: ServedSettings
) -> Iterator[str]:
    program = server.command[0]
    if program != PYTHON and shutil.which(program) is None:
        yield f"server {server.name!r} needs the program {program!r}, which is not installed"
    for name in variables_of(server):
        if name not in world.own_variables:
            yield from _faults_of_variable(f"server {server.name!r}", name, settings)


def _faults_of_variable(what: str, name: str, settings: ServedSettings) -> Iterator[str]:
    if name not in settings.variables:
        yield f"{what} needs the variable {name}: set it, and name it with --mcp-env {name}"
    elif not os.environ.get(name):
        yield f"{what} needs the variable {name}, which is not set"
