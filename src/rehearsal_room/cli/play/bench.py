"""The command `bench`: episodes, measured."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.interruption import stop_for_outage
from rehearsal_room.cli.core.local_policy import local_policy
from rehearsal_room.cli.core.options import (
    USUAL,
    console_of,
    run_flags,
    settings_of,
    write_json,
)
from rehearsal_room.cli.play.run import print_settings
from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.errors import ModelOutageError, SettingsError
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.harness.reports.bench import (
    BenchReport,
    bare_cpu_s_in_workers,
    measure,
    with_admission,
    with_policy,
)
from rehearsal_room.harness.reports.bench_view import render_bench, render_sweep
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.settings.policy import MODEL_POLICIES
from rehearsal_room.harness.settings.run import Settings, sweep
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_folder import fresh_folder
from rehearsal_room.judge.verdicts.opener import judge_opener


@click.command("bench", cls=SectionedCommand, usual=(*USUAL, "sweep_text"))
@run_flags
@click.option(
    "--sweep",
    "sweep_text",
    metavar="KEY=A,B,C",
    help="Run one benchmark for each value of a setting, for example concurrency=64,256, "
    "temperature=0,1 or model=a,b.",
)
def bench_command(
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
        report = _bench(settings, output)
        render_bench(report, console)
        write_json(report, json_file)
        if report.lacks_model:
            sys.exit(1)
        return
    name, runs = sweep(settings, sweep_text)
    reports = []
    for value, one in runs:
        folder = None if output is None else output / f"{name}-{value}".replace("/", "-")
        reports.append((value, _bench(one, folder)))
    render_sweep(name, reports, console)
    write_json({"sweep": name, "runs": [{name: v, "bench": r} for v, r in reports]}, json_file)
    if any(report.lacks_model for _, report in reports):
        sys.exit(1)


def _bench(settings: Settings, output: Path | None) -> BenchReport:
    if output is not None:
        report = _measured(settings, output)
        write_atomically(output / "report.json", msgspec.json.format(msgspec.json.encode(report)))
        return report
    with own_folder("bench") as folder:
        return _measured(settings, folder / "bench")


def _measured(settings: Settings, folder: Path) -> BenchReport:
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
            open_judge=judge_opener(settings),
            local_policy=local_policy,
            after=report,
        )
    except ModelOutageError as exc:
        stop_for_outage(exc)
    measured: BenchReport = launched.after
    return with_policy(with_admission(measured, launched.settled), launched.policy)
