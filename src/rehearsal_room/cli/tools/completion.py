"""The commands `completion` and `schema`: what shells and editors need to complete words."""

from typing import Any

import click
import msgspec
from click.shell_completion import get_completion_class

from rehearsal_room.cli.core.context import CommandContext
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios.validation import unknown_key

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, flags and their values.

    \b
        eval "$(rehearse completion bash)"           (in ~/.bashrc)
        eval "$(rehearse completion zsh)"            (in ~/.zshrc)
        rehearse completion fish | source            (in ~/.config/fish/config.fish)
    """
    kind = get_completion_class(shell)
    assert kind is not None
    command = context.find_root().command
    click.echo(kind(command, {}, "rehearse", "_REHEARSE_COMPLETE").source())


@click.command("schema")
@click.argument("name", default="run", metavar="[FILE]")
@click.pass_obj
def schema_command(context: CommandContext, /, name: str) -> None:
    """Print the JSON Schema of a TOML file, for editors.

    FILE is run (settings of `rehearse run` and `bench`; the default), train (of `rehearse train`),
    judge (judge.toml), rubric (of --judge-rubric), prices (of --judge-prices), recipe (of
    `python -m rehearsal_room.learner.demo`), scenario or tasks (scenario.toml and tasks.toml of a
    package).

    With Taplo, or Even Better TOML in VS Code, save it and name it in the first line of the TOML
    file: the editor then completes keys, shows their descriptions and marks what is not allowed.

    \b
        rehearse schema > run.schema.json
        #:schema ./run.schema.json        (first line of settings.toml)
    """
    make = context.schemas.get(name)
    if make is None:
        fault = unknown_key(name, context.schemas).removeprefix("unknown key; ")
        raise SettingsError(f"schema: there is no file {name!r}; {fault}")
    schema: Any = make()
    click.echo(msgspec.json.format(msgspec.json.encode(schema), indent=2))
