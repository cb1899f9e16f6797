"""The command `show`: a run, or one of its episodes, on a terminal."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import PRICES, RUN, UNIT
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import log_folder, run_settings
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.harness.reports.run_view import ENDINGS, LABELS, SORTS, render_run
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.judge.failures.reading import diagnose_one, diagnoses_of


@click.command("show", cls=SectionedCommand)
@RUN
@click.argument("episode", required=False)
@click.option("--label", type=click.Choice(LABELS), help="Show only episodes with this label.")
@click.option(
    "--task",
    metavar="TASK",
    help="Show only episodes of this task: an id, SCENARIO:TASK, or a pattern such as 'refund-*'.",
)
@click.option("--ending", type=click.Choice(ENDINGS), help="Show only episodes that ended so.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="Order of the tasks and episodes (default: failures first).",
)
@click.option(
    "--full", is_flag=True, help="Show every task and episode, and an episode's texts in full."
)
@UNIT
@PRICES
def show_command(
    folder: Path,
    episode: str | None,
    full: bool,
    unit: Unit | None,
    prices: Path | None,
    **selection: Any,
) -> None:
    """Show a run, or one episode of it, turn by turn.

    RUN is the folder of a run, or of a training run, whose rollouts are shown.

    \b
        rehearse show runs/x                              (failed tasks first)
        rehearse show runs/x --label agent_error --sort steps
        rehearse show runs/x e000003                      (one episode)
    """
    # Imported here: its libraries take a third of a second.
    from rehearsal_room.judge.statistics.run_statistics import statistics_of

    console = Terminal()
    logged = log_folder(folder)
    with open_reader(logged) as reader:
        if episode is None:
            known, found = prices_of(logged, prices), diagnoses_of(logged)
            statistics = partial(statistics_of, unit=unit or run_settings(logged).unit)
            render_run(
                *(reader, console),
                full=full,
                prices=known,
                diagnoses=found,
                statistics_of=statistics,
                **selection,
            )
            return
        named = [f"--{name}" for name, value in {**selection, "unit": unit}.items() if value]
        if named:
            raise SettingsError(f"{' '.join(named)}: for runs, not for one episode ({episode})")
        trajectory = reader.trajectory(episode)
        diagnosis = run(diagnose_one, logged, episode)
        render_episode(trajectory, console, full=full, diagnosis=diagnosis)
