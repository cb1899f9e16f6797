"""The verbs that look back at runs: show, replay, export, watch."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from harness.bus.mqtt_bus import MqttBus
from harness.bus.mqtt_runs import status_of
from harness.bus.mqtt_settings import MqttSettings
from harness.commands.context import CommandContext
from harness.commands.logged_run import rewards_of, run_settings, scenario_finder
from harness.commands.options import JSON, console_of, write_json
from harness.core.events import Ending, Label
from harness.log.reader import open_reader
from harness.replay.report import render_replay, render_what_if
from harness.replay.run import ReplayReport, WhatIfReport, what_if
from harness.replay.run import replay as replay_log
from harness.reports.episode_view import render_episode, render_run
from harness.reports.export import export as write_export
from harness.reports.live_view import watch as watch_run
from harness.rollout.launch import pool_of
from harness.rollout.process import run
from harness.settings.run import Settings
from scenarios.catalogue import find
from scenarios.format import Scenario

_RUN = click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))


@click.command("show")
@_RUN
@click.argument("episode", required=False)
def show_command(folder: Path, episode: str | None) -> None:
    """Show a run, or one episode of it, turn by turn."""
    console = Console()
    with open_reader(folder) as reader:
        if episode is None:
            render_run(reader, console)
        else:
            render_episode(reader.trajectory(episode), console)


@click.command("replay")
@_RUN
@click.option("--world", type=click.Path(path_type=Path), help="What if: a changed package.")
@JSON
@click.pass_obj
def replay_command(
    context: CommandContext, /, folder: Path, world: Path | None, json_file: str | None
) -> None:
    """Execute every call again and compare; ends with 1 when something diverged."""
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
            return await replay_log(reader, pool, scenario_finder(folder))


async def _what_if(context: CommandContext, folder: Path, changed: Scenario) -> WhatIfReport:
    with open_reader(folder) as reader:
        async with pool_of(run_settings(folder)) as pool:
            await pool.host(changed)
            open_judge = context.judge_opener(Settings(rewards=rewards_of(folder)))
            assert open_judge is not None
            async with open_judge(pool, [changed], folder, 0.0) as judge:
                return await what_if(reader, pool, changed, judge.verdict)


@click.command("export")
@_RUN
@click.option("--to", type=click.Choice(["jsonl", "parquet", "sft"]), default="jsonl")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--dumps", is_flag=True, help="Add the final state of every table.")
@click.option("--label", "labels", multiple=True, type=click.Choice([str(x) for x in Label]))
@click.option("--ending", "endings", multiple=True, type=click.Choice([str(x) for x in Ending]))
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
@click.option("--bus", required=True, metavar="URL", help="mqtt[s]://user@host:port")
@click.option("--events", is_flag=True, help="A line for each event.")
def watch_command(name: str | None, bus: str, events: bool) -> None:
    """Follow a run over a broker, from its beginning, until it ends."""
    run(_watch, name, MqttSettings(url=bus), events)


async def _watch(name: str | None, settings: MqttSettings, events: bool) -> None:
    if name is None:
        name = (await status_of(settings)).run
        click.echo(f"watching {name}", err=True)
    async with MqttBus(settings, name) as bus, bus.subscribe() as follower:
        await watch_run(follower, Console(), events=events, status=lambda: follower.status)
