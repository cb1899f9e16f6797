"""Generated worlds for tests: made, written and put through the gate."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from judge.gate.context import GateSettings
from judge.gate.package import check_scenario
from judge.gate.report import Report, merge_reports
from judge.worlds.trial import hosted
from scenarios.generate.compose import Made, generate
from scenarios.generate.plan.business_modules import module
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.plan import plan_worlds

QUICK = GateSettings(max_mutants=40, probes=10)


def made_with(
    modules: Sequence[str],
    *,
    count: int = 3,
    seed: int = 1,
    among: Sequence[str] = (),
    trades: Sequence[str] = (),
    knobs: Knobs | None = None,
) -> list[Made]:
    """Worlds that have all of these modules, and of `among` others as there is room."""
    plans = plan_worlds(count, seed, knobs, trades=trades, modules=modules, among=among)
    return [generate(plan, hosted) for plan in plans]


def gated(worlds: Sequence[Made], folder: Path, settings: GateSettings = QUICK) -> Report:
    """What the gate says of worlds, which are written below the folder."""
    return merge_reports(check_scenario(folder_of(made, folder), settings) for made in worlds)


def folder_of(made: Made, folder: Path) -> Path:
    """The folder to which a world was written."""
    place = folder / made.package.name
    place.mkdir(parents=True, exist_ok=True)
    for name, text in made.package.texts().items():
        (place / name).write_text(text, encoding="utf-8")
    return place


def drafts_used(worlds: Sequence[Made]) -> Counter[str]:
    """How often each draft, "module.function", is part of a task."""
    return Counter(name for made in worlds for task in made.tasks for name in task.drafts)


def drafts_of(name: str) -> set[str]:
    """Every draft of a module, as `drafts_used` names them."""
    return {f"{name}.{function.__name__}" for function in module(name).drafts}
