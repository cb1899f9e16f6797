"""The commands that inspect finished runs: `show`, `replay`, `export`, `watch`."""

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from rehearsal_room.cli.core.context import CommandContext
from rehearsal_room.cli.core.interruption import continued_by, same_command
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.cli.look.spans import CONTENT, log_id, send_spans, write_spans
from rehearsal_room.cli.worlds.task_exports import TASK_FORMATS, export_tasks
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import START, State, Status
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import has_writer
from rehearsal_room.harness.logged_runs.logged_run import (
    found_scenarios,
    is_complete,
    log_folder,
    num_planned,
    rewards_of,
    run_settings,
    scenario_finder,
)
from rehearsal_room.harness.replay.report import render_replay, render_what_if
from rehearsal_room.harness.replay.run import ReplayReport, WhatIfReport, what_if
from rehearsal_room.harness.replay.run import replay as replay_log
from rehearsal_room.harness.reports.episode_view import render_episode
from rehearsal_room.harness.reports.live_view import watch as watch_run
from rehearsal_room.harness.reports.run_view import ENDINGS, LABELS, SORTS, render_run
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.interop.exports.formats import EPISODE_FORMATS, OTLP_NAME
from rehearsal_room.interop.exports.formats import export as write_export
from rehearsal_room.interop.exports.source import rows_with
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario

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
@click.argument("names", nargs=-1, required=True, metavar="RUN|SCENARIO[:TASK]...")
@click.option(
    "--to",
    type=click.Choice([*EPISODE_FORMATS, "otlp", *TASK_FORMATS]),
    default="jsonl",
    show_default=True,
    help="Format: JSON lines, Parquet, chats for supervised training (sft), a log of Inspect AI "
    "(inspect), trajectories of Harbor (atif), traces for the Hugging Face hub (hf-trace), or "
    "OpenTelemetry spans (otlp); of scenarios: tasks for NeMo Gym (gym) or Harbor (harbor).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write, or folder (default: a name of the format, in the run's folder; of tasks: "
    "gym.jsonl or harbor).",
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
@click.option(
    "--license",
    metavar="ID",
    default="",
    help="License that the dataset card names, in the words of the Hugging Face hub (with sft and "
    "hf-trace; default: apache-2.0 for bundled worlds without a model, else other).",
)
@CONTENT
def export_command(
    names: Sequence[str],
    to: Any,
    output: Path | None,
    dumps: bool,
    labels: Sequence[str],
    endings: Sequence[str],
    license: str,
    content: bool,
) -> None:
    """Write a run's episodes for other programs, or the tasks of scenarios.

    \b
        rehearse export runs/x --to parquet               (episodes of a run)
        rehearse export shop_support --to gym             (tasks of worlds)
    """
    if to in TASK_FORMATS:
        export_tasks(names, to, output)
        return
    if len(names) != 1:
        raise SettingsError(f"RUN: --to {to} writes the episodes of one run, not of {len(names)}")
    _check_export(to, dumps=dumps, license=license, content=content)
    folder = Path(names[0])
    chosen_labels = [Label(label) for label in labels] or None
    chosen_endings = [Ending(ending) for ending in endings] or None
    with open_reader(folder) as reader:
        if to == "otlp":
            path = output or folder / OTLP_NAME
            rows = rows_with(reader, labels=chosen_labels, endings=chosen_endings)
            count = write_spans(folder, reader, path, rows, content=content)
        else:
            count, path = write_export(
                *(reader, output),
                to=to,
                dumps=dumps,
                labels=chosen_labels,
                endings=chosen_endings,
                license=license,
            )
    click.echo(f"{count} episodes in {path}")


def _check_export(to: str, *, dumps: bool, license: str, content: bool) -> None:
    """Refuse flags that the format does not use. Raises SettingsError."""
    if content and to != "otlp":
        raise SettingsError(f"--content: is for spans; with --to {to} all texts are written anyway")
    if dumps and to not in ("jsonl", "parquet"):
        raise SettingsError(f"--dumps: is for jsonl and parquet; --to {to} has no final tables")
    if license and to not in ("sft", "hf-trace"):
        raise SettingsError(f"--license: is for dataset cards; --to {to} writes none")


@click.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@click.option(
    "--bus",
    metavar="URL",
    help="URL of the MQTT broker on which the run is published: mqtt[s]://user@host:port "
    "(default: RUN is a folder).",
)
@click.option("--events", is_flag=True, help="Print a line for each event, and no summary.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send the run as OpenTelemetry spans to this collector, for example "
    "http://localhost:4318.",
)
@CONTENT
def watch_command(
    name: str | None, bus: str | None, events: bool, otlp: str | None, content: bool
) -> None:
    """Follow a run from its beginning until it ends: on its log, or over a broker.

    RUN is the run's folder; with --bus its name (default: the run that is on the broker).
    """
    if otlp is not None:
        if events:
            raise SettingsError("--events: prints events, and --otlp prints none; leave one out")
        send_spans(name, bus, otlp, content=content)
        return
    if content:
        raise SettingsError("--content: is for spans; name their collector, too (--otlp URL)")
    if bus is not None:
        with continued_by(partial(same_command, bus)):
            run(_watch_published, name, MqttSettings(url=bus), events)
    elif name is not None:
        with continued_by(same_command):
            run(_watch, log_folder(Path(name)), events)
    else:
        raise SettingsError("RUN: name the folder of a run, or the broker that it is on (--bus)")


async def _watch(folder: Path, events: bool) -> None:
    began = Status(folder.name, "live", log_id(folder), START, episodes=num_planned(folder))
    with open_reader(folder) as reader:
        follower = LogFollower(folder, reader)

        def status() -> Status:
            if has_writer(folder):
                return began
            state: State = "ended" if is_complete(folder, reader) else "lost"
            return msgspec.structs.replace(began, state=state)

        await watch_run(follower, Terminal(), events=events, status=status)


async def _watch_published(name: str | None, settings: MqttSettings, events: bool) -> None:
    mqtt = import_module("rehearsal_room.harness.bus.mqtt_bus")  # its library takes long to import
    if name is None:
        runs = import_module("rehearsal_room.harness.bus.mqtt_runs")
        name = (await runs.status_of(settings)).run
        click.echo(f"watching {name}", err=True)
    async with mqtt.MqttBus(settings, name) as bus, bus.subscribe() as follower:
        await watch_run(follower, Terminal(), events=events, status=lambda: follower.status)
