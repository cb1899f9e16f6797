"""The verbs about worlds: scenarios list, show and check, import, serve."""

import sys
from collections.abc import Sequence
from contextlib import closing

import click
from rich.table import Table

from envpool.world import World
from harness.errors import SettingsError
from harness.show_world import render_world, world_report
from harness.verbs.flags import JSON, console_of, write_json
from judge.gate import check_scenario
from judge.gate_report import merged, render
from scenarios.catalogue import bundled_names, find
from scenarios.errors import PackageError


@click.group("scenarios")
def scenarios_group() -> None:
    """The catalogue of worlds and their quality gate."""


@scenarios_group.command("list")
@JSON
def list_command(json_file: str | None) -> None:
    """List the bundled worlds."""
    table = Table("name", "title", "tasks", "description", box=None, pad_edge=False)
    rows = []
    for name in bundled_names():
        scenario = find(name)
        tasks = len(scenario.tasks)
        table.add_row(name, scenario.title, str(tasks), scenario.description)
        rows.append({"name": name, "title": scenario.title, "tasks": tasks})
    console_of(json_file).print(table)
    write_json(rows, json_file)


@scenarios_group.command("show")
@click.argument("name")
@JSON
def show_scenario_command(name: str, json_file: str | None) -> None:
    """Show a world: its tables, tools, rules and tasks."""
    with closing(World(find(name))) as world:
        about = world_report(world)
    render_world(about, console_of(json_file))
    write_json(about, json_file)


@scenarios_group.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@JSON
def check_command(paths: Sequence[str], json_file: str | None) -> None:
    """Prove worlds: the quality gate. Ends with 1 when a check fails."""
    reports = []
    for path in paths:
        try:
            reports.append(check_scenario(path))
        except PackageError as exc:
            raise SettingsError(str(exc)) from exc
    render(reports, console_of(json_file))
    total = merged(reports)
    write_json(total, json_file)
    if not total.ok:
        sys.exit(1)
