"""The commands `new world` and `new agent`: a scenario package and an agent to start from."""

from pathlib import Path

import click

from rehearsal_room.authoring.new_agent import write_agent
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
def new_world_command(name: str, output: Path | None) -> None:
    """Make a small scenario package that passes the gate, to be changed file by file.

    It has three tables, four tools, three tasks with solutions and verifiers, and near misses; the
    comments in its files lead to the next step.
    """
    folder = write_world(name, worlds_folder() if output is None else output)
    click.echo(
        f"made {folder}; next:\n"
        f"  rehearse worlds check {folder}\n"
        f"  rehearse run {folder} -p oracle\n"
        f"  open {folder / 'README.md'}"
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
