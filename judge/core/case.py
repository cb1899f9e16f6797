"""The data that the parts of a judge that asks models exchange.

A Case is what is known of an episode before any model is asked. A Prompt is made from it, a
JudgeModel answers the prompt with a ModelJudgement, and voting (judge.llm.voting) makes one verdict
of the judgements and the CodeVerdict, which holds what code proves and what it leaves open.
"""

from typing import Literal, Protocol

import msgspec

from rehearsal_room.harness.core.events import Judged, Label, ModelJudgement, ProfileVerdict
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.core.evidence import Evidence
from rehearsal_room.scenarios.format import Task

# Whose verifiers they are: a package's verify.py, a model's (an AWM record's), a list of tool calls
# that are made at the episode's end, or the checks of a benchmark.
VerifierSource = Literal["package", "awm", "tool_calls", "suite"]


class Case(msgspec.Struct, frozen=True):
    """An episode that is over, with all that code knows about it."""

    trajectory: Trajectory
    evidence: Evidence
    idle: tuple[str, ...]  # goals that doing nothing meets, one name for each time; sorted
    code: Judged  # the verdict of the code judge alone
    verifier: VerifierSource
    task: Task | None = None  # None: only the log is known


class CodeVerdict(msgspec.Struct, frozen=True):
    """What code proves about a case, and what it leaves open."""

    label: Label | None  # the code judge's own label; None: it has none
    allowed: frozenset[Label]  # the labels that are left open; never empty
    proof: str  # what is proved, one sentence; empty: nothing, and every label is open


class Prompt(msgspec.Struct, frozen=True):
    """A question to a model."""

    messages: tuple[Message, ...]
    evidence_ids: tuple[str, ...]  # the ids that an answer may cite, as in `F2`
    num_tokens: int  # estimated
    omissions: tuple[str, ...] = ()  # what was left out, as the sentences that the prompt contains


def without_cost(judgement: ModelJudgement) -> ModelJudgement:
    """The judgement as it counts in a verdict that reuses it: nothing was sent, so the cost is
    zero."""
    return msgspec.structs.replace(
        judgement,
        requests=0,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        seconds=0.0,
    )


def profile_without_cost(verdict: ProfileVerdict | None) -> ProfileVerdict | None:
    """The verdict of a profile as it counts where it is reused."""
    if verdict is None or verdict.judgement is None:
        return verdict
    return msgspec.structs.replace(verdict, judgement=without_cost(verdict.judgement))


class JudgeModel(Protocol):
    """A model that judges."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def judge(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        """The model's judgement, with the reason in `fault` where there is none. Never raises."""
