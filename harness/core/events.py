"""The facts of a run. Everything else (windows, verdicts, reports, training samples) is computed
from them.

An episode is `EpisodeStarted`, then `StepTaken` for each turn, then `EpisodeEnded`; verdicts follow
as `Judged`. Where the history policy asks the agent for summaries, they stand between the steps as
`HistorySummarized`. A Record stamps a fact with its episode, attempt, sequence number and time. The
key (episode, attempt, seq) is unique: whoever sees a key twice has seen one fact twice.
"""

from enum import StrEnum
from typing import Any, Literal

import msgspec

from envpool.core.types import StoredState, ToolResult
from harness.core.messages import Decision, Reply
from scenarios.checks import Finding


class Ending(StrEnum):
    """How an episode ended. The first is the agent's own end; the limits are truncations."""

    ANSWERED = "answered"
    FORMAT_ERROR = "format_error"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    POLICY_ERROR = "policy_error"
    WORLD_ERROR = "world_error"
    CANCELLED = "cancelled"

    @property
    def is_truncation(self) -> bool:
        """Whether a limit of the run cut the episode off (Gymnasium's `truncated`)."""
        return self in (Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT)


class Label(StrEnum):
    """What a judge says of an episode (AWM, arXiv:2602.10090)."""

    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_ERROR = "environment_error"


class EpisodeStarted(msgspec.Struct, frozen=True, tag="started", gc=False):
    """An episode began. Members of one group share the task and the start digest."""

    scenario: str
    task: str
    instruction: str
    group: str
    member: int  # 0 .. group_size - 1
    group_size: int
    seed: int
    policy: str
    dialect: str
    history: str  # the history policy, as in `last:3`
    fingerprint: str  # the history policy's
    scenario_digest: str  # of the scenario package
    start_digest: str  # of the start state
    seeding: str = ""  # how an AWM record was seeded; empty: a package of ours


class StepTaken(msgspec.Struct, frozen=True, tag="step", gc=False, omit_defaults=True):
    """One turn: what the policy answered, how it was read, and what its calls gave."""

    reply: Reply
    decision: Decision
    results: tuple[ToolResult, ...] = ()  # one for each call of an Act, in order
    first_turn: int = 0  # of the window that was shown
    reward: float | None = None  # step-level reward given by the format rules; None: none
    policy_s: float = 0.0  # seconds waiting for the reply
    calls_s: float = 0.0  # seconds in the world
    recalled: tuple[int, ...] = ()  # of the window that was shown


class HistorySummarized(msgspec.Struct, frozen=True, tag="summary", gc=False, omit_defaults=True):
    """The agent summed up what falls out of its history (see harness.history.summary).

    Also kept when it is of no use and ends the episode. It is no step: it has no place among the
    steps' rewards, and limits of steps do not count it.
    """

    reply: Reply
    turn: int  # of the step that comes next, from 0
    first_turn: int = 0  # of the window that was shown
    policy_s: float = 0.0  # seconds waiting for the reply


class EpisodeEnded(msgspec.Struct, frozen=True, tag="ended", gc=False):
    """The episode is over. Nothing live is needed any more to judge it."""

    ending: Ending
    answer: str  # the final answer; empty where there was none
    num_steps: int
    state: StoredState | None  # None: the world could not tell
    error: str | None = None  # why, for policy_error, world_error and format_error
    seconds: float = 0.0
    checked: tuple[Finding, ...] = ()  # made in the world itself, where its state is unknown


class ModelJudgement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one model judged about an episode, or why it gave no judgement."""

    model: str
    label: Label | None  # None: there is no judgement, `fault` says why
    fault: str = ""
    reasoning: str = ""
    confidence: float | None = None  # from 0 to 1; None: not stated
    cited: tuple[str, ...] = ()  # ids of the evidence items that it named, as in `F2`
    requests: int = 0  # sent for it, failed ones too
    prompt_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens that the server had in its cache
    completion_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the model has no price
    is_cached: bool = False  # from the verdict cache: no request was sent now
    seconds: float = 0.0


class Judged(msgspec.Struct, frozen=True, tag="judged", gc=False, omit_defaults=True):
    """One judge's verdict. `label` None: the judge could not judge, `unjudged` says why; such an
    episode has no reward (it is not a zero)."""

    judge: str  # which judge, as in `code` or `hybrid:gpt-5`
    label: Label | None
    reward: float | None  # of the task
    step_rewards: tuple[float, ...] = ()  # one a step
    findings: tuple[Finding, ...] = ()
    unjudged: str | None = None
    reasoning: str = ""
    episode_digest: str = ""  # of the facts that were judged
    cost_usd: float = 0.0  # of this judging, as far as prices are known
    rewards: str = ""  # the reward profile; empty: not known
    idle: tuple[str, ...] = ()  # goals among the findings that doing nothing meets, too
    code: Label | None = None  # beside models: what the code alone says; None: nothing
    proof: str = ""  # beside models: what the code proved, a sentence; empty: nothing
    judgements: tuple[ModelJudgement, ...] = ()  # one for each model
    rubric: str = ""  # the rubric's version, where models were asked


class WeightsPublished(msgspec.Struct, frozen=True, tag="weights", gc=False):
    """The trainer published new weights. It is a fact of the run: its record stands under the
    episode WEIGHTS, which never starts."""

    version: str
    path: str


WEIGHTS = "weights"  # what stands for the episode in records of WeightsPublished

Event = EpisodeStarted | StepTaken | HistorySummarized | EpisodeEnded | Judged | WeightsPublished
Kind = Literal["started", "step", "summary", "ended", "judged", "weights"]


class Record(msgspec.Struct, frozen=True, gc=False):
    """A stamped fact.

    `seq` counts the facts of one attempt at an episode from 0; verdicts come after the end.
    An episode that was cut off by a crash is tried again under the next `attempt`.
    """

    episode: str
    attempt: int
    seq: int
    at: float  # Unix seconds
    event: Event

    @property
    def key(self) -> tuple[str, int, int]:
        """What makes the fact unique within its run."""
        return (self.episode, self.attempt, self.seq)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def encode(value: Any) -> bytes:
    """MessagePack of a record, an event or any struct."""
    return _encoder.encode(value)


def decode_record(data: bytes) -> Record:
    """A record from MessagePack. Raises msgspec.DecodeError."""
    return _decoder.decode(data)


def decode_event(data: bytes) -> Event:
    """An event from MessagePack. Raises msgspec.DecodeError."""
    return _event_decoder.decode(data)


def kind_of(event: Event) -> str:
    """The event's word in topics and tables."""
    return str(event.__struct_config__.tag)
