"""A scenario on a terminal, as `rehearse worlds show` prints it: tables, tools, rules and tasks."""

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.core.short_text import one_line

_LONGEST = 120  # characters of a tool's description


class TaskSummary(msgspec.Struct, frozen=True):
    """A task, without its solution."""

    id: str
    difficulty: str
    kind: str
    instruction: str


class WorldReport(msgspec.Struct, frozen=True):
    """The result of `rehearse worlds show`, as `--json` writes it."""

    name: str
    title: str
    version: str
    description: str
    clock: str
    user: User
    rules: str  # Markdown; empty: no rules
    tables: dict[str, int]  # rows
    tools: tuple[ToolSpec, ...]
    tasks: tuple[TaskSummary, ...]


def world_report(world: States) -> WorldReport:
    """The report on a hosted scenario."""
    scenario = world.scenario
    rows = world.dump(world.template.overlay())
    return WorldReport(
        name=scenario.name,
        title=scenario.title,
        version=scenario.version,
        description=scenario.description,
        clock=scenario.clock,
        user=scenario.user,
        rules=scenario.rules,
        tables={table: len(found) for table, found in rows.items()},
        tools=world.tools,
        tasks=tuple(
            TaskSummary(task.id, task.difficulty, task.kind, task.instruction)
            for task in scenario.tasks
        ),
    )


def render_world(report: WorldReport, console: Console) -> None:
    """Print the report; of each tool the beginning of its description."""
    console.print(Text(_line(f"{report.title} {report.version} ({report.name})"), "bold"))
    console.print(Text(printable(report.description)))
    user = report.user
    console.print(Text(_line(f"clock {report.clock}, user {user.name} ({user.role})"), "dim"))
    tables = ", ".join(f"{name} {count:,}" for name, count in report.tables.items())
    console.print(
        Text(f"\n{len(report.tables)} tables, {sum(report.tables.values()):,} rows", "bold")
    )
    console.print(Text(_line(tables)))
    console.print(Text(f"\n{len(report.tools)} tools", "bold"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for tool in report.tools:
        description = one_line(tool.description, _LONGEST)
        grid.add_row(Text(_line(tool.name), "cyan"), Text(_line(description)))
    console.print(grid)
    if report.rules:
        console.print(Text("\nrules", "bold"))
        console.print(Text(printable(report.rules)))
    console.print(Text(f"\n{len(report.tasks)} tasks", "bold"))
    for task in report.tasks:
        console.print(
            Text.assemble((_line(task.id), "cyan"), _line(f" {task.difficulty}, {task.kind}"))
        )
        console.print(Text(printable(f"  {task.instruction}")))


def _line(text: str) -> str:
    return printable(text, one_line=True)
