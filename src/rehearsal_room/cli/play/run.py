"""The commands that run episodes: `run`, `bench`."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec

from rehearsal_room.cli.core.context import CommandContext
from rehearsal_room.cli.core.flags import SectionedCommand
from rehearsal_room.cli.core.interruption import continued_by, resumed_run, stop_for_outage
from rehearsal_room.cli.core.options import console_of, run_flags, settings_of, write_json
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.bus.mqtt_settings import broker_of
from rehearsal_room.harness.chaos.settings import read_chaos
from rehearsal_room.harness.core.errors import ModelOutageError, SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, write_atomically
from rehearsal_room.harness.reports.bench import (
    BenchReport,
    bare_cpu_s_in_workers,
    measure,
    with_admission,
    with_policy,
)
from rehearsal_room.harness.reports.bench_view import render_bench, render_sweep
from rehearsal_room.harness.reports.summary import (
    RunReport,
    StatisticsOf,
    read_report,
    render_run_report,
    write_report,
)
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.settings.policy import MODEL_POLICIES
from rehearsal_room.harness.settings.run import Settings, sweep
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_folder import described, fresh_folder


@click.command("run", cls=SectionedCommand)
@run_flags
@click.pass_obj
def run_command(
    context: CommandContext,
    /,
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
        rehearse run shop_support -p openai -m MODEL --base-url http://localhost:8000/v1
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
        report = play_run(context, settings, folder, resume=resume)
    except ModelOutageError as exc:
        if not (folder / LOG_NAME).exists():  # it went away before the first episode
            raise
        outage, report = exc, _report(folder, context.statistics)
    write_report(output, report)
    console = console_of(json_file)
    console.print(f"run folder {output}", highlight=False)
    render_run_report(report, console)
    write_json(report, json_file)
    if outage is not None:
        stop_for_outage(outage, resumed_run(folder))
    if report.lacks_model:
        sys.exit(1)


def play_run(
    context: CommandContext,
    settings: Settings,
    folder: Path,
    *,
    resume: bool,
    progress: bool = True,
) -> RunReport:
    """Run the episodes of the settings into a folder; returns their report. Raises
    ModelOutageError where the model server went away."""
    with continued_by(lambda: resumed_run(folder)):
        launch(
            settings,
            folder,
            resume=resume,
            open_judge=context.judge_opener(settings),
            local_policy=context.local_policy,
            progress=progress,
        )
    return _report(folder, context.statistics)


@click.command("bench", cls=SectionedCommand)
@run_flags
@click.option(
    "--sweep",
    "sweep_text",
    metavar="KEY=A,B,C",
    help="Run one benchmark for each value of a setting, for example concurrency=64,256, "
    "temperature=0,1 or model=a,b.",
)
@click.pass_obj
def bench_command(
    context: CommandContext,
    /,
    config: Path | None,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    json_file: str | None,
    sweep_text: str | None,
    **flags: Any,
) -> None:
    """Run episodes and measure them: speed, memory, latency.

    The run folder is kept when --output names one or a model acts in the episodes; otherwise only
    the report is left. The exit status is 1 when more than a tenth of the episodes failed because
    the model could not answer, or when the model server went away.
    """
    if resume:
        raise SettingsError("--resume: a benchmark is measured in one go and cannot be resumed")
    settings = settings_of(config, output, resume, flags)
    if dry_run:
        print_settings(settings)
        return
    if output is None and settings.policy.name in MODEL_POLICIES:
        output = fresh_folder(settings)  # what a model did is worth keeping
    console = console_of(json_file)
    if output is not None:
        console.print(f"run folder {output}", highlight=False)
    if sweep_text is None:
        report = _bench(context, settings, output)
        render_bench(report, console)
        write_json(report, json_file)
        if report.lacks_model:
            sys.exit(1)
        return
    name, runs = sweep(settings, sweep_text)
    reports = []
    for value, one in runs:
        folder = None if output is None else output / f"{name}-{value}".replace("/", "-")
        reports.append((value, _bench(context, one, folder)))
    render_sweep(name, reports, console)
    write_json({"sweep": name, "runs": [{name: v, "bench": r} for v, r in reports]}, json_file)
    if any(report.lacks_model for _, report in reports):
        sys.exit(1)


def _bench(context: CommandContext, settings: Settings, output: Path | None) -> BenchReport:
    if output is not None:
        report = _measured(context, settings, output)
        write_atomically(output / "report.json", msgspec.json.format(msgspec.json.encode(report)))
        return report
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        return _measured(context, settings, Path(folder) / "bench")


def _measured(context: CommandContext, settings: Settings, folder: Path) -> BenchReport:
    tasks, _ = planned(settings)
    scenarios = list({scenario.digest: scenario for scenario, _ in tasks}.values())

    async def report(pool: RoutingPool, meters: Meters) -> BenchReport:
        here = [scenario for scenario in scenarios if not pool.isolates(scenario)]
        return measure(
            folder,
            meters,
            {scenario.name: pool.hosted(scenario) for scenario in here},
            concurrency=settings.number_at_once,
            worker_bare_cpu_s=await bare_cpu_s_in_workers(folder, pool, scenarios),
        )

    try:
        launched = launch(
            settings,
            folder,
            resume=False,
            open_judge=context.judge_opener(settings),
            local_policy=context.local_policy,
            after=report,
        )
    except ModelOutageError as exc:
        stop_for_outage(exc)
    measured: BenchReport = launched.after
    return with_policy(with_admission(measured, launched.settled), launched.policy)


def print_settings(settings: Settings) -> None:
    """Print the settings, if a run of them could begin. Raises what `planned` raises."""
    parse_history(settings.history)
    if settings.bus.url:
        broker_of(settings.bus)
    read_chaos(settings)
    tasks, plans = planned(settings)
    click.echo(described(settings, tasks).decode(), nl=False)
    click.echo(f"# {plural(len(plans), 'episode')} of {plural(len(tasks), 'task')}")


def _report(folder: Path, statistics_of: StatisticsOf) -> RunReport:
    with open_reader(folder) as reader:
        return read_report(reader, statistics_of)
