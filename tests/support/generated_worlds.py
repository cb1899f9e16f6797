"""Generated worlds for tests: making, writing and checking them with the gate."""

from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path

from judge.gate.package import check_scenario
from judge.gate.report import Report, merge_reports
from judge.gate.task_runner import GateSettings
from judge.worlds.world_host import host_in_process
from scenarios.generate.compose import GeneratedWorld, generate
from scenarios.generate.plan.business_modules import module
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.world_plans import plan_worlds
from tests.support.budgets import IS_LONG

QUICK = GateSettings(max_mutants=40, probes=10)


def made_with(
    modules: Sequence[str],
    *,
    count: int = 3,
    seed: int = 1,
    among: Sequence[str] = (),
    trades: Sequence[str] = (),
    knobs: Knobs | None = None,
    until: Set[str] = frozenset(),
) -> list[GeneratedWorld]:
    """Make worlds with all of these modules, and with modules of `among` as there is room: `count`
    of them, or fewer when all drafts of `until` are used (in the long profile: always `count`)."""
    made: list[GeneratedWorld] = []
    for plan in plan_worlds(count, seed, knobs, trades=trades, modules=modules, among=among):
        made.append(generate(plan, host_in_process))
        if until and not IS_LONG and until <= drafts_used(made).keys():
            break
    return made


def gated(worlds: Sequence[GeneratedWorld], folder: Path, settings: GateSettings = QUICK) -> Report:
    """Write worlds below the folder; return the gate's report on them."""
    return merge_reports(check_scenario(folder_of(made, folder), settings) for made in worlds)


def folder_of(made: GeneratedWorld, folder: Path) -> Path:
    """Write a world below the folder; return the world's folder."""
    package = folder / made.package.name
    package.mkdir(parents=True, exist_ok=True)
    for name, text in made.package.texts().items():
        (package / name).write_text(text, encoding="utf-8")
    return package


def drafts_used(worlds: Sequence[GeneratedWorld]) -> Counter[str]:
    """Return how often each draft, "module.function", is part of a task."""
    return Counter(name for made in worlds for task in made.tasks for name in task.drafts)


def drafts_of(name: str) -> set[str]:
    """Return every draft of a module, named as in `drafts_used`."""
    return {f"{name}.{function.__name__}" for function in module(name).drafts}
