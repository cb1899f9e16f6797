"""The commands `new world` and `new agent`: a scenario package and an agent to start from."""

import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click

from rehearsal_room.authoring.new_agent import write_agent
from rehearsal_room.authoring.recordings.groups import PAUSE_S
from rehearsal_room.authoring.recordings.recorded_world import RecordedWorld, write_recorded_world
from rehearsal_room.authoring.server_worlds.new_world import NewServerWorld, write_server_world
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.scenarios.catalogue import worlds_folder
from rehearsal_room.scenarios.scaffold.new_world import write_world


@click.command("world")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder in which the package is made (default: REHEARSE_WORLDS of the environment, else "
    "worlds).",
)
@click.option(
    "--mcp",
    metavar="COMMAND",
    help="Make a world of the MCP server that this command starts: its state is found, and a first "
    "task. {scratch} stands for a folder of its own.",
)
@click.option(
    "--from-recording",
    "recording",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make the tasks of a recording of its sessions (`rehearse new recording`); without --mcp, "
    "its server is the recorded one.",
)
@click.option(
    "--world",
    type=click.Path(path_type=Path, exists=True),
    metavar="FOLDER",
    help="With --from-recording: take the server and the seed of this package.",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --from-recording: seconds without a call after which a new task begins (default: "
    "60).",
)
@click.option(
    "--mcp-env",
    "environment",
    multiple=True,
    metavar="VAR",
    help="Variable of the environment that the server inherits (may be repeated). No call is made "
    "then to find its state, unless --probe asks for it.",
)
@click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable of the server's environment, for example NOTES_DB={scratch}/notes.db (may be "
    "repeated).",
)
@click.option(
    "--probe/--no-probe",
    default=None,
    help="Whether some calls of the server's tools are made to see where it writes.",
)
def new_world_command(
    name: str,
    output: Path | None,
    mcp: str | None,
    recording: Path | None,
    world: Path | None,
    pause: float | None,
    environment: tuple[str, ...],
    variables: tuple[str, ...],
    probe: bool | None,
) -> None:
    """Make a small scenario package that passes the gate, to be changed file by file.

    It has three tables, four tools, three tasks with solutions and verifiers, and near misses; the
    comments in its files lead to the next step. With --mcp, it is a world of an MCP server
    instead (docs/mcp-worlds.md).
    """
    parent = worlds_folder() if output is None else output
    given = dict(one.partition("=")[::2] for one in variables)
    if wrong := next((one for one in variables if not one.partition("=")[1]), None):
        raise SettingsError(f"--var: expected NAME=VALUE, found {wrong!r}")
    is_probed = not environment if probe is None else probe
    if recording is not None:
        _new_recorded_world(
            partial(
                write_recorded_world,
                name,
                parent,
                recording,
                mcp or "",
                world=world,
                environment=environment,
                variables=given,
                probe=is_probed,
                pause_s=PAUSE_S if pause is None else pause,
            )
        )
        return
    if world is not None or pause is not None:
        raise SettingsError("--world and --pause are for --from-recording")
    if mcp is not None:
        _new_server_world(name, parent, mcp, environment, given, is_probed)
        return
    if environment or variables or probe is not None:
        raise SettingsError("--mcp-env, --var and --probe are for the server of --mcp")
    folder = write_world(name, parent)
    click.echo(
        f"made {folder}; next:\n"
        f"  rehearse worlds check {folder}\n"
        f"  rehearse run {folder} -p oracle\n"
        f"  open {folder / 'README.md'}"
    )


def _new_server_world(
    name: str,
    parent: Path,
    command: str,
    environment: tuple[str, ...],
    variables: dict[str, str],
    probe: bool,
) -> None:
    made: NewServerWorld = run(
        partial(
            write_server_world,
            name,
            parent,
            command,
            environment=environment,
            variables=variables,
            probe=probe,
        )
    )
    for tool in made.found.tools:
        click.echo(f"  {tool.name:24} {' '.join(tool.description.split())[:80]}")
    state = ", ".join(made.found.databases or made.found.files[:5])
    click.echo(f"{len(made.found.tools)} tools; it writes {state}")
    first = made.tasks[0].instruction if made.tasks else ""
    task = f"its first task: {first}" if first else "no call changed a row: write a task"
    click.echo(
        f"made {made.folder}; {task}\n"
        f"next:\n"
        f"  open {made.folder / 'tasks.toml'} and verify.py beside it\n"
        f"  rehearse worlds check {made.folder}\n"
        f"  rehearse run {made.folder} -p oracle"
    )


def _new_recorded_world(write: Callable[[], Awaitable[RecordedWorld]]) -> None:
    made = run(write)
    for task in made.tasks:
        click.echo(f"  {task.id:24} {task.instruction}")
    for sentence in made.left_out:
        click.echo(f"left out: {sentence}")
    if made.num_unread:
        click.echo(f"{made.num_unread} lines of the recording could not be read")
    click.echo(f"made {made.folder} with {len(made.tasks)} tasks, whose texts are drafts; next:")
    click.echo(f"  open {made.folder / 'tasks.toml'}")
    if made.target:
        words = ("rehearse", "run", "--mcp", made.target, str(made.folder / "tasks.toml"))
        click.echo(f"  {shlex.join(words)} -p oracle")
        return
    click.echo(f"  rehearse worlds check {made.folder}\n  rehearse run {made.folder} -p oracle")


@click.command("agent")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path(),
    help="Folder in which the agent's folder is made (default: the current one).",
)
def new_agent_command(name: str, output: Path) -> None:
    """Make an agent that asks a model, with its tests, to be changed.

    It plays as it is, with any model or with the task's solution in the model's place.
    """
    folder = write_agent(name, output)
    click.echo(
        f"made {folder}; next:\n"
        f"  pip install openai\n"
        f"  rehearse run shop_support -n 4 -p oracle --agent {folder / 'agent.py'}:agent\n"
        f"  open {folder / 'README.md'}"
    )
