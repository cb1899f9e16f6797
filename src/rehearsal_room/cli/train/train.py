"""The command `train`."""

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from rehearsal_room.cli.core.interruption import Interrupted, command_line, continued_by
from rehearsal_room.cli.core.options import (
    DRY_RUN,
    JSON,
    OUTPUT,
    RESUME,
    TRUST_RUN,
    console_of,
    write_json,
)
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_trust import require_began
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.learner.config.loader import read_settings
from rehearsal_room.learner.config.runs import TrainingRunSettings, runs_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import ConfigError, TimeIsUpError
from rehearsal_room.learner.core.training_folder import is_of_a_run
from rehearsal_room.scenarios.distribution import missing_package


@click.command("train")
@click.argument("config", type=click.Path(path_type=Path))
@OUTPUT
@RESUME
@TRUST_RUN
@DRY_RUN
@click.option(
    "--misaligned",
    is_flag=True,
    help="Also train on logs that were made under another history window or dialect.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Learn from a run that is still played and judged by other processes: data.logs names its "
    "folder (data.follow).",
)
@click.option(
    "--bus",
    metavar="URL",
    help="With --follow: URL of the MQTT broker on which the run of this name in data.logs is "
    "published.",
)
@JSON
def train_command(
    config: Path,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    misaligned: bool,
    follow: bool,
    bus: str | None,
    json_file: str | None,
) -> None:
    """Train a model on its own rollouts, or on the logs of other runs.

    CONFIG is a TOML file (`rehearse schema train` prints its JSON Schema). Use --dry-run first: it
    prints the settings and the number of episodes, and trains nothing.
    """
    if is_of_a_run(config):
        require_began(config)
    settings = _with_follow(read_settings(config), follow=follow, bus=bus)
    if resume and output is None:
        raise ConfigError("--resume: name the run's folder with --output")
    if misaligned:
        data = msgspec.structs.replace(settings.data, misaligned=True)
        settings = msgspec.structs.replace(settings, data=data)
    try:
        runs = runs_of(settings)
    except ConfigError as exc:
        raise ConfigError(f"{config}: {exc}") from exc
    _warn_of_judge(settings)
    if dry_run:
        _describe(settings, runs)
        return
    folder = output or _fresh_folder(settings)
    _require_learner()
    from rehearsal_room.learner.loop.report import render
    from rehearsal_room.learner.loop.run import TrainDependencies, train
    from rehearsal_room.learner.loop.trainable_policies import policy_of

    dependencies = TrainDependencies(
        judge_opener,
        policy_of(settings),
        console_of("-"),
        None if bus is None else MqttSettings(url=bus),
    )
    public = None if bus is None else MqttSettings(url=bus).public().url  # without its password
    flags = {"--misaligned": misaligned, "--follow": follow, "--bus": public}
    try:
        with continued_by(lambda: _resumed(config, folder, flags)):
            report = train(settings, runs, folder, dependencies, resume=resume)
    except TimeIsUpError as exc:
        click.echo(str(exc), err=True)
        raise Interrupted(_resumed(config, folder, flags)) from exc
    if report is None:
        return
    console = console_of(json_file)
    console.print(f"run folder {folder}", highlight=False)
    render(report, console)
    write_json(report, json_file)


def train_from(config: Path, folder: Path, *, resume: bool) -> Path:
    """Train as a file of settings says, in a folder, or go on there; returns the folder of the
    newest weights. Raises what `rehearse train` does."""
    settings = read_settings(config)
    _warn_of_judge(settings)
    _require_learner()
    from rehearsal_room.learner.loop.run import TrainDependencies, train
    from rehearsal_room.learner.loop.trainable_policies import policy_of

    dependencies = TrainDependencies(judge_opener, policy_of(settings), console_of("-"))
    report = train(settings, runs_of(settings), folder, dependencies, resume=resume)
    if report is None:
        raise ConfigError(f"{config}: an experiment trains in one process (compute.processes)")
    return Path(report.published)


def _warn_of_judge(settings: TrainSettings) -> None:
    """Say on standard error where J of the judge may be 0: it may then pay as much for wrong work
    as for right work. Raises SettingsError for a file without J."""
    if not settings.soundness:
        return
    # Imported for a file that is named: its libraries take a third of a second.
    from rehearsal_room.judge.statistics.youden import read_youden

    file, found = settings.soundness, read_youden(Path(settings.soundness)).youden
    j = found.j
    if found.may_be_blind:
        click.echo(
            f"WARNING {file}: J of the judge is {j.value:.3f}, and its interval ({j.lower:.3f} to "
            f"{j.upper:.3f}) reaches 0: it may pay as much for wrong "
            "work as for right work, and training would find that",
            err=True,
        )


def _with_follow(settings: TrainSettings, *, follow: bool, bus: str | None) -> TrainSettings:
    """The settings with the flags about a run that is followed. Raises ConfigError."""
    data = settings.data
    if follow and not data.follow:
        data = msgspec.structs.replace(data, follow=True)
    if data.follow and not data.logs:
        raise ConfigError("--follow: there is no run to follow; name it in data.logs")
    if bus is not None and not (data.follow and len(data.logs) == 1):
        raise ConfigError(
            "--bus: needs --follow, and the name of one run in data.logs, as it is on the broker"
        )
    if bus is not None:
        broker_of(MqttSettings(url=bus))
    return msgspec.structs.replace(settings, data=data)


def _resumed(config: Path, folder: Path, flags: Mapping[str, str | bool | None]) -> str:
    """The command that continues a training run; empty where the run has not begun."""
    if not (folder / "train.toml").exists():
        return ""
    words = [
        word
        for name, value in flags.items()
        if value
        for word in ([name] if value is True else [name, value])
    ]
    return command_line("train", config, "-o", folder, "--resume", *words)


def _describe(settings: TrainSettings, runs: TrainingRunSettings) -> None:
    """Print the resolved settings, and the number of episodes that they need."""
    _require_learner()
    from rehearsal_room.learner.loop.run_folder import as_toml

    click.echo(as_toml(settings).decode(), nl=False)
    if settings.data.is_live:
        tasks, plans = planned(runs.rollouts)
        most = "at most " if settings.data.fill else ""
        click.echo(f"# {most}{len(plans)} episodes of {len(tasks)} tasks")


def _require_learner() -> None:
    """Import the training loop, whose libraries are optional and take seconds. Raises SettingsError
    where one of them is not installed."""
    try:
        import rehearsal_room.learner.loop.run  # noqa: F401
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("train", exc, "train")) from exc


def _fresh_folder(settings: TrainSettings) -> Path:
    """runs/train-<model>-<number>, the first that does not exist yet."""
    name, number = Path(settings.model).name or "model", 1
    while (folder := Path("runs") / f"train-{name}-{number}").exists():
        number += 1
    return folder
