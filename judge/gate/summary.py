"""The gate's results for many worlds: one report, near-duplicates, and the allow-list."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
from rich.console import Console
from rich.text import Text

from rehearsal_room.harness.rollout.allow_list import AllowedWorld
from rehearsal_room.judge.gate.core.near_duplicates import WorldPair, near_duplicates
from rehearsal_room.judge.gate.core.report import (
    GateFailure,
    WorldGateReport,
    merge_reports,
    render,
)
from rehearsal_room.judge.gate.job_pool import CheckOutcome

_MAX_LISTED = 1000  # near-duplicates
_MAX_SHOWN = 5
# A world with only such failures of its own still has sound tasks: its tools mishandle bad input.
_HARMLESS = frozenset({"constraint"})


class GateReport(WorldGateReport, frozen=True, kw_only=True):
    """The output of `rehearse worlds check --json`."""

    near_duplicates: tuple[WorldPair, ...] = ()  # the most similar first, a thousand at most
    near_duplicate_pairs: int = 0  # their number
    near_duplicate_share: float = 0.0  # of all pairs of worlds
    wall_s: float = 0.0


def gate_report_of(outcomes: Sequence[CheckOutcome], wall_s: float) -> GateReport:
    """The outcomes as one report, in the order of the worlds' names."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.name)
    total = merge_reports(outcome.report for outcome in ordered)
    failures = (*total.failures, *_same_names(ordered))
    pairs = near_duplicates([(one.name, one.features) for one in ordered if one.features])
    count = len(ordered) * (len(ordered) - 1) // 2
    return GateReport(
        **{**msgspec.structs.asdict(total), "failures": failures},
        near_duplicates=tuple(pairs[:_MAX_LISTED]),
        near_duplicate_pairs=len(pairs),
        near_duplicate_share=round(len(pairs) / count, 6) if count else 0.0,
        wall_s=round(wall_s, 1),
    )


def _same_names(outcomes: Sequence[CheckOutcome]) -> Iterable[GateFailure]:
    """Worlds with the same name: their episodes could not be distinguished."""
    for before, one in pairwise(outcomes):
        if one.name == before.name and one.digest != before.digest:
            why = "another world that was checked has the same name"
            yield GateFailure(one.name, "", "package", why)


def allowed_worlds(outcomes: Iterable[CheckOutcome]) -> list[AllowedWorld]:
    """The worlds that passed, with the tasks that passed; by name.

    A failure of the world removes all of its tasks, except `constraint`: then its tools mishandle
    bad input, but the tasks are sound.
    """
    found = []
    for outcome in outcomes:
        failures = outcome.report.failures
        bad = {task for failure in failures for task in failure.tasks}
        is_broken = any(not one.task and one.check not in _HARMLESS for one in failures)
        tasks = tuple(task for task in outcome.tasks if task not in bad)
        if tasks and not is_broken:
            found.append(AllowedWorld(outcome.name, outcome.digest, tasks))
    return sorted(found, key=lambda world: world.name)


def print_report(outcomes: Sequence[CheckOutcome], total: GateReport, console: Console) -> None:
    """Print the table, the failures, and the worlds that are nearly the same."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.name)
    render([outcome.report for outcome in ordered], total, console)
    if total.near_duplicate_pairs:
        line = f"near-duplicates: {total.near_duplicate_pairs} pairs of worlds"
        console.print(f"{line}, {total.near_duplicate_share:.2%} of all", highlight=False)
    for pair in total.near_duplicates[:_MAX_SHOWN]:
        line = f"{pair.one} and {pair.other}: {pair.alike:.1%} of their features are common"
        console.print(Text.assemble(("alike ", "yellow"), line), soft_wrap=True)
