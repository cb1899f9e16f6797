"""Criteria that models judge: each is a question of its own, with the episode's evidence.

    a model says              share
    completed                 1      partially_completed 0.5      agent_error 0
    environment_error, or met without an exhibit that shows it: none, and the episode is unjudged

Promises:
- Of an episode in which nothing was done and nothing was said, no criterion is met, and no model is
  asked.
- A model changes nothing but the criteria that are open: guards and goals by code stand. What it
  says counts in the share, and alone it makes no episode partially completed.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rehearsal_room.harness.core.events import Judged, Label, ModelJudgement
from rehearsal_room.harness.settings.judge import Vote
from rehearsal_room.judge.code.code_judge import judge_evidence
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.criteria import MET, with_goal
from rehearsal_room.judge.core.evidence import Evidence
from rehearsal_room.judge.core.rewards import RewardProfile
from rehearsal_room.judge.llm.voting import OPEN, decide
from rehearsal_room.scenarios.checks import Finding, proved_wrong
from rehearsal_room.scenarios.core.short_text import one_line

SHARES = {Label.COMPLETED: 1.0, Label.PARTIALLY_COMPLETED: 0.5, Label.AGENT_ERROR: 0.0}
_SAYS_NOTHING = frozenset({"C", "T", "P"})  # exhibits that show nothing of what the agent did
_SHOWN = 300  # characters of a model's reasons
# Asks all models one question about a case.
Ask = Callable[[Case, Finding], Awaitable[tuple[ModelJudgement, ...]]]


class Settled(msgspec.Struct, frozen=True):
    """A case whose criteria were judged."""

    case: Case
    judgements: tuple[ModelJudgement, ...] = ()  # of all models on all criteria
    fault: str = ""  # why a criterion could not be judged; empty: all are


async def settled(case: Case, ask: Ask, *, vote: Vote, profile: RewardProfile) -> Settled:
    """The case with the criteria that were open; the case itself where there are none."""
    findings, task = list(case.evidence.findings), case.task
    open_ones = [n for n, one in enumerate(findings) if one.kind == "criterion" and one.is_open]
    if task is None or not open_ones:
        return Settled(case)
    given: list[ModelJudgement] = []
    for number in open_ones:
        one = findings[number]
        if _is_silent(case.evidence):
            findings[number] = _with(one, 0.0, "nothing was done and nothing was said")
            continue
        judgements = tuple(map(_with_evidence, await ask(asked_case(case), one)))
        given += judgements
        decision = decide(OPEN, judgements, vote=vote, mode="llm")
        if decision.label not in SHARES:
            why = decision.unjudged or "the exhibits cannot show whether it is met"
            return Settled(case, tuple(given), f"criterion {one.name!r}: {why}")
        known = one.share or 0.0  # the part that code has found
        share = known + (1 - known) * SHARES[decision.label]
        findings[number] = _with(one, share, _reason(judgements, decision.label))
    evidence = msgspec.structs.replace(case.evidence, findings=with_goal(findings, task))
    unpaid = Counter((*case.idle, *(findings[number].name for number in open_ones)))
    code = judge_evidence(case.trajectory, evidence, unpaid, profile)
    return Settled(msgspec.structs.replace(case, evidence=evidence, code=code), tuple(given))


def _is_silent(evidence: Evidence) -> bool:
    """Whether the agent left no trace in the world and said nothing."""
    said = evidence.answer.strip() or any(turn.text.strip() for turn in evidence.turns)
    return not said and not evidence.changes


def asked_case(case: Case) -> Case:
    """The case with its guards as the only findings, as models see it: what is open proves
    nothing."""
    kept = tuple([one for one in case.evidence.findings if one.kind == "guard"])
    evidence = msgspec.structs.replace(case.evidence, findings=kept)
    return msgspec.structs.replace(case, evidence=evidence)


def asked_criteria(verdict: Judged, num_models: int) -> list[Finding]:
    """The criteria of a logged verdict about which so many models were asked, in order. Fewer than
    its judgements are of: the log does not say which the others are."""
    criteria = [one for one in verdict.findings if one.kind == "criterion"]
    given = verdict.asked
    parts = [given[at : at + num_models] for at in range(0, len(given), num_models)]
    if left := [one for one in criteria if one.is_open]:  # all are as code left them
        return left[: len(parts)]
    found: list[Finding] = []
    for one in criteria:
        if len(found) < len(parts) and one.found in _reasons(parts[len(found)]):
            found.append(one)
    return found


def _reasons(judgements: Sequence[ModelJudgement]) -> set[str]:
    """What a criterion may have found after these judgements."""
    labels = {one.label for one in judgements}
    return {_reason(judgements, label) for label in SHARES if label in labels}


def _with_evidence(one: ModelJudgement) -> ModelJudgement:
    """The judgement; without a label where it says that something is met and shows nothing."""
    if not SHARES.get(one.label or Label.AGENT_ERROR) or set(one.cited) - _SAYS_NOTHING:
        return one
    fault = f"model {one.model!r} says that it is met, and names no exhibit that shows it"
    return msgspec.structs.replace(one, label=None, fault=fault)


def _with(one: Finding, share: float, found: str) -> Finding:
    return msgspec.structs.replace(
        one, passed=share == 1.0, found=found, share=share, is_open=False
    )


def _reason(judgements: Sequence[ModelJudgement], label: Label) -> str:
    """Example: "gpt-5 by A, D1: the answer names Friday" """
    agreed = [one for one in judgements if one.label is label]
    best = max(agreed, key=lambda one: one.confidence or 0.0)
    shown = f" by {', '.join(best.cited)}" if best.cited else ""
    return f"{best.model}{shown}: {one_line(best.reasoning, _SHOWN)}"


def proof_of(case: Case) -> str:
    """What the label follows from, in a sentence.

    Example: "the criteria are met by 0.75, expected a share of at least 0.8"
    """
    goal = next(one for one in case.evidence.findings if one.name == MET and one.kind == "goal")
    failed = [one.name for one in proved_wrong(case.evidence.findings) if one.kind == "guard"]
    harm = f"; guards that failed: {', '.join(failed)}" if failed else ""
    return f"the criteria are met by {goal.found}, expected {goal.expected}{harm}"
