"""The verdict of promotion criteria on the episodes of one or several runs."""

from collections.abc import Sequence

import msgspec

from rehearsal_room.harness.outcomes.units import Unit, choose_unit
from rehearsal_room.judge.promotion.criteria import (
    CriterionResult,
    CriterionVerdict,
    RunFacts,
    judge_criterion,
)
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria, PromotionStage
from rehearsal_room.judge.statistics.youden import Youden


class StageResult(msgspec.Struct, frozen=True):
    """The verdict of one stage."""

    stage: str
    verdict: CriterionVerdict
    criteria: tuple[CriterionResult, ...]


def decide(
    criteria: PromotionCriteria,
    facts: RunFacts,
    base: RunFacts,
    *,
    until: str = "",
    alpha: float | None = None,
    unit: Unit | None = None,
    judge: Youden | None = None,
) -> list[StageResult]:
    """Judge the stages in order, up to the first that is not passed or to the stage `until`; at
    least one result. `alpha` is what this look may spend (None: all of the criteria's). `unit` is
    that of the intervals (None: it follows from the runs' tasks), and `judge` what is known about
    the runs' judge."""
    unit = choose_unit((one.key for one in facts), unit).unit
    results = []
    for stage in criteria.stages:
        spent = criteria.alpha if alpha is None else alpha
        result = judge_stage(stage, facts, base, spent, unit=unit, judge=judge)
        results.append(result)
        if result.verdict != "pass" or stage.name == until:
            break
    return results


def judge_stage(
    stage: PromotionStage,
    facts: RunFacts,
    base: RunFacts,
    alpha: float,
    *,
    unit: Unit,
    judge: Youden | None = None,
) -> StageResult:
    """A stage passes when all of its criteria do, and fails when one does. All must pass, so none
    needs more than alpha for that; each could fail by accident, so they share it."""
    uncertain = max(1, sum(one.is_uncertain for one in stage.criteria))
    found = tuple(
        [
            judge_criterion(
                one,
                facts,
                base,
                level=1 - alpha,
                fail_level=1 - alpha / uncertain,
                unit=unit,
                judge=judge,
            )
            for one in stage.criteria
        ]
    )
    return StageResult(stage.name, verdict_of([one.verdict for one in found]), found)


def verdict_of(verdicts: Sequence[CriterionVerdict]) -> CriterionVerdict:
    """The verdict of a stage with criteria of these verdicts."""
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"
