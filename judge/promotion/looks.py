"""Looking at runs while they are played on, until there is a verdict or enough is played."""

from collections.abc import Callable

import msgspec

from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.judge.promotion.criteria import RunFacts
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria
from rehearsal_room.judge.promotion.decision import StageResult, decide
from rehearsal_room.judge.promotion.output import Look
from rehearsal_room.judge.promotion.spending import nominal_alphas
from rehearsal_room.judge.statistics.youden import Youden

LOOKS = 10  # about so many, evenly over the planned episodes


class Looked(msgspec.Struct, frozen=True):
    """How looking ended."""

    results: list[StageResult]
    looks: tuple[Look, ...]


def look_until(
    criteria: PromotionCriteria,
    most: int,
    read: Callable[[], tuple[RunFacts, RunFacts]],
    play_on: Callable[[int], None],
    *,
    until: str = "",
    unit: Unit | None = None,
    judge: Youden | None = None,
) -> Looked:
    """Judge, play on, judge again: after each batch at the alpha that is spent by then, and until
    the verdict is not inconclusive or the runs have `most` episodes.

    `read` gives the episodes of the runs and of the base; `play_on` plays until the runs have so
    many.
    """
    looks: list[Look] = []
    shares: list[float] = []
    while True:
        facts, base = read()
        shares.append(min(1.0, len(facts) / most))
        alpha = nominal_alphas(shares, criteria.alpha)[-1]
        results = decide(
            *(criteria, facts, base),
            until=until,
            alpha=max(alpha, 1e-12),
            unit=unit,
            judge=judge,
        )
        looks.append(Look(len(facts), alpha, results[-1].verdict))
        if results[-1].verdict != "inconclusive" or len(facts) >= most:
            return Looked(results, tuple(looks))
        play_on(next_look(len(facts), most))


def next_look(episodes: int, most: int) -> int:
    """How many episodes there are at the next look.

    Example: 40 of 200 -> 60
    """
    step = max(1, -(-most // LOOKS))
    return min(most, (episodes // step + 1) * step)
