"""The commands `worlds list` and `worlds show`: the catalogue."""

from typing import Any

import click
from rich.table import Table

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.options import JSON, console_of, pool_flags, write_json
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.reports.world_view import WorldReport, render_world, world_report
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import Settings, resolve
from rehearsal_room.harness.setup.run_trust import isolated_unless_own
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.scenarios.catalogue import catalogue_entries
from rehearsal_room.scenarios.format import Scenario

_WIDE = 120  # columns of a terminal in which a description needs few lines


@click.command("list")
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


@click.command("show", cls=SectionedCommand)
@click.argument("name")
@pool_flags
@JSON
def show_command(name: str, json_file: str | None, **flags: Any) -> None:
    """Show a world: its tables, tools, rules and tasks.

    The code of a world that is neither bundled nor in $REHEARSE_WORLDS runs in a sandbox.
    """
    settings = isolated_unless_own(resolve(None, flags), [name])
    report: WorldReport = run(_world_report, settings, world_source(settings.worlds).find(name))
    render_world(report, console_of(json_file))
    write_json(report, json_file)


async def _world_report(settings: Settings, scenario: Scenario) -> WorldReport:
    async with pool_of(settings) as pool:
        return world_report(await pool.host(scenario))
