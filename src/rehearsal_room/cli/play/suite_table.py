"""One table of all suites that were played: as text, JSON and Markdown."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.cli.play.suite_listing import AGENTS
from rehearsal_room.harness.policies.noop import LAZY

_HEAD = ("suite", "version", "score", AGENTS["noop"], AGENTS["oracle"])


class TableRow(msgspec.Struct, frozen=True):
    """One suite. Scores are shares from 0 to 1; null: there is none."""

    suite: str
    version: str = ""  # of the suite's data
    played_by: str = ""
    tasks: int = 0
    unjudged: int = 0
    score: float | None = None  # overall, or the mean of the categories where there is no formula
    floor: float | None = None
    ceiling: float | None = None
    lazy: dict[str, float | None] = {}  # of agents that do no work
    why_not: str = ""  # why it was not played; empty: it was
    trust: tuple[str, ...] = ()  # where a model judged: how far the score can be trusted


class SuiteTable(msgspec.Struct, frozen=True):
    """What `rehearse eval --all-that-runs --json` writes."""

    suites: tuple[TableRow, ...]


def write_table(table: SuiteTable, folder: Path) -> None:
    """Write suites.json and suites.md."""
    folder.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.format(msgspec.json.encode(table), indent=2)
    (folder / "suites.json").write_bytes(data + b"\n")
    (folder / "suites.md").write_text(markdown(table), encoding="utf-8")


def markdown(table: SuiteTable) -> str:
    """The table in Markdown, and below it what a model judged, and what was not played."""
    head, rows = _cells(table)
    lines = [
        f"| {' | '.join(head)} |",
        f"|---|---|{'---:|' * (len(head) - 2)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        *(f"- {line}" for line in _notes(table)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def print_table(table: SuiteTable, console: Console) -> None:
    """Print the table, what a model judged, and what was not played."""
    head, rows = _cells(table)
    shown = Table(box=None, pad_edge=False)
    for number, name in enumerate(head):
        shown.add_column(name, justify="left" if number < 2 else "right")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    for line in _notes(table):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _cells(table: SuiteTable) -> tuple[list[str], list[list[str]]]:
    played = [row for row in table.suites if not row.why_not]
    lazy = [name for name in LAZY if any(name in row.lazy for row in played)]
    head = [*_HEAD, *(AGENTS[name] for name in lazy), "tasks", "unjudged"]
    return head, [
        [
            row.suite,
            row.version,
            *map(percent, (row.score, row.floor, row.ceiling, *map(row.lazy.get, lazy))),
            f"{row.tasks:,}",
            f"{row.unjudged:,}",
        ]
        for row in played
    ]


def _notes(table: SuiteTable) -> list[str]:
    return [
        *(f"{row.suite}: {line}" for row in table.suites for line in row.trust),
        *(f"{row.suite}: not played: {row.why_not}" for row in table.suites if row.why_not),
    ]


def percent(share: float | None) -> str:
    """Example: 0.1976 -> "19.76 %"; None -> "–" """
    return "–" if share is None else f"{100 * share:.2f} %"
