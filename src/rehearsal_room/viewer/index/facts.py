"""What the index reads of a logged event: a few fields, so that decoding costs little.

The structs take the same bytes as those of `rehearsal_room.harness.core.events`; token ids,
digests and rows are passed over without becoming objects.
"""

from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending, ForkedFrom, Label
from rehearsal_room.harness.core.mistakes import Turn
from rehearsal_room.scenarios.checks import Finding


class ToolCallFact(msgspec.Struct, gc=False):
    """A call of the agent or of a user."""

    name: str
    arguments: Any = None


class ChangeFact(msgspec.Struct, gc=False):
    """A changed row."""

    table: str


class ResultFact(msgspec.Struct, gc=False):
    """The result of a call."""

    text: str = ""
    error: str | None = None
    changes: tuple[ChangeFact, ...] = ()
    digest: str = ""


class DecisionFact(msgspec.Struct, gc=False):
    """How the reply was read: one of three decisions, which share no field."""

    calls: tuple[ToolCallFact, ...] = ()
    reason: str | None = None  # of a format error


class UsageFact(msgspec.Struct, frozen=True, gc=False):
    """Counts of tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


NO_USAGE = UsageFact()  # of every reply that logged none


class ReplyFact(msgspec.Struct, gc=False):
    """The policy's answer."""

    text: str = ""
    usage: UsageFact = NO_USAGE
    weights: str = ""


class UserFact(msgspec.Struct, gc=False):
    """The user's part of a turn."""

    text: str = ""
    calls: tuple[ToolCallFact, ...] = ()
    results: tuple[ResultFact, ...] = ()


class StepFact(msgspec.Struct, gc=False):
    """A turn."""

    reply: ReplyFact
    decision: DecisionFact
    results: tuple[ResultFact, ...] = ()
    policy_s: float = 0.0
    calls_s: float = 0.0
    user: UserFact | None = None
    user_s: float = 0.0


class SummaryFact(msgspec.Struct, gc=False):
    """A summary of earlier turns."""

    reply: ReplyFact
    policy_s: float = 0.0


class Started(msgspec.Struct, gc=False):
    """The start of an episode."""

    scenario: str
    task: str
    instruction: str
    group: str
    member: int
    seed: int
    policy: str
    dialect: str
    history: str
    scenario_digest: str
    start_digest: str
    kept: int = 0
    forked_from: ForkedFrom | None = None
    tags: tuple[str, ...] = ()


class Ended(msgspec.Struct, gc=False):
    """The end of an episode."""

    ending: Ending
    answer: str
    num_steps: int
    error: str | None = None
    seconds: float = 0.0


class Judgement(msgspec.Struct, gc=False):
    """One model's judgement."""

    fault: str = ""
    reasoning: str = ""
    requests: int = 0
    cost_usd: float | None = 0.0


class MistakeFact(msgspec.Struct, gc=False):
    """A mistake."""

    kind: str
    turn: Turn


class DiagnosisFact(msgspec.Struct, gc=False):
    """The mistakes of an episode."""

    mistakes: tuple[MistakeFact, ...] = ()


class JudgedFact(msgspec.Struct, gc=False):
    """A verdict."""

    judge: str
    label: Label | None
    reward: float | None
    findings: msgspec.Raw = msgspec.Raw(b"\x90")  # see findings_of; of most verdicts not needed
    unjudged: str | None = None
    reasoning: str = ""
    judgements: tuple[Judgement, ...] = ()
    diagnosis: DiagnosisFact | None = None
    share: float | None = None
    asked: tuple[Judgement, ...] = ()


step_of = msgspec.msgpack.Decoder(StepFact).decode
summary_of = msgspec.msgpack.Decoder(SummaryFact).decode
started_of = msgspec.msgpack.Decoder(Started).decode
ended_of = msgspec.msgpack.Decoder(Ended).decode
judged_of = msgspec.msgpack.Decoder(JudgedFact).decode
findings_of = msgspec.msgpack.Decoder(tuple[Finding, ...]).decode
