"""From what the code proved and what the models say to one label, or to none with the reason.

    who says what                                           the label
    enough models say a label that the code leaves open     theirs
    enough models say one that the code rules out           the code's
    too few agree, and the proof leaves one label           the code's
    too few agree otherwise                                 none: the judges disagree
    an opinion that is missing could still have decided     none: why it is missing

Enough is more than half of the models that were asked, or all of them. A model that was asked and
gave no opinion counts as asked. In `llm` mode the code has no say.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from harness.core.events import Label, ModelJudgement
from harness.settings.judge import Vote
from judge.core.case import Ruling

Decider = Literal["code", "model", "both"]
Mode = Literal["llm", "hybrid"]


class Decision(msgspec.Struct, frozen=True):
    """What the panel came to."""

    label: Label | None
    unjudged: str | None = None  # why there is no label; None: there is one
    reasoning: str = ""
    decided_by: Decider | None = None  # see `decided_by`; None: nobody
    contested: bool = False  # see `contested`


def decide(
    ruling: Ruling, opinions: Sequence[ModelJudgement], *, vote: Vote, mode: Mode = "hybrid"
) -> Decision:
    """The decision on a case. `opinions` has one of each model that was asked, faults included.

    In hybrid mode the label is one that the ruling allows, or None.
    """
    proved = _only(ruling) if mode == "hybrid" else None
    if not opinions:
        if proved is None:
            return Decision(None, "no model was asked")
        return Decision(proved, None, ruling.proof, "code")
    needed = len(opinions) if vote == "unanimous" else len(opinions) // 2 + 1
    label, num_votes = _most_said(opinions)
    if num_votes >= needed:
        if mode == "hybrid" and label not in ruling.allowed:
            return _by_code(ruling, ruling.label, opinions, mode)
        return _decision(label, ruling, opinions, mode, _reasoning(opinions, label))
    missing = sum(opinion.label is None for opinion in opinions)
    if num_votes + missing >= needed:
        return _decision(None, ruling, opinions, mode, "", _faults(opinions))
    if proved is not None:
        return _by_code(ruling, proved, opinions, mode)
    return _decision(None, ruling, opinions, mode, "", f"the judges disagree: {_says(opinions)}")


def decided_by(
    label: Label | None, code: Label | None, opinions: Sequence[ModelJudgement], mode: str
) -> Decider | None:
    """Who stands behind a label: more than half of the models, the code, or both."""
    if label is None:
        return None
    backed = 2 * sum(opinion.label is label for opinion in opinions) > len(opinions)
    if mode == "llm" or (backed and label is not code):
        return "model"
    return "both" if backed else "code"


def contested(label: Label | None, code: Label | None, opinions: Sequence[ModelJudgement]) -> bool:
    """Whether a model contradicts the code or another model, or what all of them say was not
    followed. A missing opinion contradicts nobody."""
    said = {opinion.label for opinion in opinions} - {None}
    if len(said) != 1 or (code is not None and code not in said):
        return bool(said)
    return label not in said and all(opinion.label is not None for opinion in opinions)


def _by_code(
    ruling: Ruling, label: Label | None, opinions: Sequence[ModelJudgement], mode: Mode
) -> Decision:
    why = f"{_says(opinions)}; what the code proved stands: {ruling.proof}"
    return _decision(label, ruling, opinions, mode, why, why)


def _decision(
    label: Label | None,
    ruling: Ruling,
    opinions: Sequence[ModelJudgement],
    mode: Mode,
    reasoning: str,
    unjudged: str = "",
) -> Decision:
    code = ruling.label if mode == "hybrid" else None
    return Decision(
        label=label,
        unjudged=unjudged if label is None else None,
        reasoning="" if label is None else reasoning,
        decided_by=decided_by(label, code, opinions, mode),
        contested=contested(label, code, opinions),
    )


def _only(ruling: Ruling) -> Label | None:
    """The one label that the code leaves open; None: there are several."""
    return next(iter(ruling.allowed)) if len(ruling.allowed) == 1 else None


def _most_said(opinions: Sequence[ModelJudgement]) -> tuple[Label | None, int]:
    """The label that most models say, and how many do."""
    votes = Counter(opinion.label for opinion in opinions if opinion.label is not None)
    return votes.most_common(1)[0] if votes else (None, 0)


def _reasoning(opinions: Sequence[ModelJudgement], label: Label | None) -> str:
    """That of the most confident model among those that say the label."""
    agreed = [opinion for opinion in opinions if opinion.label is label]
    return max(agreed, key=lambda opinion: opinion.confidence or 0.0).reasoning


def _says(opinions: Sequence[ModelJudgement]) -> str:
    """Example: "gpt-5 says completed, qwen3 gave no opinion" """
    return ", ".join(
        f"{opinion.model} gave no opinion"
        if opinion.label is None
        else f"{opinion.model} says {opinion.label}"
        for opinion in opinions
    )


def _faults(opinions: Sequence[ModelJudgement]) -> str:
    """Why opinions are missing, each reason once. A spent budget comes first: reports look for
    sentences that begin with it."""
    faults = dict.fromkeys(
        opinion.fault or f"no opinion of model {opinion.model!r}"
        for opinion in opinions
        if opinion.label is None
    )
    return "; ".join(sorted(faults, key=lambda fault: not fault.startswith("budget")))
