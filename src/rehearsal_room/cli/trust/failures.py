"""The command `failures`: what went wrong in runs, by kinds, with the turn."""

from collections.abc import Sequence
from pathlib import Path

import click

from rehearsal_room.cli.core.options import JSON, TRUST_RUN, UNIT, console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import log_folder, run_settings
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.judge.failures.reading import Reading, read_failures
from rehearsal_room.judge.failures.render import markdown_of, render_failures
from rehearsal_room.judge.failures.report import report_of
from rehearsal_room.judge.statistics.compared_runs import unit_asked


@click.command("failures")
@click.argument(
    "folders", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path)
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run to compare with: how each kind changed, on the tasks that both have.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Markdown file of the report (default: none).",
)
@UNIT
@TRUST_RUN
@JSON
def failures_command(
    folders: Sequence[Path],
    against: Path | None,
    output: Path | None,
    unit: Unit | None,
    json_file: str | None,
) -> None:
    """Sort what went wrong in runs by kinds that state and log prove.

    \b
        rehearse failures runs/x
        rehearse failures runs/x --against runs/before -o failures.md

    Each example names an episode and the turn (from 0) where it went wrong, so that
    `rehearse run --from RUN/EPISODE@TURN` plays on from there.
    """
    if output is not None and not output.absolute().parent.is_dir():
        raise SettingsError(f"--output: {output}: its folder does not exist")
    readings = [_read(folder) for folder in folders]
    base = None if against is None else _read(against)
    report = report_of(
        [one for reading in readings for one in reading.episodes],
        without_solution=sum(reading.without_solution for reading in readings),
        against="" if against is None else str(against),
        base=() if base is None else base.episodes,
        unit=unit or unit_asked([run_settings(log_folder(folder)) for folder in folders]),
    )
    if base is not None and not report.changes and any(one.mistakes for one in base.episodes):
        raise SettingsError(f"--against: {against} shares no task with {_names(folders)}")
    if output is not None:
        try:
            write_output(output, markdown_of(report, _names(folders)).encode())
        except OSError as exc:
            raise SettingsError(f"{output} cannot be written: {exc}") from exc
    render_failures(report, console_of(json_file))
    write_json(report, json_file)


def _read(folder: Path) -> Reading:
    logged = log_folder(folder)
    with open_reader(logged) as reader:
        rows = reader.episodes()
    if not any(row.judge is not None for row in rows):
        raise SettingsError(
            f"{folder}: no episode has a verdict; `rehearse judge {folder}` judges them"
        )
    with ProgressDisplay("episodes", total=len(rows)) as display:
        reading: Reading = run(read_failures, logged, display.advance)
    return reading


def _names(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders))
