"""Imports every command, for a warm process: a command line imports a command when it runs."""

import click

from rehearsal_room.cli.main import cli


def load(group: click.Group) -> None:
    """Import the commands of a group."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            load(command)


load(cli)
