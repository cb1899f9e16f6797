"""The command `worlds import awm`: packages of AgentWorldModel-1K."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import click
from rich.console import Console

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.scenarios.awm.folder import CLOCK
from rehearsal_room.scenarios.awm.importing import ImportReport, import_awm
from rehearsal_room.scenarios.format import Scenario, Seeding


@click.command("awm")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the packages (default: REHEARSE_WORLDS of the environment, else worlds).",
)
@flags_of(Settings, only=("seeding",))
@click.option(
    "--clock",
    default=CLOCK,
    show_default=True,
    metavar="TIME",
    help="Time in the worlds, ISO 8601 in UTC.",
)
@click.option(
    "--examine/--no-examine",
    default=True,
    help="Whether each world is hosted once before it is written (default: yes).",
)
@JSON
def import_awm_command(
    folder: Path,
    names: Sequence[str],
    output: Path | None,
    seeding: Seeding | None,
    clock: str,
    examine: bool,
    json_file: str | None,
) -> None:
    """Import scenarios of AgentWorldModel-1K from a folder of its jsonl files.

    The exit status is 1 when a scenario was refused; the others are imported.
    """
    out = output or Path(os.environ.get("REHEARSE_WORLDS") or "worlds")
    console = console_of(json_file)
    options = names or None, seeding or "awm", clock, examine
    try:
        report: ImportReport = run(_import, folder, out, *options)
    except ValueError as exc:
        raise SettingsError(str(exc)) from exc
    _render_import(report, out, console)
    write_json(report, json_file)
    if report.refused:
        sys.exit(1)


async def _import(
    folder: Path,
    out: Path,
    names: Sequence[str] | None,
    seeding: Seeding,
    clock: str,
    examine: bool,
) -> ImportReport:
    """Import in a thread, which reads and writes files and has each world hosted in a worker."""
    async with pool_of(Settings()) as pool:
        if examine:
            await pool.start()

        async def host(scenario: Scenario) -> str | None:
            try:
                await pool.host(scenario)
            except PoolError as exc:
                return str(exc)
            pool.drop(scenario)
            return None

        def work() -> ImportReport:
            with ProgressDisplay("scenarios") as display:
                return import_awm(
                    folder,
                    out,
                    names=names,
                    seeding=seeding,
                    clock=clock,
                    examine=(lambda one: anyio.from_thread.run(host, one)) if examine else None,
                    progress=display.show,
                )

        return await anyio.to_thread.run_sync(work)


def _render_import(report: ImportReport, out: Path, console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    tasks = sum(one.tasks for one in report.written)
    line(f"worlds written to {out}: {len(report.written)}, with {tasks} tasks")
    missing = (("sql", report.tasks_without_sql), ("code", report.tasks_without_code))
    for kind, count in missing:
        if count:
            line(f"{count} tasks have no verifier of kind {kind}")
    for one in report.duplicates:
        task = "" if one.task is None else f" task {one.task}"
        lines = ", ".join(map(str, one.lines))
        line(f"duplicate {one.scenario}{task}: {one.file} lines {lines}; line {one.taken} counts")
    for refusal in report.refused:
        number = "" if refusal.line is None else f" line {refusal.line}:"
        name = refusal.scenario or "a scenario without a name"
        line(f"refused {name}: {refusal.file}:{number} {refusal.reason}")
