"""What the parts of a reasoning judge hand to each other.

A Case is what is known of an episode before anybody gives an opinion. Of a case a Prompt is made,
a Reasoner answers it with an ModelJudgement, and the panel makes a verdict of the opinions and the
Ruling, which is what the code has to say.
"""

from typing import Literal, Protocol

import msgspec

from harness.core.events import Judged, Label, ModelJudgement
from harness.core.messages import Message
from harness.core.trajectory import Trajectory
from judge.core.evidence import Evidence


class Case(msgspec.Struct, frozen=True):
    """An episode that is over, with all that the code knows of it."""

    trajectory: Trajectory
    evidence: Evidence
    idle: tuple[str, ...]  # goals that doing nothing meets, a name for each time; sorted
    code: Judged  # what the code judge says by itself
    # Who wrote the verifier: we did, a model (an AWM record's), or it is a list of tool calls.
    author: Literal["ours", "awm", "foreign"]


class Ruling(msgspec.Struct, frozen=True):
    """What the code has to say in a case."""

    label: Label | None  # its own opinion; None: it has none
    allowed: frozenset[Label]  # the labels that it leaves open; never empty
    proof: str  # what it proved, a sentence; empty: nothing, and every label is open


class Prompt(msgspec.Struct, frozen=True):
    """A question to a model."""

    messages: tuple[Message, ...]
    exhibits: tuple[str, ...]  # the ids on which an answer may lean, as in `F2`
    num_tokens: int  # estimated
    cut: tuple[str, ...] = ()  # what was left out, in sentences that the prompt says, too


def had_again(opinion: ModelJudgement) -> ModelJudgement:
    """The opinion in a verdict for which nobody was asked: it took nothing."""
    return msgspec.structs.replace(
        opinion,
        requests=0,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        seconds=0.0,
    )


class Reasoner(Protocol):
    """A model that can be asked for an opinion."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def opinion(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        """What the model says, or in `fault` why nothing could be had; never an exception."""
