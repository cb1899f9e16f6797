"""The command `schema`: what editors need to complete and check TOML files."""

from collections.abc import Callable, Mapping

import click
import msgspec

from rehearsal_room.cli.trust.miniature import MiniatureFile
from rehearsal_room.harness.chat.prices import PriceFile
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.schema import Schema, run_schema, schema_of
from rehearsal_room.judge.experiments.file import ExperimentFile
from rehearsal_room.judge.llm.rubric import Rubric
from rehearsal_room.judge.promotion.criteria_file import CriteriaFile
from rehearsal_room.learner.config.schema import train_schema
from rehearsal_room.learner.credit.microscope import CreditFile
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import PackageHead, PackageTasks
from rehearsal_room.scenarios.validation import unknown_key


def _recipe_schema() -> Schema:
    try:
        from rehearsal_room.demo.schema import recipe_schema
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("schema: recipe", exc, "train")) from exc
    return recipe_schema()


# Makers of the schemas, by the name of the file.
_SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "run": run_schema,
    "train": train_schema,
    "judge": lambda: schema_of(JudgeSettings, title="Settings of a judge (judge.toml)"),
    "recipe": _recipe_schema,
    "gate": lambda: schema_of(CriteriaFile, title="A gate file (rehearse promote)"),
    "experiment": lambda: schema_of(ExperimentFile, title="An experiment (rehearse experiment)"),
    "credit": lambda: schema_of(CreditFile, title="An experiment that measures credit"),
    "miniature": lambda: schema_of(MiniatureFile, title="A question on small worlds"),
    "rubric": lambda: schema_of(Rubric, title="A rubric (rehearse judge --rubric)"),
    "scenario": lambda: schema_of(PackageHead, title="A package's scenario.toml"),
    "tasks": lambda: schema_of(PackageTasks, title="A package's tasks.toml"),
    "prices": lambda: schema_of(PriceFile, title="Prices of models (--prices)"),
}


@click.command("schema", hidden=True)
@click.argument("name", default="run", metavar="[FILE]")
def schema_command(name: str) -> None:
    """Print the JSON Schema of a TOML file, for editors.

    FILE is run (settings of `rehearse run` and `bench`; the default), train (of `rehearse train`),
    judge (judge.toml), rubric (of --judge-rubric), prices (of --judge-prices), recipe (of
    `python -m rehearsal_room.demo`), scenario or tasks (scenario.toml and tasks.toml of a
    package).

    With Taplo, or Even Better TOML in VS Code, save it and name it in the first line of the TOML
    file: the editor then completes keys, shows their descriptions and marks what is not allowed.

    \b
        rehearse schema > run.schema.json
        #:schema ./run.schema.json        (first line of settings.toml)
    """
    make = _SCHEMAS.get(name)
    if make is None:
        fault = unknown_key(name, _SCHEMAS).removeprefix("unknown key; ")
        raise SettingsError(f"schema: there is no file {name!r}; {fault}")
    click.echo(msgspec.json.format(msgspec.json.encode(make()), indent=2))
