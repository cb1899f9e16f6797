"""The command `run`: episodes, logged."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.interruption import continued_by, resumed_run, stop_for_outage
from rehearsal_room.cli.core.local_policy import local_policy
from rehearsal_room.cli.core.options import (
    USUAL,
    console_of,
    run_flags,
    settings_of,
    write_json,
)
from rehearsal_room.harness.bus.mqtt_settings import broker_of
from rehearsal_room.harness.chaos.settings import read_chaos
from rehearsal_room.harness.chat.prices import read_prices
from rehearsal_room.harness.core.errors import ModelOutageError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.reports.summary import (
    RunReport,
    read_report,
    render_run_report,
    write_report,
)
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_folder import described, fresh_folder
from rehearsal_room.judge.failures.reading import diagnoses_of
from rehearsal_room.judge.verdicts.opener import judge_opener


@click.command("run", cls=SectionedCommand, usual=USUAL)
@run_flags
def run_command(
    config: Path | None,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Run episodes and log them.

    \b
        rehearse run shop_support                         (the oracle, once per task)
        rehearse run shop_support -m MODEL --base-url http://localhost:8000/v1
        rehearse run shop_support --base-url URL          (the one model that it lists)
        rehearse run -o runs/x --resume                   (continue after an interruption)
        rehearse run --from runs/x/e000003@5 -g 16        (from the state after five turns)

    The exit status is 1 when more than a tenth of the episodes failed because the model could not
    answer, or when the model server went away: --resume goes on with them.
    """
    settings = settings_of(config, output, resume, flags)
    if output is None:
        output = fresh_folder(settings)
    if dry_run:
        print_settings(settings)
        return
    folder = output
    outage: ModelOutageError | None = None
    try:
        report = play_run(settings, folder, resume=resume)
    except ModelOutageError as exc:
        if not (folder / LOG_NAME).exists():  # it went away before the first episode
            raise
        outage, report = exc, _report(folder, settings)
    write_report(output, report)
    console = console_of(json_file)
    console.print(f"run folder {output}", highlight=False)
    render_run_report(report, console)
    write_json(report, json_file)
    if outage is not None:
        stop_for_outage(outage, resumed_run(folder))
    if report.lacks_model:
        sys.exit(1)


def play_run(settings: Settings, folder: Path, *, resume: bool, progress: bool = True) -> RunReport:
    """Run the episodes of the settings into a folder; returns their report. Raises
    ModelOutageError where the model server went away."""
    with continued_by(lambda: resumed_run(folder)):
        launch(
            settings,
            folder,
            resume=resume,
            open_judge=judge_opener(settings),
            local_policy=local_policy,
            progress=progress,
        )
    return _report(folder, settings)


def print_settings(settings: Settings) -> None:
    """Print the settings, if a run of them could begin. Raises what `planned` raises."""
    parse_history(settings.history)
    if settings.bus.url:
        broker_of(settings.bus)
    read_chaos(settings)
    tasks, plans = planned(settings)
    click.echo(described(settings, tasks).decode(), nl=False)
    click.echo(f"# {plural(len(plans), 'episode')} of {plural(len(tasks), 'task')}")


def _report(folder: Path, settings: Settings) -> RunReport:
    # Imported when the run is over: its libraries take a third of a second.
    from rehearsal_room.judge.statistics.run_statistics import statistics_of

    prices = read_prices(Path(settings.model.prices)) if settings.model.prices else None
    with open_reader(folder) as reader:
        steps = settings.limits.max_steps
        return read_report(
            reader,
            partial(statistics_of, unit=settings.unit),
            max_steps=steps,
            prices=prices,
            diagnoses=diagnoses_of(folder),  # a run that is resumed may have episodes without
        )
