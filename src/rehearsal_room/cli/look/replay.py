"""The command `replay`: every call of a run again."""

import sys
from pathlib import Path

import click

from rehearsal_room.cli.core.options import JSON, RUN, TRUST_RUN, console_of, write_json
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import (
    found_scenarios,
    hosting_settings,
    rewards_of,
    scenario_finder,
)
from rehearsal_room.harness.replay.report import render_replay, render_what_if
from rehearsal_room.harness.replay.run import ReplayReport, WhatIfReport, what_if
from rehearsal_room.harness.replay.run import replay as replay_log
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario


@click.command("replay")
@RUN
@click.option(
    "--world",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Changed package of a scenario: show which results, labels and rewards it would change "
    "(default: the packages of the run).",
)
@TRUST_RUN
@JSON
def replay_command(folder: Path, world: Path | None, json_file: str | None) -> None:
    """Execute every tool call of a run again and compare the results.

    The exit status is 1 when something diverged.
    """
    console = console_of(json_file)
    if world is not None:
        changes: WhatIfReport = run(_what_if, folder, find(str(world)))
        render_what_if(changes, console)
        write_json(changes, json_file)
        return
    report: ReplayReport = run(_replay, folder)
    render_replay(report, console)
    write_json(report, json_file)
    if report.divergences:
        sys.exit(1)


async def _replay(folder: Path) -> ReplayReport:
    with open_reader(folder) as reader:
        async with pool_of(hosting_settings(folder, starts_servers=True)) as pool:
            with ProgressDisplay("episodes", total=len(reader.episodes())) as display:
                find_package = scenario_finder(folder)
                pool.announce(found_scenarios(reader, find_package))
                return await replay_log(reader, pool, find_package, progress=display.show)


async def _what_if(folder: Path, changed: Scenario) -> WhatIfReport:
    with open_reader(folder) as reader:
        async with pool_of(hosting_settings(folder, starts_servers=True)) as pool:
            await pool.host(changed)
            judging = JudgeSettings(rewards=rewards_of(folder))
            async with open_judge(judging, pool=pool, scenarios=[changed], folder=folder) as judge:
                with ProgressDisplay("episodes", total=len(reader.episodes())) as display:
                    return await what_if(
                        reader, pool, changed, judge.verdict, progress=display.show
                    )
