"""What the gate found, as data and as a table."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.core.terminal_text import printable

_MANY = 20  # worlds; of more, only those with failures have a row
_SHOWN = 100  # rows, failures, survivors


class Failure(msgspec.Struct, frozen=True):
    """One defect. `task` is empty where it is the world's."""

    world: str
    task: str
    check: str
    why: str


class MutantNote(msgspec.Struct, frozen=True):
    """A mutant worth a look."""

    world: str
    task: str
    kind: str
    mutation: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """What the gate says of one world, or of several (see `merged`)."""

    worlds: int
    tasks: int = 0
    tools: int = 0
    failures: tuple[Failure, ...] = ()
    mutants: int = 0  # without the equivalents
    mutants_caught: int = 0
    mutants_left_out: int = 0  # beyond the cap of a task
    probes: int = 0
    names: tuple[str, ...] = ()  # of the worlds
    unreached: tuple[str, ...] = ()  # world.tool: no oracle and no probe had a success with it
    unused: tuple[str, ...] = ()  # world.tool: no oracle calls it
    survivors: tuple[MutantNote, ...] = ()  # completed, though mistaken
    equivalents: tuple[MutantNote, ...] = ()  # they end as the oracle does; of many worlds, a few
    equivalent: int = 0  # how many there were

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def merged(reports: Iterable[Report]) -> Report:
    """Several reports as one: numbers added up, lists one after the other."""
    totals: dict[str, Any] = {"worlds": 0}  # numbers, and lists that become tuples
    for report in reports:
        for field in Report.__struct_fields__:
            value = getattr(report, field)
            if isinstance(value, tuple):
                totals.setdefault(field, []).extend(value)
            else:
                totals[field] = totals.get(field, 0) + value
    return msgspec.convert(totals, Report)


def render(reports: Sequence[Report], total: Report, console: Console) -> None:
    """A row for each world, then what failed and which mutants survived. Of many worlds, rows for
    those with failures only, and not more of anything than a person reads."""
    _render_table(reports, total, console)
    lines = [
        *(
            _line(failure.check, "bold red", _place(failure), failure.why)
            for failure in total.failures[:_SHOWN]
        ),
        *_more(total.failures, "failures"),
        *(
            _line("survivor", "yellow", f"{note.world}/{note.task}", f"{note.mutation}; {note.why}")
            for note in total.survivors[:_SHOWN]
        ),
        *_more(total.survivors, "survivors"),
    ]
    for word, tools in (("unreached", total.unreached), ("unused", total.unused)):
        if len(reports) > _MANY and tools:
            lines.append(Text(f"{word} tools: {len(tools)}"))
        else:
            lines += [Text.assemble((f"{word} ", "yellow"), printable(tool)) for tool in tools]
    for line in lines:
        console.print(line, soft_wrap=True)


def _render_table(reports: Sequence[Report], total: Report, console: Console) -> None:
    table = Table("world", box=None, pad_edge=False)
    for heading in ("tasks", "tools", "mutants", "caught", "equivalent", "failures"):
        table.add_column(heading, justify="right")
    few = len(reports) <= _MANY
    rows = [report for report in reports if few or not report.ok][:_SHOWN]
    for report in rows:
        table.add_row(Text(printable(" ".join(report.names))), *_cells(report))
    if len(reports) > 1:
        table.add_row(f"all {total.worlds} worlds", *_cells(total))
    console.print(table)


def _cells(report: Report) -> list[str]:
    share = f"{report.mutants_caught / report.mutants:.1%}" if report.mutants else "-"
    numbers = (report.tasks, report.tools, report.mutants)
    return [*map(str, numbers), share, str(report.equivalent), str(len(report.failures))]


def _place(failure: Failure) -> str:
    return f"{failure.world}/{failure.task}" if failure.task else failure.world


def _line(word: str, style: str, place: str, why: str) -> Text:
    return Text.assemble((f"{word} ", style), printable(f"{place}: {why}"))


def _more(found: Sequence[object], what: str) -> list[Text]:
    left = len(found) - _SHOWN
    return [Text(f"and {left} more {what}; --json has them all")] if left > 0 else []


def refused(world: str, check: str, why: str) -> Report:
    """The report on a world of which nothing else can be said."""
    return Report(worlds=1, names=(world,), failures=(Failure(world, "", check, why),))
