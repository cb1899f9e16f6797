"""The command `generate`: procedural worlds, any number of them."""

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

from rehearsal_room.authoring.generate import GeneratedWorlds, GenerationFault, generate_worlds
from rehearsal_room.authoring.paraphrase import ParaphraseOptions, paraphrase_worlds
from rehearsal_room.cli.core.flags import help_of
from rehearsal_room.cli.core.interruption import continued_by, same_command
from rehearsal_room.cli.core.options import JOBS, JSON, console_of, write_json
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.fields import fields_of
from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.output_folder import GenerationOrder
from rehearsal_room.scenarios.generate.plan.knobs import Knobs, knobs_of
from rehearsal_room.scenarios.generate.plan.splits import SPLITS, Split

_MEASURES = ("tables", "rows", "tools")


class GenerationReport(msgspec.Struct, frozen=True):
    """The figures of the worlds that were made."""

    worlds: int
    tasks: int
    tools: int
    kept: int  # worlds that the folder had already
    wall_s: float
    medians: dict[str, float]  # tables, rows, tools of a world; calls, distinct tools of a task
    kinds: dict[str, int]
    difficulties: dict[str, int]
    trades: dict[str, int]
    dropped: int  # drafts of tasks that could not be used
    paraphrased: int  # tasks in a model's wording
    faults: tuple[GenerationFault, ...]


class _GenerateCommand(click.Command):
    """The command, whose `--help` lists the knobs."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Knobs"):
            formatter.write_dl([(field.name, help_of(field)) for field in fields_of(Knobs)])


@click.command("generate", cls=_GenerateCommand)
@click.option(
    "--count",
    type=int,
    required=True,
    help="Number of worlds in the folder when the command is done.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of all random choices.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder of the worlds.",
)
@JOBS
@click.option(
    "--knob",
    "knobs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Size or difficulty of the worlds, as listed below; may be repeated.",
)
@click.option(
    "--trade",
    "trades",
    multiple=True,
    metavar="NAME",
    help="Trade of the worlds; may be repeated (default: all trades of the split).",
)
@click.option(
    "--module",
    "modules",
    multiple=True,
    metavar="NAME",
    help="Business module that every world has; may be repeated.",
)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    help="Split of the trades, for measuring how well training transfers (default: all trades).",
)
@click.option(
    "--paraphrase",
    is_flag=True,
    help="Let a model reword each instruction; what it says is checked and stays the same.",
)
@click.option("-m", "--model", default="", help="Name of the model that rewords.")
@click.option(
    "--base-url",
    default="",
    metavar="URL",
    help="URL of its server (default: OPENAI_BASE_URL of the environment, else OpenAI).",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Number of requests to the model at the same time.",
)
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
    paraphrase: bool,
    model: str,
    base_url: str,
    concurrency: int,
    json_file: str | None,
) -> None:
    """Generate worlds from business modules and the vocabulary of a trade.

    The same seed and version give the same bytes. A generation that was interrupted continues when
    the same command is given again. The exit status is 1 when a world could not be made.
    """
    began = time.monotonic()
    if paraphrase != bool(model):
        missing = "-m" if paraphrase else "--paraphrase"
        raise GenerateError(f"{missing} is missing: a model rewords where both are given")
    order = GenerationOrder(
        seed=seed,
        knobs=knobs_of(_pairs(knobs)),
        trades=tuple(trades),
        modules=tuple(modules),
        split=split,
        paraphrase=model,
    )
    with continued_by(same_command):
        with ProgressDisplay("worlds", total=count) as display:
            made = generate_worlds(order, count, output, jobs=jobs, report_progress=display.show)
        if paraphrase:
            options = ParaphraseOptions(model, base_url, concurrency)
            made = _paraphrased(made, output, order, options)
    report = report_of(made, time.monotonic() - began)
    _render(report, output, console_of(json_file))
    write_json(report, json_file)
    if report.faults:
        sys.exit(1)


def _paraphrased(
    made: GeneratedWorlds, output: Path, order: GenerationOrder, options: ParaphraseOptions
) -> GeneratedWorlds:
    records = list(made.manifest.worlds.values())
    with ProgressDisplay("paraphrased worlds", total=len(records)) as display:
        found = run(paraphrase_worlds, output, order, records, options, display.show)
    return msgspec.structs.replace(made, manifest=found.manifest)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise GenerateError(f"--knob: expected NAME=VALUE, found {text!r}")
        found[name.strip()] = value.strip()
    return found


def report_of(made: GeneratedWorlds, wall_s: float) -> GenerationReport:
    """The figures of what was made."""
    worlds = list(made.manifest.worlds.values())
    tasks = [task for world in worlds for task in world.tasks]
    medians = {
        name: float(median(getattr(world, name) for world in worlds)) if worlds else 0.0
        for name in _MEASURES
    }
    for name, field in (("steps", "calls"), ("unique_tools", "tools")):
        medians[name] = float(median(getattr(task, field) for task in tasks)) if tasks else 0.0
    return GenerationReport(
        worlds=len(worlds),
        tasks=len(tasks),
        tools=sum(world.tools for world in worlds),
        kept=made.num_kept,
        wall_s=round(wall_s, 2),
        medians=medians,
        kinds=_counts(str(task.kind) for task in tasks),
        difficulties=_counts(str(task.difficulty) for task in tasks),
        trades=_counts(world.plan.trade for world in worlds),
        paraphrased=sum(task.paraphrased is True for task in tasks),
        dropped=sum(sum(world.dropped.values()) for world in worlds),
        faults=made.faults,
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def _render(report: GenerationReport, output: Path, console: Console) -> None:
    console.print(
        f"{output}: {report.worlds:,} worlds with {report.tasks:,} tasks and {report.tools:,} tools"
        f" in {report.wall_s:.1f} s ({report.kept:,} were there already)",
        highlight=False,
    )
    table = Table("median of", *report.medians, box=None, pad_edge=False)
    table.add_row("", *(f"{value:g}" for value in report.medians.values()))
    console.print(table)
    for name, counts in (("tasks", report.kinds), ("difficulty", report.difficulties)):
        text = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        console.print(f"{name}: {text}", highlight=False)
    if report.paraphrased:
        line = f"paraphrased: {report.paraphrased:,}; the others keep their own words"
        console.print(line, highlight=False)
    for fault in report.faults:
        console.print(f"not made: {fault.name}: {fault.why}", highlight=False, markup=False)
