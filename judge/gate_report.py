"""What the gate found, as data and as a table."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


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
    total = Report(worlds=0)
    for report in reports:
        fields = Report.__struct_fields__
        total = Report(*(getattr(total, field) + getattr(report, field) for field in fields))
    return total


def render(reports: Sequence[Report], console: Console) -> None:
    """A row for each world, then what failed and which mutants survived."""
    table = Table("world", box=None, pad_edge=False)
    for heading in ("tasks", "tools", "mutants", "caught", "equivalent", "failures"):
        table.add_column(heading, justify="right")
    for report in reports:
        share = f"{report.mutants_caught / report.mutants:.1%}" if report.mutants else "-"
        numbers = (report.tasks, report.tools, report.mutants)
        rest = (share, str(len(report.equivalents)), str(len(report.failures)))
        table.add_row(" ".join(report.names), *map(str, numbers), *rest)
    console.print(table)
    total = merged(reports)
    for failure in total.failures:
        place = f"{failure.world}/{failure.task}" if failure.task else failure.world
        line = Text.assemble((f"{failure.check} ", "bold red"), f"{place}: {failure.why}")
        console.print(line, soft_wrap=True)
    for note in total.survivors:
        line = Text.assemble(
            ("survivor ", "yellow"), f"{note.world}/{note.task}: {note.mutation}; {note.why}"
        )
        console.print(line, soft_wrap=True)
    for tool in total.unreached:
        console.print(Text.assemble(("unreached ", "yellow"), tool), soft_wrap=True)


def refused(world: str, check: str, why: str) -> Report:
    """The report on a world of which nothing else can be said."""
    return Report(worlds=1, names=(world,), failures=(Failure(world, "", check, why),))


def tell(reports: Sequence[Report], console: Console) -> tuple[Report, bool]:
    """Render the reports; gives them as one, and whether nothing failed."""
    render(reports, console)
    total = merged(reports)
    return total, total.ok


def unreadable(world: str, why: str) -> Report:
    """The report on a package that cannot be read."""
    return refused(world, "package", why)
