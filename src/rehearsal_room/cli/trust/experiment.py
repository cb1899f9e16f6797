"""The command `experiment`: arms that differ in one thing, trained, played, judged and compared."""

from pathlib import Path
from shutil import copytree

import click
import tomli_w
from rich.console import Console
from rich.table import Table

from rehearsal_room.cli.core.judge_options import settings_of
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.cli.play.run import play_run
from rehearsal_room.cli.train.train import train_from
from rehearsal_room.cli.trust.credit import is_credit, measure_credit
from rehearsal_room.cli.trust.judge import judge_run_again
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import LOG_NAME, write_atomically
from rehearsal_room.harness.reports.summary import write_report
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings, resolve_table
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.judge.experiments.file import Arm, read_experiment
from rehearsal_room.judge.experiments.results import (
    ExperimentReport,
    PlayedArm,
    completed_text,
    difference_text,
    markdown_of,
    results_of,
)


@click.command("experiment")
@click.argument("file", metavar="FILE.toml", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the arms and of the result (default: runs/<name of the file>).",
)
@click.option("--dry-run", is_flag=True, help="Print what each arm would do, and do nothing.")
@JSON
def experiment_command(
    file: Path,
    output: Path | None,
    dry_run: bool,
    json_file: str | None,
) -> None:
    """Train, play and judge the arms of an experiment, and compare them.

    Work that is done already is not done again: the same command goes on after an interruption. The
    result is in report.json and report.md of the folder. A file with a table [credit] measures
    estimators of advantages instead.
    """
    folder = output or Path("runs") / file.stem
    if is_credit(file):
        measure_credit(file, folder, dry_run=dry_run, json_file=json_file)
        return
    experiment, arms = read_experiment(file)
    settings = {arm.name: _settings(file, arm) for arm in arms if not arm.judges}
    console = console_of(json_file)
    if dry_run:
        for arm in arms:
            console.print(_plan_of(arm, settings.get(arm.name)), highlight=False, markup=False)
        return
    played: list[PlayedArm] = []
    for arm in arms:
        console.print(f"arm {arm.name}", highlight=False, markup=False)
        one = folder / arm.folder
        if arm.judges:
            source = next(other for other in played if other.name == arm.judges)
            played.append(_judged_again(arm, source, one / "run"))
        else:
            played.append(_played(arm, settings[arm.name], one))
    report = ExperimentReport(experiment.name, experiment.question, results_of(played))
    _write(folder / "report.md", markdown_of(report).encode())
    render(report, console)
    write_json(report, str(folder / "report.json"))
    write_json(report, json_file)


def _settings(file: Path, arm: Arm) -> Settings:
    """The settings of an arm's evaluation. Raises SettingsError."""
    settings = resolve_table(arm.run, {}, source=f"{file}: arm {arm.name!r}: run: ")
    if not arm.train:
        planned(settings)
    return settings


def _plan_of(arm: Arm, settings: Settings | None) -> str:
    if settings is None:
        return f"{arm.name}: judges the episodes of {arm.judges} again"
    trains = "trains, then " if arm.train else ""
    return f"{arm.name}: {trains}plays {len(planned(settings)[1])} episodes"


def _played(arm: Arm, settings: Settings, folder: Path) -> PlayedArm:
    """Train the arm's model, if it trains one, and play its episodes."""
    model = ""
    if arm.train:
        config, trained = folder / "train.toml", folder / "train"
        folder.mkdir(parents=True, exist_ok=True)
        _write(config, tomli_w.dumps(arm.train).encode())
        model = str(train_from(config, trained, resume=(trained / "train.toml").exists()))
        settings = resolve_table({"policy": "local", **arm.run, "model": model}, {})
    run = folder / "run"
    report = play_run(settings, run, resume=(run / LOG_NAME).exists())
    write_report(run, report)
    return PlayedArm(arm.name, run, model)


def _judged_again(arm: Arm, source: PlayedArm, run: Path) -> PlayedArm:
    """Copy another arm's episodes and judge them by the arm's own judge."""
    if not run.exists():
        copytree(source.run, run)
    known = set(JudgeSettings.__struct_fields__)
    if unknown := [key for key in arm.judge if key not in known]:
        raise SettingsError(
            f"arm {arm.name!r}: judge: unknown key {unknown[0]!r}; keys: {', '.join(sorted(known))}"
        )
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in arm.judge.items()}
    judge_run_again(run, settings_of(run, given))
    return PlayedArm(arm.name, run, source.model, source.run)


def render(report: ExperimentReport, console: Console) -> None:
    """Print a line for each arm."""
    table = Table("arm", box=None, pad_edge=False)
    for head in ("episodes", "completed", "against the first arm", "labels agree"):
        table.add_column(head, justify="right")
    for arm in report.arms:
        agreement = "" if arm.agreement is None else f"{arm.agreement:.1%}"
        cells = (str(arm.episodes), completed_text(arm), difference_text(arm))
        table.add_row(arm.name, *cells, agreement)
    console.print(table)


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as exc:
        raise SettingsError(f"{path} cannot be written: {exc}") from exc
