"""The command `new world`: a scenario package to start from."""

from pathlib import Path

import click

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
