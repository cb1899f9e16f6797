"""The verb generate: procedural worlds without end."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import click
import msgspec
from rich.console import Console
from rich.table import Table

from harness.commands.options import JSON, console_of, write_json
from judge.commands.options import counted
from judge.worlds.generate import Fault, Generated, generate_worlds
from scenarios.generate.core.errors import GenerateError
from scenarios.generate.output_folder import GenerationOrder
from scenarios.generate.plan.knobs import knobs_of
from scenarios.generate.plan.splits import SPLITS, Split

_MEASURES = ("tables", "rows", "tools")


class Report(msgspec.Struct, frozen=True):
    """What was made, in figures."""

    worlds: int
    tasks: int
    tools: int
    kept: int  # worlds that were there already
    wall_s: float
    medians: dict[str, float]  # tables, rows, tools of a world; calls, distinct tools of a task
    kinds: dict[str, int]
    difficulties: dict[str, int]
    trades: dict[str, int]
    dropped: int  # drafts in vain
    faults: tuple[Fault, ...]


@click.command("generate")
@click.option("--count", type=int, required=True, help="Worlds.")
@click.option("--seed", type=int, default=0, help="What everything drawn follows from.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=1, help="Processes.")
@click.option("--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="See the docs.")
@click.option("--trade", "trades", multiple=True, help="Only these.")
@click.option("--module", "modules", multiple=True, help="In every world.")
@click.option("--split", type=click.Choice(SPLITS), help="For measuring transfer.")
@JSON
def generate_command(
    count: int,
    seed: int,
    output: Path,
    jobs: int,
    knobs: Sequence[str],
    trades: Sequence[str],
    modules: Sequence[str],
    split: Split | None,
    json_file: str | None,
) -> None:
    """Make worlds of business modules in the words of trades.

    The same seed and version give the same bytes. A run that was stopped goes on when it is asked
    for again. Ends with 1 when a world could not be made.
    """
    began = time.monotonic()
    order = GenerationOrder(
        seed=seed,
        knobs=knobs_of(_pairs(knobs)),
        trades=tuple(trades),
        modules=tuple(modules),
        split=split,
    )
    with counted("worlds") as told:
        made = generate_worlds(order, count, output, jobs=jobs, told=told)
    report = report_of(made, time.monotonic() - began)
    _tell(report, output, console_of(json_file))
    write_json(report, json_file)
    if report.faults:
        sys.exit(1)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise GenerateError(f"--knob: expected NAME=VALUE, got {text!r}")
        found[name.strip()] = value.strip()
    return found


def report_of(made: Generated, wall_s: float) -> Report:
    """The figures of what was made."""
    worlds = list(made.manifest.worlds.values())
    tasks = [task for world in worlds for task in world.tasks]
    medians = {
        name: float(median(getattr(world, name) for world in worlds)) if worlds else 0.0
        for name in _MEASURES
    }
    for name, field in (("steps", "calls"), ("unique_tools", "tools")):
        medians[name] = float(median(getattr(task, field) for task in tasks)) if tasks else 0.0
    return Report(
        worlds=len(worlds),
        tasks=len(tasks),
        tools=sum(world.tools for world in worlds),
        kept=made.num_kept,
        wall_s=round(wall_s, 2),
        medians=medians,
        kinds=_counts(str(task.kind) for task in tasks),
        difficulties=_counts(str(task.difficulty) for task in tasks),
        trades=_counts(world.plan.trade for world in worlds),
        dropped=sum(sum(world.dropped.values()) for world in worlds),
        faults=made.faults,
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _tell(report: Report, output: Path, console: Console) -> None:
    console.print(
        f"{output}: {report.worlds:,} worlds with {report.tasks:,} tasks and {report.tools:,} tools"
        f" in {report.wall_s:.1f} s ({report.kept:,} were there)",
        highlight=False,
    )
    table = Table("median of", *report.medians, box=None, pad_edge=False)
    table.add_row("", *(f"{value:g}" for value in report.medians.values()))
    console.print(table)
    for name, counts in (("tasks", report.kinds), ("difficulty", report.difficulties)):
        told = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        console.print(f"{name}: {told}", highlight=False)
    for fault in report.faults:
        console.print(f"not made: {fault.name}: {fault.why}", highlight=False, markup=False)
