"""The verbs that look back at runs: show, replay, judge, export, watch."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from harness.config import Settings, resolve
from harness.errors import LogError
from harness.events import Ending, Label
from harness.export import export as write_export
from harness.launch import pool_of
from harness.log_reader import open_reader
from harness.log_writer import open_log
from harness.mqtt import MqttBus, status_of
from harness.mqtt_settings import MqttSettings
from harness.process import run
from harness.recorder import Recorder
from harness.replay import ReplayReport, WhatIfReport, what_if
from harness.replay import replay as replay_log
from harness.replay_report import render_replay, render_what_if
from harness.show import render_episode, render_run
from harness.verbs.flags import JSON, choice, console_of, write_json
from harness.verbs.judges import Judges
from harness.watch import watch as watch_run
from scenarios.catalogue import find
from scenarios.errors import ScenarioError
from scenarios.foreign import read_foreign
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
    judges: Judges, /, folder: Path, world: Path | None, json_file: str | None
) -> None:
    """Execute every call again and compare; ends with 1 when something diverged."""
    console = console_of(json_file)
    if world is not None:
        changes: WhatIfReport = run(_what_if, judges, folder, find(str(world)))
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
        async with pool_of(_settings(folder)) as pool:
            return await replay_log(reader, pool, _scenario_of(folder))


async def _what_if(judges: Judges, folder: Path, changed: Scenario) -> WhatIfReport:
    with open_reader(folder) as reader:
        async with pool_of(_settings(folder)) as pool:
            await pool.host(changed)
            court = judges.court(pool, [changed], _rewards(folder))
            return await what_if(reader, pool, changed, court.verdict)


def _settings(folder: Path) -> Settings:
    """The run's settings, as far as they matter now; its worlds are made here."""
    began = folder / "run.toml"
    settings = resolve(began, {}) if began.is_file() else Settings()
    return msgspec.structs.replace(settings, pool="")


def _rewards(folder: Path) -> str:
    """The reward profile with which the run was judged."""
    return _settings(folder).rewards


@click.command("judge")
@_RUN
@click.option("--mode", type=click.Choice(["code"]), default="code", help="Which judge.")
@click.option("--rewards", type=choice("rewards"), help="Default: the run's.")
@JSON
@click.pass_obj
def judge_command(
    judges: Judges, /, folder: Path, mode: str, rewards: str | None, json_file: str | None
) -> None:
    """Judge a run again from its log; the new verdicts are appended to it."""
    summary = run(_judge_again, judges, folder, rewards or _rewards(folder))
    judges.tell_summary(summary, console_of(json_file))
    write_json(summary, json_file)


async def _judge_again(judges: Judges, folder: Path, rewards: str) -> Any:
    scenario_of = _scenario_of(folder)
    tally = judges.tally()
    async with AsyncExitStack() as stack:
        with open_reader(folder):
            pass  # a folder without a log is refused, and gets none
        log = await stack.enter_async_context(open_log(folder, resume=True))
        reader = stack.enter_context(open_reader(folder))
        pool = await stack.enter_async_context(pool_of(_settings(folder)))
        worlds = reader.worlds().values()
        scenarios = [scenario_of(world.scenario, world.package) for world in worlds]
        # The findings of foreign scenarios are in the log.
        await pool.host_all(scenario for scenario in scenarios if scenario.foreign is None)
        court = judges.court(pool, scenarios, rewards)
        progress = reader.progress()
        recorder = Recorder(log)
        for trajectory in reader.trajectories():
            if trajectory.ended is None:  # a resumed run does it again
                continue
            judged = await court.verdict(trajectory)
            tally.add(trajectory, judged)
            recorder.open(trajectory.episode, seq=progress[trajectory.episode].next_seq)
            await recorder.record(trajectory.episode, trajectory.attempt, judged)
            recorder.close(trajectory.episode)
        await log.flush()
    return tally.summary()


def _scenario_of(folder: Path) -> Callable[[str, str], Scenario]:
    """Finds the package of a logged world: where it was when the run began, or bundled."""
    mcp = _settings(folder).mcp
    with open_reader(folder) as reader:
        places = {world.package: world.place for world in reader.worlds().values()}

    def scenario_of(name: str, package: str) -> Scenario:
        found = [_found(place, mcp) for place in (places.get(package) or name, name)]
        known = [scenario for scenario in found if scenario is not None and scenario.name == name]
        for scenario in known:
            if scenario.digest == package:
                return scenario
        if not known:
            raise LogError(f"{folder}: the package of scenario {name!r} is no longer where it was")
        raise LogError(
            f"{folder}: scenario {name!r} has changed since the run: its package was {package}, "
            f"and is {known[0].digest} now (replay --world asks what would change)"
        )

    return scenario_of


def _found(place: str, mcp: str) -> Scenario | None:
    try:
        return read_foreign(Path(place), mcp) if mcp else find(place)
    except ScenarioError:
        return None


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
