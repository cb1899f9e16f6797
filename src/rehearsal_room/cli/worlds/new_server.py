"""`new world` with an MCP server: of its command, of a recording, of an OpenAPI document."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from rehearsal_room.authoring.openapi.new_world import RestService, write_rest_world
from rehearsal_room.authoring.recordings.groups import PAUSE_S
from rehearsal_room.authoring.recordings.recorded_world import RecordedWorld, write_recorded_world
from rehearsal_room.authoring.server_worlds.new_world import (
    Database,
    NewServerWorld,
    write_postgres_world,
    write_server_world,
)
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import run


class Target(msgspec.Struct, frozen=True):
    """Where the world is written, and what its server is given."""

    name: str
    parent: Path
    environment: tuple[str, ...]  # variables that it inherits
    variables: dict[str, str]
    seed: Path | None  # what its folder begins with; None: nothing
    probe: bool | None  # whether calls are made; None: where no variable is inherited

    @property
    def is_probed(self) -> bool:
        """Whether calls are made to find the state."""
        return not self.environment if self.probe is None else self.probe


def from_command(
    target: Target, command: str, postgres: str | None = None, dump: Path | None = None
) -> None:
    """Write a world of the server that a command starts. `postgres`: the PostgreSQL server that has
    its state; `dump`: with which its database begins."""
    write = partial(write_server_world, target.name, target.parent, command, seed=target.seed)
    if postgres is not None:
        database = Database(postgres, dump)
        write = partial(write_postgres_world, target.name, target.parent, command, database)
    made: NewServerWorld = run(
        partial(
            write,
            environment=target.environment,
            variables=target.variables,
            probe=target.is_probed,
        )
    )
    _show_server_world(made)


def from_recording(
    target: Target, recording: Path, command: str, world: Path | None, pause_s: float | None
) -> None:
    """Write a world of the sessions of a recording."""
    made: RecordedWorld = run(
        partial(
            write_recorded_world,
            target.name,
            target.parent,
            recording,
            command,
            world=world,
            environment=target.environment,
            variables=target.variables,
            probe=target.is_probed,
            pause_s=PAUSE_S if pause_s is None else pause_s,
        )
    )
    for task in made.tasks:
        click.echo(f"  {task.id:24} {task.instruction}")
    for sentence in made.left_out:
        click.echo(f"left out: {sentence}")
    if made.num_unread:
        click.echo(f"{made.num_unread} lines of the recording could not be read")
    click.echo(f"made {made.folder} with {len(made.tasks)} tasks, whose texts are drafts; next:")
    click.echo(f"  open {made.folder / 'tasks.toml'}")
    if made.target:
        click.echo(f"  {_run_command(made.target, made.folder / 'tasks.toml')}")
    else:
        click.echo(f"  rehearse worlds check {made.folder}")
        click.echo(f"  rehearse run {made.folder} -p oracle")


def from_openapi(
    target: Target,
    document: Path,
    base_url: str | None,
    serve: str | None,
    headers: tuple[str, ...],
    bearer: str | None,
) -> None:
    """Write a world, or tasks, of a REST service."""
    if wrong := next((one for one in headers if not one.partition("=")[2]), None):
        raise SettingsError(f"--header: expected NAME=VARIABLE, found {wrong!r}")
    made = run(
        partial(
            write_rest_world,
            target.name,
            target.parent,
            RestService(document, base_url or "", headers, bearer or "", serve or ""),
            environment=target.environment,
            variables=target.variables,
            probe=target.probe is not False,
        )
    )
    if isinstance(made, NewServerWorld):
        _show_server_world(made)
        return
    _show_tools(made.tools)
    click.echo(
        f"{len(made.tools)} tools; its state is unknown, so checks are tool calls\n"
        f"made {made.path}; next:\n"
        f"  open {made.path} and write tasks\n"
        f"  {_run_command(made.command, made.path)}"
    )


def _show_server_world(made: NewServerWorld) -> None:
    _show_tools(made.found.tools)
    state = ", ".join(made.found.databases or made.found.files[:5])
    where = "its state is in PostgreSQL" if made.postgres else f"it writes {state}"
    click.echo(f"{len(made.found.tools)} tools; {where}")
    if made.journal:
        click.echo(f"journal of its large database: {made.journal}")
    first = made.tasks[0].instruction if made.tasks else ""
    task = f"its first task: {first}" if first else "no call changed a row: write a task"
    if made.fault:
        click.echo(f"the world broke in a call of {made.fault}")
    click.echo(
        f"made {made.folder}; {task}\n"
        f"next:\n"
        f"  open {made.folder / 'tasks.toml'} and verify.py beside it\n"
        f"  rehearse worlds check {made.folder}\n"
        f"  rehearse run {made.folder} -p oracle"
    )


def _show_tools(tools: Sequence[ToolSpec]) -> None:
    for tool in tools:
        click.echo(f"  {tool.name:24} {' '.join(tool.description.split())[:80]}")


def _run_command(target: str, tasks: Path) -> str:
    return shlex.join(["rehearse", "run", "--mcp", target, str(tasks), "-p", "oracle"])
