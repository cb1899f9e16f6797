"""The command `worlds check`: the quality gate, on one world or on thousands."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import click
import msgspec
from anyio.from_thread import BlockingPortal

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import JSON, console_of, pool_flags, write_json
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.rollout.allow_list import write_allow_list
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.judge.gate.awm_record import check_record
from rehearsal_room.judge.gate.inputs import is_record, worlds_in
from rehearsal_room.judge.gate.job_pool import CheckOutcome, JobSettings, check_worlds
from rehearsal_room.judge.gate.openenv import openenv_report
from rehearsal_room.judge.gate.package import CheckResult
from rehearsal_room.judge.gate.server_world import check_server
from rehearsal_room.judge.gate.summary import allowed_worlds, gate_report_of, print_report
from rehearsal_room.scenarios.catalogue import folder_of
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario, read_identity


@click.command("check", cls=SectionedCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of worlds that are checked at the same time (default: one for each processor).",
)
@click.option(
    "--allow-list",
    metavar="FILE",
    help="Write the worlds and tasks that passed to this file, for `rehearse run --allow`.",
)
@click.option(
    "--report",
    "report_kind",
    type=click.Choice(["openenv"]),
    help="Write the findings under the check ids of OpenEnv's RFC 008, too.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of --report for one world (.json), or folder with a file for each world "
    "(default: openenv.json, or the folder openenv).",
)
@pool_flags
@JSON
def check_command(
    paths: Sequence[str],
    jobs: int | None,
    allow_list: str | None,
    report_kind: str | None,
    output: Path | None,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Check the quality of worlds. The exit status is 1 when a check fails.

    A PATH is a world's name or folder, or a folder of packages or of AWM's jsonl files.
    """
    if allow_list is not None and not Path(allow_list).absolute().parent.is_dir():
        raise SettingsError(f"--allow-list: {allow_list}: its folder does not exist")
    if output is not None and report_kind is None:
        raise SettingsError("--output: is the file of a report; pass --report openenv, too")
    settings, began = resolve(None, flags), time.monotonic()
    outcomes: list[CheckOutcome] = run(
        _check, settings, paths, jobs or len(os.sched_getaffinity(0))
    )
    total = gate_report_of(outcomes, time.monotonic() - began)
    print_report(outcomes, total, console_of(json_file))
    if allow_list is not None:
        write_allow_list(Path(allow_list), allowed_worlds(outcomes))
    if report_kind is not None:
        _write_reports(outcomes, output)
    write_json(total, json_file)
    if not total.ok:
        sys.exit(1)


def _write_reports(outcomes: Sequence[CheckOutcome], output: Path | None) -> None:
    """Write OpenEnv's report on each world. Raises SettingsError."""
    path = output or Path("openenv.json" if len(outcomes) == 1 else "openenv")
    is_file = path.suffix == ".json"
    if is_file and len(outcomes) != 1:
        raise SettingsError(
            f"--output: {path}: a .json file has the report on one world, and these are"
            f" {len(outcomes)}; name a folder"
        )
    try:
        if not is_file:
            path.mkdir(exist_ok=True)
        for outcome in outcomes:
            data = msgspec.json.format(msgspec.json.encode(openenv_report(outcome)), indent=2)
            write_output(path if is_file else path / f"{outcome.name}.json", data + b"\n")
    except OSError as exc:
        raise SettingsError(f"--output: {path} cannot be written: {exc}") from exc
    click.echo(f"reports under OpenEnv's check ids: {path}", err=True)


async def _check(settings: Settings, paths: Sequence[str], jobs: int) -> list[CheckOutcome]:
    names = list(paths) if settings.worlds.awm else worlds_in(paths)
    job = JobSettings(
        jobs=jobs,
        isolate=settings.worlds.isolate,
        sandbox=settings.worlds.sandbox,
        memory_mb=settings.worlds.worker_memory_mb,
    )
    async with pool_of(settings) as pool:
        if not settings.worlds.awm:
            pool.announce(_identities(names))
        if settings.worlds.awm or any(map(is_record, names)):
            await pool.start()
        async with BlockingPortal() as portal:

            def work() -> list[CheckOutcome]:
                record = partial(portal.call, _record, pool)
                outcomes = []
                with ProgressDisplay("worlds", total=len(names)) as display:
                    for outcome in check_worlds(
                        names, world_source(settings.worlds).find, job, record
                    ):
                        outcomes.append(outcome)
                        display.advance()
                return outcomes

            # When it is interrupted, the processes see the end of their orders and end, too.
            outcomes = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return outcomes


def _identities(names: Sequence[str]) -> list[Scenario]:
    """The packages in our format, without their tasks; a broken one fails its check."""
    found = []
    for folder in (folder_of(name) for name in names if not is_record(name)):
        if folder is not None:
            with suppress(PackageError, OSError):
                found.append(read_identity(folder))
    return found


async def _record(pool: RoutingPool, scenario: Scenario) -> CheckResult:
    if scenario.server is not None:
        return await check_server(scenario, pool)
    try:
        return await check_record(scenario, pool)
    finally:
        pool.drop(scenario)
