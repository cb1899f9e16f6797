"""The verbs about worlds: scenarios list and show, import, serve."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import click
import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from envpool.core.errors import PoolError
from envpool.server.api import NewWorld
from envpool.server.leases import Leases
from envpool.server.settings import ServeSettings
from envpool.server.stdio import serve_stdio
from harness.commands.options import JSON, console_of, pool_flags, write_json
from harness.core.errors import SettingsError
from harness.reports.world_view import WorldReport, render_world, world_report
from harness.rollout.launch import finder, pool_of
from harness.rollout.process import allow_many_files, run
from harness.settings.run import Settings, resolve
from scenarios.awm.folder import CLOCK
from scenarios.awm.importing import ImportReport, import_awm
from scenarios.catalogue import catalogue_entries
from scenarios.format import Scenario, Seeding


@click.group("scenarios")
def scenarios_group() -> None:
    """The catalogue of worlds and their quality gate."""


@scenarios_group.command("list")
@JSON
def list_command(json_file: str | None) -> None:
    """List the bundled worlds and the imported ones."""
    table = Table("name", "title", "tasks", "description", box=None, pad_edge=False)
    rows: list[dict[str, Any]] = []
    for one in catalogue_entries():
        if one.scenario is None:
            table.add_row(one.name, "", "", f"broken: {one.fault}")
            rows.append({"name": one.name, "fault": one.fault})
            continue
        tasks = len(one.scenario.tasks)
        table.add_row(one.name, one.scenario.title, str(tasks), one.scenario.description)
        rows.append({"name": one.name, "title": one.scenario.title, "tasks": tasks})
    console_of(json_file).print(table)
    write_json(rows, json_file)


@scenarios_group.command("show")
@click.argument("name")
@pool_flags
@JSON
def show_scenario_command(name: str, json_file: str | None, **flags: Any) -> None:
    """Show a world: its tables, tools, rules and tasks."""
    settings = resolve(None, flags)
    about: WorldReport = run(_about, settings, finder(settings)(name))
    render_world(about, console_of(json_file))
    write_json(about, json_file)


async def _about(settings: Settings, scenario: Scenario) -> WorldReport:
    async with pool_of(settings) as pool:
        return world_report(await pool.host(scenario))


# Import -----------------------------------------------------------------------------------------


@click.group("import")
def import_group() -> None:
    """Make packages of worlds that come from elsewhere."""


@import_group.command("awm")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: worlds/.")
@click.option("--seeding", type=click.Choice(["awm", "openenv", "strict"]), default="awm")
@click.option("--clock", default=CLOCK, help="The worlds' time, ISO 8601 in UTC.")
@click.option("--examine/--no-examine", default=True, help="Host each before it is written.")
@JSON
def import_awm_command(
    folder: Path,
    names: Sequence[str],
    output: Path | None,
    seeding: Any,
    clock: str,
    examine: bool,
    json_file: str | None,
) -> None:
    """Import scenarios of AgentWorldModel-1K from a folder of its jsonl files.

    Ends with 1 when one of them was refused; the others are imported.
    """
    out = output or Path(os.environ.get("REHEARSE_WORLDS") or "worlds")
    console = console_of(json_file)
    try:
        report: ImportReport = run(_import, folder, out, names or None, seeding, clock, examine)
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
    """Reading and writing go on in a thread; hosting, in workers, is asked for from there."""
    async with pool_of(Settings()) as pool:
        if examine:
            await pool.start()

        async def hosted(scenario: Scenario) -> str | None:
            try:
                await pool.host(scenario)
            except PoolError as exc:
                return str(exc)
            pool.drop(scenario)
            return None

        def work() -> ImportReport:
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("importing", total=None)
                return import_awm(
                    folder,
                    out,
                    names=names,
                    seeding=seeding,
                    clock=clock,
                    examine=(lambda one: anyio.from_thread.run(hosted, one)) if examine else None,
                    progress=lambda done, count, name: bar.update(
                        task, completed=done, total=count, description=name
                    ),
                )

        return await anyio.to_thread.run_sync(work)


def _render_import(report: ImportReport, out: Path, console: Console) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    tasks = sum(one.tasks for one in report.written)
    say(f"worlds written to {out}: {len(report.written)}, with {tasks} tasks")
    missing = (("sql", report.tasks_without_sql), ("code", report.tasks_without_code))
    for kind, count in missing:
        if count:
            say(f"{count} tasks have no verifier of kind {kind}")
    for one in report.duplicates:
        task = "" if one.task is None else f" task {one.task}"
        lines = ", ".join(map(str, one.lines))
        say(f"duplicate {one.scenario}{task}: {one.file} lines {lines}; line {one.taken} counts")
    for refusal in report.refused:
        line = "" if refusal.line is None else f" line {refusal.line}:"
        name = refusal.scenario or "a scenario that is not named"
        say(f"refused {name}: {refusal.file}:{line} {refusal.reason}")


# Serve ------------------------------------------------------------------------------------------


@click.command("serve")
@click.argument("names", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--http", metavar="HOST:PORT", help="Default: 127.0.0.1:8765.")
@click.option("--stdio", is_flag=True, help="One world on standard input and output.")
@click.option("--task", help="With --stdio: the task that the world is leased for.")
@click.option("--token", envvar="REHEARSE_TOKEN", default="", help="Clients must present it.")
@click.option("--allow-host", multiple=True, help="A name under which clients may come.")
@click.option("--idle", type=float, help="Seconds after which an idle world is given back.")
@click.option("--max-worlds", type=int, help="Live at once.")
@click.option("--worlds-per-client", type=int, help="Live at once, of one address.")
@click.option("--calls-per-client", type=int, help="In flight at once, of one address.")
@pool_flags
def serve_command(
    names: Sequence[str],
    http: str | None,
    stdio: bool,
    task: str | None,
    token: str,
    allow_host: Sequence[str],
    idle: float | None,
    max_worlds: int | None,
    worlds_per_client: int | None,
    calls_per_client: int | None,
    **flags: Any,
) -> None:
    """Serve worlds over MCP: each lease has an endpoint of its own."""
    host, port = address(http)
    given = {
        "host": host,
        "port": port,
        "token": token,
        "allow_hosts": tuple(allow_host),
        "idle_s": idle,
        "max_worlds": max_worlds,
        "worlds_per_client": worlds_per_client,
        "calls_per_client": calls_per_client,
    }
    try:
        settings = msgspec.convert(
            {name: value for name, value in given.items() if value is not None}, ServeSettings
        )
    except ValueError as exc:
        raise SettingsError(str(exc)) from exc
    if stdio and len(names) != 1:
        raise SettingsError("--stdio: one world is served, so name one scenario")
    allow_many_files(settings.max_worlds)
    run(_serve, resolve(None, flags), settings, names, task, stdio)


async def _serve(
    settings: Settings,
    serving: ServeSettings,
    names: Sequence[str],
    task: str | None,
    stdio: bool,
) -> None:
    find = finder(settings)
    scenarios = [find(name) for name in names]
    async with pool_of(settings) as pool:
        if any(map(pool.isolates, scenarios)):
            await pool.start()
        async with Leases(pool, scenarios, serving) as leases:
            if stdio:
                await serve_stdio(leases, NewWorld(scenarios[0].name, task))
            else:
                await _server().serve(leases, _told)


def _told(url: str) -> None:
    click.echo(f"serving on {url}", err=True)


def _server() -> Any:
    try:
        return import_module("envpool.server.serve")
    except ModuleNotFoundError as exc:
        raise SettingsError(
            f"serve: the package {exc.name} is missing: pip install 'rehearsal[serve]'"
        ) from exc


def address(text: str | None) -> tuple[str | None, int | None]:
    """Host and port of `--http`. Raises SettingsError."""
    if text is None:
        return None, None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingsError(f"--http: {text!r} is no HOST:PORT")
    return host, int(port)
