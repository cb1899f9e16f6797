"""The report on a synthesis: its stages as in AWM's table, sizes, failures and cost."""

import math
import statistics
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.scenarios.synth.pipeline import PROVED, SynthesizedWorld
from rehearsal_room.scenarios.synth.stages.ideas import IdeaPool
from rehearsal_room.scenarios.synth.storage.output_folder import (
    StageRecord,
    SynthesisFolder,
    read_json,
)
from rehearsal_room.scenarios.synth.storage.spending import LedgerEntry, SpendingLedger

STAGES = ("tasks", "schema", "data", "tools", "code", "verify")
SPENDING = ("classify", "invent", "embed", *STAGES, "solve")
_TOP = 0.9


class StageFigures(msgspec.Struct, frozen=True):
    """One stage over all worlds (over all tasks, for `verify`)."""

    stage: str
    subjects: int = 0  # worlds or tasks
    ok: int = 0
    first_try: float | None = None  # share of subjects with a valid first answer; None: none yet
    corrections: float | None = None  # mean over the subjects that became valid by corrections
    attempts: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the model has no price


class Size(msgspec.Struct, frozen=True):
    """A measure over all worlds (over all tasks, for steps and different tools)."""

    mean: float
    median: float
    top90: float


class FailedWorld(msgspec.Struct, frozen=True):
    """A scenario whose world failed."""

    world: str
    stage: str
    why: str


class DroppedTask(msgspec.Struct, frozen=True):
    """A task that could not be proved."""

    world: str
    task: str
    why: str


class SynthesisReport(msgspec.Struct, frozen=True):
    """The report on all worlds of a synthesis."""

    ideas: int  # scenarios that were kept
    refused: int  # scenarios that were not kept
    worlds: int
    tasks: int
    tools: int
    failed: tuple[FailedWorld, ...]
    unfinished: tuple[str, ...]  # scenarios that a rerun continues with
    dropped: tuple[DroppedTask, ...]
    dead_tools: tuple[str, ...]  # left out, with their most advanced refusals
    unused_tools: tuple[str, ...]
    uncovered_functions: tuple[str, ...]  # core functions that no proved task practises
    mutants: int
    mutants_caught: int
    stages: tuple[StageFigures, ...]
    sizes: dict[str, Size]
    cost_usd: float | None  # None: a model has no price
    stopped: str = ""  # why the synthesis stopped early; empty: it did not
    ideas_ended: str = ""  # why there are fewer scenarios than requested

    @property
    def ok(self) -> bool:
        """Whether every scenario became a world."""
        return not (self.failed or self.unfinished or self.stopped or self.ideas_ended)


def report_of(
    pool: IdeaPool,
    worlds: Sequence[SynthesizedWorld],
    folder: SynthesisFolder,
    ledger: SpendingLedger,
    *,
    stopped: str,
) -> SynthesisReport:
    """The report on the worlds of a folder."""
    made = [world for world in worlds if not world.fault]
    begun = {world.name for world in worlds}
    waiting = [world.name for world in worlds if world.stopped]
    return SynthesisReport(
        ideas=len(pool.kept),
        refused=len(pool.refused),
        worlds=len(made),
        tasks=sum(world.tasks for world in made),
        tools=sum(world.tools for world in made),
        failed=tuple(
            FailedWorld(world.name, world.stage, world.fault)
            for world in worlds
            if world.fault and not world.stopped
        ),
        unfinished=(*waiting, *(idea.key for idea in pool.kept if idea.key not in begun)),
        dropped=tuple(
            DroppedTask(world.name, dropped.task, dropped.why)
            for world in made
            for dropped in world.dropped
        ),
        dead_tools=tuple(f"{world.name}.{tool}" for world in made for tool in world.dead),
        unused_tools=tuple(f"{world.name}.{tool}" for world in made for tool in world.unused),
        uncovered_functions=tuple(
            f"{world.name}.{name}" for world in made for name in world.uncovered
        ),
        mutants=sum(world.mutants for world in made),
        mutants_caught=sum(world.caught for world in made),
        stages=_figures(pool, folder, ledger),
        sizes=_sizes(made),
        cost_usd=_cost(ledger.entries),
        stopped=stopped,
        ideas_ended=pool.ended,
    )


def _figures(
    pool: IdeaPool, folder: SynthesisFolder, ledger: SpendingLedger
) -> tuple[StageFigures, ...]:
    records: dict[str, list[StageRecord]] = {}
    for idea in pool.kept:
        for file in sorted(folder.stage_file(idea.key, "x").parent.glob("*.json")):
            name = "verify" if file.stem.startswith(PROVED) else file.stem
            if (record := read_json(file, StageRecord)) is not None:
                records.setdefault(name, []).append(record)
    spent: dict[str, list[LedgerEntry]] = {}
    for entry in ledger.entries:
        spent.setdefault(entry.stage, []).append(entry)
    return tuple(_of_stage(name, records.get(name, []), spent.get(name, [])) for name in SPENDING)


def _of_stage(
    name: str, records: Sequence[StageRecord], spent: Sequence[LedgerEntry]
) -> StageFigures:
    tries = [len(record.attempts) for record in records if record.ok]
    corrected = [count - 1 for count in tries if count > 1]
    return StageFigures(
        stage=name,
        subjects=len(records),
        ok=len(tries),
        first_try=tries.count(1) / len(records) if records else None,
        corrections=statistics.fmean(corrected) if corrected else None,
        attempts=sum(len(record.attempts) for record in records),
        requests=len(spent),
        prompt_tokens=sum(entry.prompt_tokens for entry in spent),
        completion_tokens=sum(entry.completion_tokens for entry in spent),
        cost_usd=_cost(spent),
    )


def _cost(entries: Sequence[LedgerEntry]) -> float | None:
    costs = [entry.cost_usd for entry in entries]
    return None if None in costs else sum(cost or 0.0 for cost in costs)


def _sizes(worlds: Sequence[SynthesizedWorld]) -> dict[str, Size]:
    if not worlds:
        return {}
    measures: dict[str, list[int]] = {
        "tables": [world.tables for world in worlds],
        "rows": [world.rows for world in worlds],
        "tools": [world.tools for world in worlds],
        "lines of code": [world.lines for world in worlds],
        "tasks": [world.tasks for world in worlds],
        "steps of a task": [steps for world in worlds for steps in world.steps],
        "different tools of a task": [used for world in worlds for used in world.used],
    }
    return {name: _size(numbers) for name, numbers in measures.items() if numbers}


def _size(numbers: Sequence[int]) -> Size:
    ranked = sorted(numbers)
    top = ranked[max(0, math.ceil(_TOP * len(ranked)) - 1)]
    return Size(statistics.fmean(ranked), statistics.median(ranked), top)


def render(report: SynthesisReport, console: Console) -> None:
    """Print the report as tables."""
    console.print(_stage_table(report))
    if report.sizes:
        console.print(_size_table(report))
    caught = f"{report.mutants_caught / report.mutants:.1%}" if report.mutants else "none"
    console.print(
        f"{report.worlds} worlds of {report.ideas} scenarios ({report.refused} refused), "
        f"{report.tasks} tasks, {report.tools} tools; mutants caught: {caught}; "
        f"cost: {_usd(report.cost_usd)}",
        highlight=False,
    )
    for failed in report.failed:
        _line(console, f"failed in {failed.stage}", failed.world, failed.why, "bold red")
    for dropped in report.dropped:
        _line(console, "dropped", f"{dropped.world}/{dropped.task}", dropped.why, "yellow")
    for tool in report.dead_tools:
        _line(console, "left out, dead", tool, "", "yellow")
    for name in report.uncovered_functions:
        _line(console, "core function without a proved task", name, "", "yellow")
    if report.unfinished or report.stopped:
        _line(console, "unfinished", ", ".join(report.unfinished), report.stopped, "yellow")
    if report.ideas_ended:
        _line(console, "fewer scenarios", "", report.ideas_ended, "yellow")


def _stage_table(report: SynthesisReport) -> Table:
    table = Table("stage", box=None, pad_edge=False)
    for heading in ("subjects", "ok", "first try", "corrections", "attempts", "requests", "USD"):
        table.add_column(heading, justify="right")
    for stage in report.stages:
        table.add_row(
            stage.stage,
            str(stage.subjects or "-"),
            str(stage.ok if stage.subjects else "-"),
            "-" if stage.first_try is None else f"{stage.first_try:.1%}",
            "-" if stage.corrections is None else f"{stage.corrections:.2f}",
            str(stage.attempts or "-"),
            str(stage.requests),
            _usd(stage.cost_usd),
        )
    return table


def _size_table(report: SynthesisReport) -> Table:
    table = Table("size", box=None, pad_edge=False)
    for heading in ("mean", "median", "top 90%"):
        table.add_column(heading, justify="right")
    for name, size in report.sizes.items():
        table.add_row(name, f"{size.mean:.1f}", f"{size.median:.1f}", f"{size.top90:.1f}")
    return table


def _usd(cost: float | None) -> str:
    return "not known" if cost is None else f"{cost:.4f}"


def _line(console: Console, word: str, what: str, why: str, style: str) -> None:
    """Print one line; control characters in a model's text cannot reach the terminal."""
    text = ": ".join(part for part in (what, " ".join(why.split())[:500]) if part)
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    console.print(Text.assemble((word, style), " ", plain), soft_wrap=True)
