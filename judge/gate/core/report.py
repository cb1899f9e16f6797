"""The gate's report, as data and as a table."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal_text import printable

_MANY = 20  # worlds; beyond that, only those with failures have a row
_MAX_SHOWN = 100  # rows, failures, survivors


class GateFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One defect. `task` is empty where it is the world's."""

    world: str
    task: str
    check: str
    why: str
    other_tasks: tuple[str, ...] = ()  # that have the very same defect

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks that have it; empty: it is the world's."""
        return (self.task, *self.other_tasks) if self.task else ()


class MutantNote(msgspec.Struct, frozen=True):
    """A mutant that a reader should see."""

    world: str
    task: str
    kind: str
    mutation: str
    why: str


class TaskSoundness(msgspec.Struct, frozen=True):
    """What the verifier of one task pays: to agents without understanding, and to right answers."""

    world: str
    task: str
    kind: str  # of the task
    adversaries: int  # that were played
    paid: int  # of them
    right: int  # the oracle, and its answer in other words
    completed: int  # of them


class WorldGateReport(msgspec.Struct, frozen=True):
    """The gate's report on one world, or on several (see `merge_reports`)."""

    worlds: int
    tasks: int = 0
    tools: int = 0
    failures: tuple[GateFailure, ...] = ()
    mutants: int = 0  # without the equivalents
    mutants_caught: int = 0
    mutants_left_out: int = 0  # beyond the cap of a task
    probes: int = 0
    names: tuple[str, ...] = ()  # of the worlds
    unreached: tuple[str, ...] = ()  # world.tool: no call of an oracle or a probe succeeded
    unused: tuple[str, ...] = ()  # world.tool: no oracle calls it
    survivors: tuple[MutantNote, ...] = ()  # judged completed, despite the mistake
    equivalents: tuple[
        MutantNote, ...
    ] = ()  # they end as the oracle does; of many worlds, a few each
    equivalent: int = 0  # their number
    many_purposes: int = 0  # tasks with more than two requests that do not depend on each other
    near_misses: int = 0  # wrong turns of near_misses.toml that were played
    soundness: tuple[TaskSoundness, ...] = ()  # of tasks whose oracle is completed
    rejected: tuple[MutantNote, ...] = ()  # right answers in other words that are not completed
    # AWM records: world/task that no adversary is played on, because no verifier reads the answer.
    unread: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def merge_reports(reports: Iterable[WorldGateReport]) -> WorldGateReport:
    """Several reports as one: numbers are summed, lists concatenated."""
    totals: dict[str, Any] = {"worlds": 0}  # numbers, and lists that become tuples
    for report in reports:
        for field in WorldGateReport.__struct_fields__:
            value = getattr(report, field)
            if isinstance(value, tuple):
                totals.setdefault(field, []).extend(value)
            else:
                totals[field] = totals.get(field, 0) + value
    return msgspec.convert(totals, WorldGateReport)


def render(reports: Sequence[WorldGateReport], total: WorldGateReport, console: Console) -> None:
    """Print a row for each world, then the failures and the surviving mutants. With many worlds,
    only those with failures have a row, and lists are cut to what a person reads."""
    _render_table(reports, total, console)
    lines = [
        *(
            _line(failure.check, "bold red", _location(failure), failure.why)
            for failure in total.failures[:_MAX_SHOWN]
        ),
        *_more(total.failures, "failures"),
        *(
            _line("survivor", "yellow", f"{note.world}/{note.task}", f"{note.mutation}; {note.why}")
            for note in total.survivors[:_MAX_SHOWN]
        ),
        *_more(total.survivors, "survivors"),
    ]
    if total.unread:
        names = ", ".join(total.unread[:_MAX_SHOWN])
        lines.append(Text(f"no adversary, for no verifier reads the answer: {printable(names)}"))
    for word, tools in (("unreached", total.unreached), ("unused", total.unused)):
        if len(reports) > _MANY and tools:
            lines.append(Text(f"{word} tools: {len(tools)}"))
        else:
            lines += [Text.assemble((f"{word} ", "yellow"), printable(tool)) for tool in tools]
    for line in lines:
        console.print(line, soft_wrap=True)


def _render_table(
    reports: Sequence[WorldGateReport], total: WorldGateReport, console: Console
) -> None:
    table = Table("world", box=None, pad_edge=False)
    for heading in ("tasks", "tools", "mutants", "caught", "equivalent", "failures"):
        table.add_column(heading, justify="right")
    few = len(reports) <= _MANY
    rows = [report for report in reports if few or not report.ok][:_MAX_SHOWN]
    for report in rows:
        table.add_row(Text(printable(" ".join(report.names))), *_cells(report))
    if len(reports) > 1:
        table.add_row(f"all {total.worlds} worlds", *_cells(total))
    console.print(table)


def _cells(report: WorldGateReport) -> list[str]:
    share = f"{report.mutants_caught / report.mutants:.1%}" if report.mutants else "-"
    numbers = (report.tasks, report.tools, report.mutants)
    return [*map(str, numbers), share, str(report.equivalent), str(len(report.failures))]


def _location(failure: GateFailure) -> str:
    """Example: "library/pay-fine and 3 other tasks" """
    if not failure.task:
        return failure.world
    others = len(failure.other_tasks)
    more = f" and {others} other task{'' if others == 1 else 's'}" if others else ""
    return f"{failure.world}/{failure.task}{more}"


def _line(word: str, style: str, location: str, why: str) -> Text:
    return Text.assemble((f"{word} ", style), printable(f"{location}: {why}"))


def _more(found: Sequence[object], what: str) -> list[Text]:
    left = len(found) - _MAX_SHOWN
    return [Text(f"and {left} more {what}; --json has them all")] if left > 0 else []


def failed_report(world: str, check: str, why: str) -> WorldGateReport:
    """The report on a world that no other check can examine."""
    return WorldGateReport(worlds=1, names=(world,), failures=(GateFailure(world, "", check, why),))
