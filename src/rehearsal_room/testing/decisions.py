"""Whether a claim holds, by the criteria of `rehearse promote` (judge.promotion.criteria).

    at_least=0.8                       completed(these).lower >= 0.8
    no_worse_than="base", margin=0.1   regression.vs(base) >= -0.1

A claim holds where the safe bound of an interval of 1 - alpha is on its side, fails where even the
other bound contradicts it, and is inconclusive between them. All claims of a session must hold, so
none needs more than alpha for that. Each could fail by accident, so they share alpha for failing:
a session in which all claims are true has a red test with a chance of at most alpha.
"""

from typing import NamedTuple

import msgspec

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.outcomes.units import choose_unit
from rehearsal_room.judge.promotion.criteria import (
    CriterionEstimate,
    CriterionVerdict,
    RunFacts,
    estimate,
    judge_criterion,
    parse_criterion,
)
from rehearsal_room.judge.promotion.decision import verdict_of
from rehearsal_room.judge.promotion.facts import outcomes_in
from rehearsal_room.judge.statistics.outcomes import by_task
from rehearsal_room.judge.statistics.sign_flips import least_tasks
from rehearsal_room.testing.claims import Claim

_WORDS: dict[CriterionVerdict, str] = {
    "pass": "holds",
    "fail": "fails",
    "inconclusive": "is inconclusive",
}


class SharedAlpha(NamedTuple):
    """What a session may spend, and among how many claims."""

    session: float
    claims: int

    @property
    def each(self) -> float:
        """What a claim may spend on failing."""
        return self.session / max(1, self.claims)


class Decision(msgspec.Struct, frozen=True):
    """What was decided of a test's claims."""

    verdict: CriterionVerdict
    lines: tuple[str, ...]  # one for each claim, with its figures


def decide(claim: Claim, facts: RunFacts, base: RunFacts | None, alpha: SharedAlpha) -> Decision:
    """Decide the claims of a test on the episodes of its run. `base` has those of the run that it
    is compared with; None: it is not compared."""
    found = []
    if claim.at_least is not None:
        found.append(_at_least(claim.at_least, facts, alpha))
    if base is not None:
        found.append(_no_worse(claim, facts, base, alpha))
    return Decision(
        verdict_of([verdict for verdict, _ in found]), tuple([text for _, text in found])
    )


def _at_least(share: float, facts: RunFacts, alpha: SharedAlpha) -> tuple[CriterionVerdict, str]:
    decided = _decided(f"completed(these).lower >= {share}", facts, (), alpha)
    scores = [one.score for one in facts if one.score is not None]
    text = f"{sum(scores):g} of {plural(len(scores), 'episode')} completed"
    if (found := decided.found) is not None:
        text += f", {decided.level} interval {100 * found.lower:.1f} to {100 * found.upper:.1f} %"
    return decided.verdict, f"at_least={share:g} {_WORDS[decided.verdict]}: {text}{decided.rest}"


def _no_worse(
    claim: Claim, facts: RunFacts, base: RunFacts, alpha: SharedAlpha
) -> tuple[CriterionVerdict, str]:
    decided = _decided(f"regression.vs(base) >= {-claim.margin}", facts, base, alpha)
    margin = f", margin={claim.margin:g}" if claim.margin else ""
    name = f"no_worse_than={claim.no_worse_than!r}{margin} {_WORDS[decided.verdict]}"
    if (found := decided.found) is None:
        return decided.verdict, f"{name}: it shares no task that has a verdict with this run"
    runs, before = (by_task(outcomes_in(one)).keys() for one in (facts, base))
    tasks = len(runs & before)
    text = (
        f"{100 * found.value:+.1f} points over {plural(tasks, 'task')}, {decided.level} interval"
        f" {100 * found.lower:+.1f} to {100 * found.upper:+.1f}"
    )
    if tasks < (least := least_tasks(alpha.each)):
        text += f"; {least:,} tasks are the fewest that can show a drop"
    return decided.verdict, f"{name}: {text}{decided.rest}"


class _Decided(NamedTuple):
    verdict: CriterionVerdict
    found: CriterionEstimate | None  # the interval on which the verdict rests
    spent: float  # its alpha
    alpha: SharedAlpha

    @property
    def level(self) -> str:
        """Example: 98.33 %"""
        return f"{100 * (1 - self.spent):.4g} %"

    @property
    def rest(self) -> str:
        """Example: ; 1 episode without a verdict; alpha 0.0167 (0.05 shared by 3 claims)"""
        text = ""
        if self.found is not None and self.found.missing:
            text = f"; {plural(self.found.missing, 'episode')} without a verdict"
        text += f"; alpha {self.spent:.3g}"
        if self.spent < self.alpha.session:
            text += f" ({self.alpha.session:g} shared by {plural(self.alpha.claims, 'claim')})"
        return text


def _decided(text: str, facts: RunFacts, base: RunFacts, alpha: SharedAlpha) -> _Decided:
    criterion = parse_criterion(text)
    level, fail_level = 1 - alpha.session, 1 - alpha.each
    unit = choose_unit(one.key for one in facts).unit
    verdict = judge_criterion(
        criterion, facts, base, level=level, fail_level=fail_level, unit=unit
    ).verdict
    spent = alpha.session if verdict == "pass" else alpha.each
    found = estimate(criterion.metric, facts, base, 1 - spent, unit)
    return _Decided(verdict, found, spent, alpha)
