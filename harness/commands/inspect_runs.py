"""The commands that inspect finished runs: `show`, `replay`, `export`, `watch`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from harness.bus.mqtt_settings import MqttSettings
from harness.commands.context import CommandContext
from harness.commands.logged_run import (
    found_scenarios,
    log_folder,
    rewards_of,
    run_settings,
    scenario_finder,
)
from harness.commands.options import JSON, console_of, write_json
from harness.core.errors import SettingsError
from harness.core.events import Ending, Label
from harness.core.terminal import Terminal
from harness.log.reader import open_reader
from harness.replay.report import render_replay, render_what_if
from harness.replay.run import ReplayReport, WhatIfReport, what_if
from harness.replay.run import replay as replay_log
from harness.reports.episode_view import render_episode
from harness.reports.export import export as write_export
from harness.reports.live_view import watch as watch_run
from harness.reports.run_view import ENDINGS, LABELS, SORTS, render_run
from harness.rollout.launch import pool_of
from harness.rollout.process import run
from harness.rollout.progress_display import ProgressDisplay
from harness.settings.judge import JudgeSettings
from harness.settings.run import Settings
from scenarios.catalogue import find
from scenarios.format import Scenario

_RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
_LABELS = click.Choice([str(label) for label in Label])
_ENDINGS = click.Choice([str(ending) for ending in Ending])


@click.command("show")
@_RUN
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
def show_command(folder: Path, episode: str | None, full: bool, **selection: Any) -> None:
    """Show a run, or one episode of it, turn by turn.

    RUN is the folder of a run, or of a training run, whose rollouts are shown.

    \b
        rehearse show runs/x                              (failed tasks first)
        rehearse show runs/x --label agent_error --sort steps
        rehearse show runs/x e000003                      (one episode)
    """
    console = Terminal()
    with open_reader(log_folder(folder)) as reader:
        if episode is None:
            render_run(reader, console, full=full, **selection)
            return
        named = [f"--{name}" for name, value in selection.items() if value]
        if named:
            raise SettingsError(f"{' '.join(named)}: for runs, not for one episode ({episode})")
        render_episode(reader.trajectory(episode), console, full=full)


@click.command("replay")
@_RUN
@click.option(
    "--world",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Changed package of a scenario: show which results, labels and rewards it would change "
    "(default: the packages of the run).",
)
@JSON
@click.pass_obj
def replay_command(
    context: CommandContext, /, folder: Path, world: Path | None, json_file: str | None
) -> None:
    """Execute every tool call of a run again and compare the results.

    The exit status is 1 when something diverged.
    """
    console = console_of(json_file)
    if world is not None:
        changes: WhatIfReport = run(_what_if, context, folder, find(str(world)))
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
        async with pool_of(run_settings(folder)) as pool:
            with ProgressDisplay("episodes", total=len(reader.episodes())) as display:
                find_package = scenario_finder(folder)
                pool.announce(found_scenarios(reader, find_package))
                return await replay_log(reader, pool, find_package, progress=display.show)


async def _what_if(context: CommandContext, folder: Path, changed: Scenario) -> WhatIfReport:
    with open_reader(folder) as reader:
        async with pool_of(run_settings(folder)) as pool:
            await pool.host(changed)
            judging = Settings(judge=JudgeSettings(rewards=rewards_of(folder)))
            open_judge = context.judge_opener(judging)
            assert open_judge is not None
            async with open_judge(
                pool=pool, scenarios=[changed], folder=folder, spent=0.0
            ) as judge:
                with ProgressDisplay("episodes", total=len(reader.episodes())) as display:
                    return await what_if(
                        reader, pool, changed, judge.verdict, progress=display.show
                    )


@click.command("export")
@_RUN
@click.option(
    "--to",
    type=click.Choice(["jsonl", "parquet", "sft"]),
    default="jsonl",
    show_default=True,
    help="Format: JSON lines, Parquet, or chats for supervised training (sft).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write (default: episodes.jsonl, episodes.parquet or chats.jsonl in the run's "
    "folder).",
)
@click.option("--dumps", is_flag=True, help="Add the final content of every table to each episode.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    type=_LABELS,
    help="Label of the episodes that are written; may be repeated (default: completed for sft, "
    "else all).",
)
@click.option(
    "--ending",
    "endings",
    multiple=True,
    type=_ENDINGS,
    help="Ending of the episodes that are written; may be repeated (default: all).",
)
def export_command(
    folder: Path,
    to: Any,
    output: Path | None,
    dumps: bool,
    labels: Sequence[str],
    endings: Sequence[str],
) -> None:
    """Write a run's episodes: JSON lines, Parquet, or chats for supervised training."""
    names = {"jsonl": "episodes.jsonl", "parquet": "episodes.parquet", "sft": "chats.jsonl"}
    path = output or folder / names[to]
    with open_reader(folder) as reader:
        count = write_export(
            reader,
            path,
            to=to,
            dumps=dumps,
            labels=[Label(label) for label in labels] or None,
            endings=[Ending(ending) for ending in endings] or None,
        )
    click.echo(f"{count} episodes in {path}")


@click.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@click.option(
    "--bus",
    required=True,
    metavar="URL",
    help="URL of the MQTT broker on which the run is published: mqtt[s]://user@host:port.",
)
@click.option("--events", is_flag=True, help="Print a line for each event, and no summary.")
def watch_command(name: str | None, bus: str, events: bool) -> None:
    """Follow a run over a broker from its beginning until it ends.

    RUN is the name of the run's folder (default: the run that is on the broker).
    """
    run(_watch, name, MqttSettings(url=bus), events)


async def _watch(name: str | None, settings: MqttSettings, events: bool) -> None:
    mqtt = import_module("harness.bus.mqtt_bus")  # its library takes long to import
    if name is None:
        runs = import_module("harness.bus.mqtt_runs")
        name = (await runs.status_of(settings)).run
        click.echo(f"watching {name}", err=True)
    async with mqtt.MqttBus(settings, name) as bus, bus.subscribe() as follower:
        await watch_run(follower, Terminal(), events=events, status=lambda: follower.status)
