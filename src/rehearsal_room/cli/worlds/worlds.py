"""The commands about worlds: `scenarios list` and `show`, `import`, `serve`."""

import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import click
from rich.console import Console
from rich.table import Table

from rehearsal_room.cli.core.context import CommandContext
from rehearsal_room.cli.core.flags import SectionedCommand, flags_of, select_flags, settings_from
from rehearsal_room.cli.core.options import JSON, console_of, judge_flags, pool_flags, write_json
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.talks import is_served
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.settings import ServeSettings
from rehearsal_room.envpool.server.stdio import serve_stdio
from rehearsal_room.envpool.wires.served import ServedWires
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.reports.world_view import WorldReport, render_world, world_report
from rehearsal_room.harness.rollout.process import raise_file_limit, run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.serving.world_episodes import ServedEpisodes
from rehearsal_room.harness.settings.judge import asks_models
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.harness.users.left_out import report_left_out
from rehearsal_room.scenarios.awm.folder import CLOCK
from rehearsal_room.scenarios.awm.importing import ImportReport, import_awm
from rehearsal_room.scenarios.catalogue import catalogue_entries
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario, Seeding

_WIDE = 120  # columns of a terminal in which a description needs few lines


@click.group("scenarios")
def scenarios_group() -> None:
    """The catalogue of worlds and their quality gate."""


@scenarios_group.command("list")
@JSON
def list_command(json_file: str | None) -> None:
    """List the bundled worlds and the imported ones."""
    console = console_of(json_file)
    is_wide = console.width >= _WIDE
    columns = ("name", "title", "tasks", *(("description",) if is_wide else ()))
    table = Table(*columns, box=None, pad_edge=False)
    rows: list[dict[str, Any]] = []
    for one in catalogue_entries():
        if one.scenario is None:
            fault = f"broken: {one.fault}"
            cells = (one.name, "", "", fault) if is_wide else (one.name, fault, "")
            table.add_row(*map(_cell, cells))
            rows.append({"name": one.name, "fault": one.fault})
            continue
        tasks = len(one.scenario.tasks)
        cells = (one.name, one.scenario.title, str(tasks), one.scenario.description)
        table.add_row(*map(_cell, cells[: len(columns)]))
        rows.append({"name": one.name, "title": one.scenario.title, "tasks": tasks})
    console.print(table)
    write_json(rows, json_file)


def _cell(text: str) -> str:
    """The text on one line. The Terminal would escape it, too, but after the columns got their
    widths."""
    return printable(" ".join(text.split()), one_line=True)


@scenarios_group.command("show", cls=SectionedCommand)
@click.argument("name")
@pool_flags
@JSON
def show_scenario_command(name: str, json_file: str | None, **flags: Any) -> None:
    """Show a world: its tables, tools, rules and tasks."""
    settings = resolve(None, flags)
    report: WorldReport = run(_world_report, settings, world_source(settings.worlds).find(name))
    render_world(report, console_of(json_file))
    write_json(report, json_file)


async def _world_report(settings: Settings, scenario: Scenario) -> WorldReport:
    async with pool_of(settings) as pool:
        return world_report(await pool.host(scenario))


# Import -----------------------------------------------------------------------------------------


@click.group("import")
def import_group() -> None:
    """Make packages of worlds, or runs, from other sources."""


@import_group.command("awm")
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


# Serve ------------------------------------------------------------------------------------------


@click.command("serve", cls=SectionedCommand)
@click.argument("names", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--http", metavar="HOST:PORT", help="Address to listen on (default: 127.0.0.1:8765).")
@click.option("--stdio", is_flag=True, help="Serve one world on standard input and output instead.")
@click.option(
    "--task", metavar="ID", help="Task that the world of --stdio is leased for (default: none)."
)
@flags_of(ServeSettings)
@judge_flags
@pool_flags
@click.pass_obj
def serve_command(
    context: CommandContext,
    /,
    names: Sequence[str],
    http: str | None,
    stdio: bool,
    task: str | None,
    **flags: Any,
) -> None:
    """Serve worlds: over MCP, OpenEnv, NeMo Gym's contract and ORS.

    \b
        http://HOST:PORT/worlds            leases; each has an MCP endpoint
        http://HOST:PORT/openenv/SCENARIO  OpenEnv
        http://HOST:PORT/gym/SCENARIO      NeMo Gym (rows: rehearse export --to gym)
        http://HOST:PORT/ors               ORS
    """
    if stdio and len(names) != 1:
        raise SettingsError(f"--stdio: one world is served, so name one scenario, not {len(names)}")
    host, port = address(http)
    serving = settings_from(ServeSettings, {"host": host, "port": port, **flags})
    settings = resolve(None, select_flags(Settings, flags))
    open_judge = context.judge_opener(settings)
    raise_file_limit(max(serving.max_worlds, serving.max_connections + 256))
    run(_serve, settings, serving, names, task, stdio, open_judge)


async def _serve(
    settings: Settings,
    serving: ServeSettings,
    names: Sequence[str],
    task: str | None,
    stdio: bool,
    open_judge: OpenJudge | None,
) -> None:
    find = world_source(settings.worlds).find
    scenarios = [find(name) for name in names]
    unserved = sum(not is_served(one) for scenario in scenarios for one in scenario.tasks)
    report_left_out(unserved, "their users are not automata, and a server plays no others")
    async with pool_of(settings) as pool:
        pool.announce(scenarios)
        if any(map(pool.isolates, scenarios)):
            await pool.start()
        if models := asks_models(settings.judge.mode):
            await pool.host_all(scenarios)
        async with AsyncExitStack() as stack:
            leases = await stack.enter_async_context(Leases(pool, scenarios, serving))
            if stdio:
                await serve_stdio(leases, NewWorld(scenarios[0].name, task))
                return
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="rehearse-serve-")))
            judged = ServedEpisodes(
                pool, open_judge, scenarios, folder=folder, one_by_one=not models
            )
            episodes = await stack.enter_async_context(judged)
            wires = await stack.enter_async_context(ServedWires(leases, episodes))
            await _server().serve(leases, _report_url, wires)


def _report_url(url: str) -> None:
    click.echo(f"serving on {url}", err=True)


def _server() -> Any:
    try:
        return import_module("rehearsal_room.envpool.server.serve")
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("serve", exc, "serve")) from exc


def address(text: str | None) -> tuple[str | None, int | None]:
    """Host and port of `--http`; None: not given. Raises SettingsError."""
    if text is None:
        return None, None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingsError(f"--http: {text!r} is not HOST:PORT, for example 127.0.0.1:8765")
    return host, int(port)
