"""The command `schema`: JSON Schemas of the TOML files that people write."""

from typing import Any

import click
import msgspec

from harness.commands.context import CommandContext
from harness.core.errors import SettingsError
from scenarios.validation import unknown_key


@click.command("schema")
@click.argument("name", default="run", metavar="[FILE]")
@click.pass_obj
def schema_command(context: CommandContext, /, name: str) -> None:
    """Print the JSON Schema of a TOML file, for editors.

    FILE is run (settings of `rehearse run` and `bench`; the default), train (of `rehearse train`),
    judge (judge.toml), rubric (of --judge-rubric), prices (of --judge-prices), recipe (of
    `python -m learner.demo`), scenario or tasks (scenario.toml and tasks.toml of a package).

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
