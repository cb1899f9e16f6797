"""Episodes for gates, made of outcomes."""

from collections.abc import Iterable

from rehearsal_room.judge.promotion.criteria import RunFacts, parse_criterion
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria, PromotionStage
from rehearsal_room.judge.promotion.facts import EpisodeFacts
from rehearsal_room.judge.statistics.outcomes import Outcome


def facts_of(outcomes: Iterable[Outcome]) -> RunFacts:
    """Episodes with these outcomes and nothing else of interest."""
    return [
        EpisodeFacts(
            scenario=one.scenario,
            task=one.task,
            seed=one.seed,
            score=one.score,
            label="completed" if one.score else "agent_error",
            reward=one.score,
            tags=(),
            kinds=() if one.score else ("missing_write",),
            findings={},
            steps=5,
            seconds=1.0,
            calls=4,
        )
        for one in outcomes
    ]


def criteria_of(*criteria: str, alpha: float = 0.05) -> PromotionCriteria:
    """Criteria with one stage."""
    return PromotionCriteria(
        "g", alpha, 0.8, (PromotionStage("s", tuple(map(parse_criterion, criteria))),)
    )
