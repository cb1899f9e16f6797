"""From what code proved and what the models judged to one label, or to none with the reason.

    judgements                                                the label
    enough models give a label that code leaves open          the models'
    enough models give one that code rules out                the code's
    too few agree, and the proof leaves one label open        the code's
    too few agree otherwise                                   none: the judges disagree
    a missing judgement could still have decided              none: why it is missing

Enough is more than half of the models that were asked, or all of them. A model that was asked and
gave no judgement counts as asked. In mode `llm` code has no vote.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from rehearsal_room.harness.core.events import Label, ModelJudgement
from rehearsal_room.harness.settings.judge import Vote
from rehearsal_room.judge.core.case import CodeVerdict

Decider = Literal["code", "model", "both"]
Mode = Literal["llm", "hybrid"]


OPEN = CodeVerdict(None, frozenset(Label), "")  # where code is not asked


class VoteDecision(msgspec.Struct, frozen=True):
    """The result of the vote."""

    label: Label | None
    unjudged: str | None = None  # why there is no label; None: there is one
    reasoning: str = ""
    decided_by: Decider | None = None  # see `decided_by`; None: there is no label
    contested: bool = False  # see `contested`


def decide(
    code: CodeVerdict, judgements: Sequence[ModelJudgement], *, vote: Vote, mode: Mode = "hybrid"
) -> VoteDecision:
    """The decision on a case. `judgements` has one of each model that was asked, faults included.

    In hybrid mode the label is one that the code verdict allows, or None.
    """
    proved = _only_allowed(code) if mode == "hybrid" else None
    if not judgements:
        if proved is None:
            return VoteDecision(None, "no model was asked")
        return VoteDecision(proved, None, code.proof, "code")
    needed = len(judgements) if vote == "unanimous" else len(judgements) // 2 + 1
    label, num_votes = _most_frequent(judgements)
    if num_votes >= needed:
        if mode == "hybrid" and label not in code.allowed:
            return _by_code(code, code.label, judgements, mode)
        return _decision(label, code, judgements, mode, _reasoning(judgements, label))
    missing = sum(judgement.label is None for judgement in judgements)
    if num_votes + missing >= needed:
        return _decision(None, code, judgements, mode, "", _faults(judgements))
    if proved is not None:
        return _by_code(code, proved, judgements, mode)
    why = f"the judges disagree: {_votes(judgements)}"
    return _decision(None, code, judgements, mode, "", why)


def decided_by(
    label: Label | None, code: Label | None, judgements: Sequence[ModelJudgement], mode: str
) -> Decider | None:
    """Which side has the verdict's label: more than half of the models, code, or both."""
    if label is None:
        return None
    backed = 2 * sum(judgement.label is label for judgement in judgements) > len(judgements)
    if mode == "llm" or (backed and label is not code):
        return "model"
    return "both" if backed else "code"


def contested(
    label: Label | None, code: Label | None, judgements: Sequence[ModelJudgement]
) -> bool:
    """Whether a model contradicts code or another model, or the verdict is not the label on which
    all models agree. A missing judgement contradicts nothing."""
    given = {judgement.label for judgement in judgements} - {None}
    if len(given) != 1 or (code is not None and code not in given):
        return bool(given)
    return label not in given and all(judgement.label is not None for judgement in judgements)


def _by_code(
    code: CodeVerdict, label: Label | None, judgements: Sequence[ModelJudgement], mode: Mode
) -> VoteDecision:
    why = f"{_votes(judgements)}; code has proved: {code.proof}"
    return _decision(label, code, judgements, mode, why, why)


def _decision(
    label: Label | None,
    code: CodeVerdict,
    judgements: Sequence[ModelJudgement],
    mode: Mode,
    reasoning: str,
    unjudged: str = "",
) -> VoteDecision:
    code_label = code.label if mode == "hybrid" else None
    return VoteDecision(
        label=label,
        unjudged=unjudged if label is None else None,
        reasoning="" if label is None else reasoning,
        decided_by=decided_by(label, code_label, judgements, mode),
        contested=contested(label, code_label, judgements),
    )


def _only_allowed(code: CodeVerdict) -> Label | None:
    """The one label that code leaves open; None: there are several."""
    return next(iter(code.allowed)) if len(code.allowed) == 1 else None


def _most_frequent(judgements: Sequence[ModelJudgement]) -> tuple[Label | None, int]:
    """The label that most models give, and how many do."""
    votes = Counter(judgement.label for judgement in judgements if judgement.label is not None)
    return votes.most_common(1)[0] if votes else (None, 0)


def _reasoning(judgements: Sequence[ModelJudgement], label: Label | None) -> str:
    """The reasoning of the most confident model among those that give the label."""
    agreed = [judgement for judgement in judgements if judgement.label is label]
    return max(agreed, key=lambda judgement: judgement.confidence or 0.0).reasoning


def _votes(judgements: Sequence[ModelJudgement]) -> str:
    """Example: "gpt-5 says completed, qwen3 gave no judgement" """
    return ", ".join(
        f"{judgement.model} gave no judgement"
        if judgement.label is None
        else f"{judgement.model} says {judgement.label}"
        for judgement in judgements
    )


def _faults(judgements: Sequence[ModelJudgement]) -> str:
    """Why judgements are missing, each reason once. An exhausted budget comes first: reports look
    for sentences that begin with `budget`."""
    faults = dict.fromkeys(
        judgement.fault or f"no judgement of model {judgement.model!r}"
        for judgement in judgements
        if judgement.label is None
    )
    return "; ".join(sorted(faults, key=lambda fault: not fault.startswith("budget")))
