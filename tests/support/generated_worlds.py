"""Generated worlds for tests: making, writing and checking them with the gate."""

from collections.abc import Sequence
from pathlib import Path

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.judge.gate.core.report import WorldGateReport, merge_reports
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.generate.compose import GeneratedWorld, generate
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.world_plans import plan_worlds
from tests.support.budgets import repeats

# A few mutants and probes of each task; `just test-long` tries more.
QUICK = GateSettings(max_mutants=repeats(short=10, long=40), probes=repeats(short=4, long=10))


def made_with(
    modules: Sequence[str],
    *,
    count: int = 3,
    seed: int = 1,
    among: Sequence[str] | None = (),
    trades: Sequence[str] = (),
    knobs: Knobs | None = None,
) -> list[GeneratedWorld]:
    """Make worlds with all of these modules, and with modules of `among` (None: all) as there is
    room."""
    plans = plan_worlds(count, seed, knobs, trades=trades, modules=modules, among=among)
    return [generate(plan, host_in_process) for plan in plans]


def gated(
    worlds: Sequence[GeneratedWorld], folder: Path, settings: GateSettings = QUICK
) -> WorldGateReport:
    """Write worlds below the folder; return the gate's report on them."""
    return merge_reports(check_scenario(folder_of(made, folder), settings) for made in worlds)


def folder_of(made: GeneratedWorld, folder: Path) -> Path:
    """Write a world below the folder; return the world's folder."""
    package = folder / made.package.name
    package.mkdir(parents=True, exist_ok=True)
    for name, text in made.package.texts().items():
        (package / name).write_text(text, encoding="utf-8")
    return package
