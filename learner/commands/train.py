"""The verb `train`."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from harness.commands.context import CommandContext
from harness.commands.options import JSON, console_of, write_json
from harness.core.errors import SettingsError
from harness.rollout.launch import planned
from learner.config.loader import read_settings
from learner.config.runs import Runs, runs_of
from learner.config.settings import TrainSettings
from learner.core.errors import ConfigError


@click.command("train")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The run's folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in the folder.")
@click.option("--dry-run", is_flag=True, help="Print the resolved settings and stop.")
@click.option(
    "--misaligned",
    is_flag=True,
    help="Learn from logs of another history policy or dialect, under the run's own.",
)
@JSON
@click.pass_obj
def train_command(
    context: CommandContext,
    /,
    config: Path,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    misaligned: bool,
    json_file: str | None,
) -> None:
    """Train a model on its own rollouts, or on the logs of finished runs."""
    settings = read_settings(config)
    if resume and output is None:
        raise ConfigError("--resume: name the run's folder with --output")
    if misaligned:
        data = msgspec.structs.replace(settings.data, misaligned=True)
        settings = msgspec.structs.replace(settings, data=data)
    try:
        runs = runs_of(settings)
    except ConfigError as exc:
        raise ConfigError(f"{config}: {exc}") from exc
    if dry_run:
        _describe(settings, runs)
        return
    folder = output or _fresh_folder(settings)
    policy_of = _module("learner.loop.trainable_policies").policy_of(settings)
    training = _module("learner.loop.run")
    dependencies = training.TrainDependencies(context.judge_opener, policy_of, console_of("-"))
    report = training.train(settings, runs, folder, dependencies, resume=resume)
    if report is None:
        return
    told = console_of(json_file)
    told.print(f"run folder {folder}", highlight=False)
    _module("learner.loop.report").render(report, told)
    write_json(report, json_file)


def _describe(settings: TrainSettings, runs: Runs) -> None:
    """Print the resolved settings, and what they come to."""
    click.echo(_module("learner.loop.run_folder").as_toml(settings).decode(), nl=False)
    if not settings.data.logs:
        tasks, plans = planned(runs.rollouts)
        most = "at most " if settings.data.fill else ""
        click.echo(f"# {most}{len(plans)} episodes of {len(tasks)} tasks")


def _module(name: str) -> Any:
    """A module that needs the learner's libraries, which take seconds to import."""
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        raise SettingsError(
            f"train needs the package {exc.name}: pip install 'rehearsal[train]'"
        ) from exc


def _fresh_folder(settings: TrainSettings) -> Path:
    """runs/train-<model>-<number>, the first that is not there yet."""
    name, number = Path(settings.model).name or "model", 1
    while (folder := Path("runs") / f"train-{name}-{number}").exists():
        number += 1
    return folder
