"""The commands `new world` and `new agent`: a scenario package and an agent to start from."""

from functools import partial
from pathlib import Path

import click

from rehearsal_room.authoring.new_agent import write_agent
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
    "--seed",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with which {scratch} begins, for a server that has to be set up first.",
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
    environment: tuple[str, ...],
    variables: tuple[str, ...],
    seed: Path | None,
    probe: bool | None,
) -> None:
    """Make a small scenario package that passes the gate, to be changed file by file.

    It has three tables, four tools, three tasks with solutions and verifiers, and near misses; the
    comments in its files lead to the next step. With --mcp, it is a world of an MCP server
    instead (docs/mcp-worlds.md).
    """
    parent = worlds_folder() if output is None else output
    if mcp is not None:
        _new_server_world(name, parent, mcp, environment, variables, seed, probe)
        return
    if environment or variables or seed is not None or probe is not None:
        raise SettingsError("--mcp-env, --var, --seed and --probe are for the server of --mcp")
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
    variables: tuple[str, ...],
    seed: Path | None,
    probe: bool | None,
) -> None:
    given = dict(one.partition("=")[::2] for one in variables)
    if wrong := next((one for one in variables if not one.partition("=")[1]), None):
        raise SettingsError(f"--var: expected NAME=VALUE, found {wrong!r}")
    made: NewServerWorld = run(
        partial(
            write_server_world,
            name,
            parent,
            command,
            environment=environment,
            variables=given,
            seed=seed,
            probe=not environment if probe is None else probe,
        )
    )
    for tool in made.found.tools:
        click.echo(f"  {tool.name:24} {' '.join(tool.description.split())[:80]}")
    state = ", ".join(made.found.databases or made.found.files[:5])
    click.echo(f"{len(made.found.tools)} tools; it writes {state}")
    task = f"its first task: {made.task}" if made.task else "no call changed a row: write a task"
    click.echo(
        f"made {made.folder}; {task}\n"
        f"next:\n"
        f"  open {made.folder / 'tasks.toml'} and verify.py beside it\n"
        f"  rehearse worlds check {made.folder}\n"
        f"  rehearse run {made.folder} -p oracle"
    )


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
