"""The facts of a run. Everything else (windows, verdicts, reports, training samples) is computed
from them.

The facts of an episode are `EpisodeStarted`, then `StepTaken` for each turn, then `EpisodeEnded`;
its verdicts follow as `Judged`. Where the history window asks the agent for a summary, the summary
is a `HistorySummarized` between two steps. Where the agent is a program that asks a model by
itself, each reply is a `ModelAsked`, what it writes beside its calls is an `AgentOutput`, and the
OpenTelemetry spans that it sends are an `AgentSpans`. A Record stamps a fact with its episode,
attempt, sequence number and time. The key (episode, attempt, seq) is unique: a key that arrives
twice is the same fact, delivered twice.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

import msgspec

from rehearsal_room.envpool.core.types import SentCall, StoredState, ToolResult, ToolSpec
from rehearsal_room.harness.core.folding import has_folded, is_of_fold
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Decision,
    Message,
    Reply,
    UserTurn,
    sent_calls,
)
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding


class Ending(StrEnum):
    """How an episode ended. ANSWERED is the agent's own decision; the limits are truncations.

    POLICY_ERROR: the model could not answer, which says nothing about the agent. AGENT_FAILED: the
    agent is the user's own program, and that raised, hung or returned no text: it has failed.
    MODEL_REFUSED: the model's provider withheld a reply."""

    ANSWERED = "answered"
    FORMAT_ERROR = "format_error"
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    POLICY_ERROR = "policy_error"
    MODEL_REFUSED = "model_refused"
    AGENT_FAILED = "agent_failed"
    WORLD_ERROR = "world_error"
    CANCELLED = "cancelled"

    @property
    def is_truncation(self) -> bool:
        """Whether a limit of the run cut the episode off (Gymnasium's `truncated`)."""
        return self in (Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT)

    @property
    def lacks_reply(self) -> bool:
        """Whether the agent's model gave no reply, by a failure or because its provider withheld
        it: no fault of the agent, and no verdict."""
        return self is Ending.POLICY_ERROR or self is Ending.MODEL_REFUSED


class Label(StrEnum):
    """A judge's classification of an episode (AWM, arXiv:2602.10090)."""

    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_ERROR = "environment_error"


class ForkedFrom(msgspec.Struct, frozen=True, gc=False):
    """The episode, of another run or of the same group, with whose first turns one begins."""

    run: str  # the run's folder, as it was named; empty: this run
    episode: str
    turn: int  # number of turns that were kept, so the first turn (from 0) that was played here

    @property
    def where(self) -> str:
        """The episode with its run.

        Example: ForkedFrom("runs/mine", "e000003", 5) -> "runs/mine/e000003"
        """
        return f"{self.run}/{self.episode}" if self.run else self.episode


class ForkEdit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What somebody changed in a fork by hand."""

    turns: int = 0  # after the kept ones, that somebody wrote in the agent's name
    instruction: str | None = None  # of the task, where the episode has another one


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The final state of another episode, in which one begins: whose state it is, and how the world
    is brought into it. Nothing else is needed for that, so a log is read without the other one."""

    episode: str  # of the same run
    start_digest: str  # of the world before the calls
    calls: tuple[AgentCall, ...]  # of that episode, after those with which it began itself
    changes: tuple[RowChange, ...] = ()  # the rows that differ, that state against the world's own


class EpisodeStarted(msgspec.Struct, frozen=True, tag="started", gc=False):
    """An episode began. Members of one group share the task and the start digest, and where they
    are forks, the turns that they keep.

    An episode that does not begin at its start repeats the replies that it keeps as its first
    facts: those of the attempt before, which was interrupted, or those of `forked_from`.
    """

    scenario: str
    task: str
    instruction: str
    group: str
    member: int  # 0 .. group_size - 1
    group_size: int
    seed: int
    policy: str
    dialect: str
    history: str  # the history window, as in `last:3`
    fingerprint: str  # of the history window
    scenario_digest: str  # of the scenario package
    start_digest: str  # of the world's start state
    seeding: str = ""  # how an AWM record was seeded; empty: a package in our own format
    kept: int = 0  # replies (steps and summaries) that follow and are copies of logged ones
    forked_from: ForkedFrom | None = None  # None: it is not a fork
    is_dialogue: bool = False  # a reply without a call is said to a user, who answers
    hidden: tuple[str, ...] = ()  # tools of the world that the agent does not have at the start
    tags: tuple[str, ...] = ()  # of the task: its difficulty, its kind (see Task.tags)
    given: int = 0  # turns at the start that the task gave to the agent (see ModelUser.opening)
    earlier: tuple[Message, ...] = ()  # the talk before the instruction
    edit: ForkEdit | None = None  # of a fork; None: nobody changed anything
    # In whose final state it begins, to which `start_digest` belongs; None: in the world's own.
    origin: Origin | None = None
    rules: str | None = None  # that were written from the state; None: those of the scenario

    @property
    def is_branch(self) -> bool:
        """Whether the episode branches from another member of its group."""
        return self.forked_from is not None and not self.forked_from.run


class StepTaken(msgspec.Struct, frozen=True, tag="step", gc=False, omit_defaults=True):
    """One turn: the policy's reply, how the dialect read it, and the results of its calls."""

    reply: Reply
    decision: Decision
    results: tuple[ToolResult, ...] = ()  # one for each call of an Act, in order
    first_turn: int = 0  # `Window.first_turn` of the window that the policy was shown
    reward: float | None = None  # step reward from the format rules; None: they gave none
    policy_s: float = 0.0  # seconds spent waiting for the reply
    calls_s: float = 0.0  # seconds spent in the world
    recalled: tuple[int, ...] = ()  # `Window.recalled` of that window
    user: UserTurn | None = None  # in a dialogue: what the user says to an answer
    user_s: float = 0.0  # seconds spent waiting for the user
    call_s: tuple[float, ...] = ()  # of `calls_s`, those of each call, where there are several
    # The agent ended without a word and is asked again: nothing up to here is shown any more. Its
    # world stays as it is.
    again: bool = False

    @property
    def folds(self) -> bool:
        """Whether the agent folded its history in this turn (see harness.core.folding)."""
        if not isinstance(self.decision, Act):
            return False
        made = zip(self.decision.calls, self.results, strict=False)
        return any(has_folded(call, result) for call, result in made)

    @property
    def executed_calls(self) -> tuple[AgentCall, ...]:
        """The calls of the turn: the agent's, or in an answer to a user the user's own."""
        if isinstance(self.decision, Act):
            return self.decision.calls
        return () if self.user is None else self.user.calls

    def calls_of_world(self, hidden: Sequence[str] | None = None) -> tuple[SentCall, ...]:
        """The agent's calls that the world made; none where it made none. `hidden`: see
        `was_refused`; None: no call that names an unknown tool was made."""
        if not isinstance(self.decision, Act):
            return ()
        pairs = zip(self.decision.calls, self.results, strict=False)
        made = {call.id for call, one in pairs if not self._is_not_made(call, one, hidden)}
        return sent_calls(self.decision, self.reply, made)

    def _is_not_made(
        self, call: AgentCall, result: ToolResult, hidden: Sequence[str] | None
    ) -> bool:
        if result.injected or is_of_fold(call, result):
            return True
        if hidden is None:
            return result.error == "unknown_tool"
        return self.was_refused(call, result, hidden)

    def was_refused(self, call: AgentCall, result: ToolResult, hidden: Sequence[str]) -> bool:
        """Whether the harness refused one of `executed_calls`, so that the world was not asked: the
        tool is the other's. `hidden`: see EpisodeStarted."""
        return result.error == "unknown_tool" and (self.user is not None or call.name in hidden)

    @property
    def executed_results(self) -> tuple[ToolResult, ...]:
        """The results of `executed_calls`, as far as the turn came."""
        return self.results if self.user is None else self.user.results


class HistorySummarized(msgspec.Struct, frozen=True, tag="summary", gc=False, omit_defaults=True):
    """The agent summarised the turns that leave its history (see harness.history.summary).

    Recorded also when the reply is not a usable summary and ends the episode. A summary is not a
    step: `Judged.step_rewards` has no entry for it, and step limits do not count it.
    """

    reply: Reply
    turn: int  # index of the step that comes next, from 0
    first_turn: int = 0  # `Window.first_turn` of the window that the policy was shown
    policy_s: float = 0.0  # seconds spent waiting for the reply


class ModelAsked(msgspec.Struct, frozen=True, tag="model", gc=False, omit_defaults=True):
    """The agent, a program of the user's own, asked the model at the URL that its episode has.

    `messages` are those of the request beyond the first `shared` of an earlier conversation: of
    request `parent`, with its reply. So the requests of an episode are a tree: a history that only
    grows is one branch, and one that the agent rewrote, or a second agent, begins another.
    """

    request: int  # its number in the episode, from 0, in the order in which replies came
    turn: int  # index of the step that comes next, from 0
    messages: tuple[Message, ...]
    reply: Reply | None = None  # None: there is none, and `error` has the reason
    parent: int | None = None  # None: nothing is shared
    shared: int = 0
    tools: tuple[ToolSpec, ...] | None = None  # that were offered; None: those of the parent
    fields: dict[str, Any] | None = None  # more fields of the request; None: there are none
    api: str = "chat"  # chat, responses or messages
    first_turn: int = 0  # `Window.first_turn` of the window that the model was shown
    error: str = ""
    seconds: float = 0.0  # until the reply


class AgentOutput(msgspec.Struct, frozen=True, tag="output", gc=False, omit_defaults=True):
    """What an agent of the user's own wrote beside its calls, and how its process ended."""

    stdout: str = ""  # its beginning
    stderr: str = ""  # its end
    status: int | None = None  # of its process, negative: the signal; None: it had none
    left_out: int = 0  # bytes of both that are not here
    seconds: float = 0.0  # that it ran


AttributeValue = str | int | float | bool


class SpanEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What happened at one moment of a span, such as an exception."""

    name: str
    after: float = 0.0  # seconds since the span began
    attributes: dict[str, AttributeValue] = {}


class AgentSpan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One OpenTelemetry span of an agent: a piece of its work, from when to when."""

    trace: str  # 32 hexadecimal digits
    id: str  # 16 hexadecimal digits
    name: str
    began: float = 0.0  # Unix seconds
    seconds: float = 0.0
    parent: str = ""  # id of the span to which it belongs; empty: to none
    kind: str = ""  # internal, server, client, producer or consumer; empty: not said
    status: Literal["", "ok", "error"] = ""  # empty: not said
    message: str = ""  # about the status
    attributes: dict[str, AttributeValue] = {}  # lists and tables as JSON
    events: tuple[SpanEvent, ...] = ()
    scope: str = ""  # the instrumenting library
    service: str = ""  # the program, as it calls itself


class AgentSpans(msgspec.Struct, frozen=True, tag="spans", gc=False, omit_defaults=True):
    """The OpenTelemetry spans that an agent of the user's own sent to its episode."""

    spans: tuple[AgentSpan, ...] = ()  # in the order in which they came
    left_out: int = 0  # spans beyond the limits
    num_refused: int = 0  # requests that were refused
    why: str = ""  # why the latest of these was


class EpisodeEnded(msgspec.Struct, frozen=True, tag="ended", gc=False):
    """The episode is over. A judge needs nothing live any more: the facts suffice."""

    ending: Ending
    answer: str  # the final answer; empty where there was none
    num_steps: int
    state: StoredState | None  # the world's final state; None: the world could not report it
    error: str | None = None  # the reason, where the ending needs one, as policy_error does
    seconds: float = 0.0
    checked: tuple[Finding, ...] = ()  # findings made inside the world, where its state is unknown


class ModelJudgement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One model's judgement of an episode, or the reason why there is none."""

    model: str
    label: Label | None  # None: there is no judgement; `fault` has the reason
    fault: str = ""
    reasoning: str = ""
    confidence: float | None = None  # from 0 to 1; None: the model gave none
    cited: tuple[str, ...] = ()  # ids of the evidence items that the model named, as in `F2`
    requests: int = 0  # sent for this judgement, failed ones included
    prompt_tokens: int = 0
    cached_tokens: int = 0  # the part of prompt_tokens that came from the server's prefix cache
    completion_tokens: int = 0
    cost_usd: float | None = 0.0  # None: the model's price is unknown
    is_cached: bool = False  # taken from the verdict cache, so no request was sent
    seconds: float = 0.0


class ProfileVerdict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How another project's own code would score the episode (setting `profile`). It stands beside
    our verdict and changes nothing in it."""

    profile: str  # whose, as in `awm-release`
    # One of its classes; for awm-release complete, incomplete, server_error, agent_error and
    # judge_error. Empty: it has none, and `reason` says why.
    classification: str
    reward: float | None  # None: no classification
    reason: str = ""
    judgement: ModelJudgement | None = None  # of its model; None: no model was asked


class VerifierRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where the verifier of a verdict ran."""

    # in_process: in the process of the run; worker: in a process of its own, which had executed
    # nothing else; tool_calls: in the world itself, before the episode's end.
    where: Literal["in_process", "worker", "tool_calls"]
    pid: int = 0  # of the worker's process
    sandbox: str = ""  # the worker's sandbox level, such as `seccomp+landlock`


class Judged(msgspec.Struct, frozen=True, tag="judged", gc=False, omit_defaults=True):
    """One judge's verdict. `label` None: the judge could not judge, and `unjudged` has the reason;
    such an episode has no reward (the reward is not zero)."""

    judge: str  # which judge, as in `code` or `hybrid:gpt-5`
    label: Label | None
    reward: float | None  # of the task
    step_rewards: tuple[float, ...] = ()  # one for each step
    findings: tuple[Finding, ...] = ()
    unjudged: str | None = None
    reasoning: str = ""
    episode_digest: str = ""  # of the facts that were judged
    cost_usd: float = 0.0  # of this judging, as far as prices are known
    rewards: str = ""  # the reward profile; empty: not known
    idle: tuple[str, ...] = ()  # goals among the findings that doing nothing meets, too
    code: Label | None = None  # beside models: the label by code alone; None: code has none
    proof: str = ""  # beside models: what the code proved, a sentence; empty: nothing
    judgements: tuple[ModelJudgement, ...] = ()  # one for each model
    rubric: str = ""  # the rubric's version, where models were asked
    verifier_run: VerifierRun | None = None  # None: no verifier ran, or the log is older
    diagnosis: Diagnosis | None = None  # None: not found yet, as in logs of earlier versions
    profile: ProfileVerdict | None = None  # beside ours; None: the run has no profile
    share: float | None = None  # of the task, 0 to 1 (see share_of); None: it is all or nothing
    # What models said of single criteria (see judge.llm.criteria), and what they took to answer a
    # benchmark's own questions. `judgements` are of the whole episode.
    asked: tuple[ModelJudgement, ...] = ()
    mac: str = ""  # of a verdict that came over a broker (harness.following.signed_verdicts)


class WeightsPublished(msgspec.Struct, frozen=True, tag="weights", gc=False):
    """The trainer published new weights. This is a fact of the run, not of an episode: its
    record has WEIGHTS_EPISODE as its episode, and no episode of that name ever starts."""

    version: str
    path: str


WITH_ERRORS = " with errors "  # in the name of a judge into whose verdicts errors are planted
AGENT = "agent:"  # begins the policy's name where an agent of the user's own plays
WEIGHTS_EPISODE = "weights"  # `Record.episode` of every WeightsPublished


class FaultInjected(msgspec.Struct, frozen=True, tag="fault", gc=False, omit_defaults=True):
    """A fault was injected on purpose (see harness.chaos). This is a fact of the run: its record
    belongs to no episode, so the facts of the episode that it hit are those of any other.

    It is recorded when it is known what the fault did, so shortly after the fault itself.
    """

    fault: str  # table and key of the chaos file, as in `tools.lost_reply`
    landed: bool = True  # False: there was nothing that it could hit, so it changed nothing
    retried: bool = False  # something was done again because of it
    episode: str = ""  # that it hit; empty: none, or not known
    attempt: int = 0  # at that episode
    turn: int = 0  # from 0
    call: str = ""  # id of the tool call that it hit; empty: it hit no call
    target: str = ""  # what else it hit, as in `rollout process 2 (pid 4711)`
    seconds: float = 0.0  # how long it lasted


FAULTS_EPISODE = "faults"  # `Record.episode` of a FaultInjected begins with it, and no other does

Event = (
    EpisodeStarted
    | StepTaken
    | HistorySummarized
    | ModelAsked
    | AgentOutput
    | AgentSpans
    | EpisodeEnded
    | Judged
    | WeightsPublished
    | FaultInjected
)
EventKind = Literal[
    "started",
    "step",
    "summary",
    "model",
    "output",
    "spans",
    "ended",
    "judged",
    "weights",
    "fault",
]


# A name that may come from anybody and becomes a file's name: no separator, no control character,
# and no dot in front.
_NAME = r"\A(?!\.)[^/\\\x00-\x1f\x7f]{1,200}\Z"
EpisodeName = Annotated[str, msgspec.Meta(pattern=_NAME)]
_is_name = re.compile(_NAME).match


def require_episode_name(name: str) -> None:
    """Raise msgspec.DecodeError for what no episode is called: readers of logs and messages check
    it, so that a name can be a file's."""
    if _is_name(name) is None:
        raise msgspec.DecodeError(f"{name[:60]!r} is not the name of an episode")


class Record(msgspec.Struct, frozen=True, gc=False):
    """A fact with its stamp.

    `seq` counts the facts of one attempt at an episode from 0; verdicts come after the end.
    An episode that a crash cut off is repeated under the next `attempt`.
    """

    episode: EpisodeName
    attempt: int
    seq: int
    at: float  # Unix seconds
    event: Event

    @property
    def key(self) -> tuple[str, int, int]:
        """(episode, attempt, seq), which is unique within the run."""
        return (self.episode, self.attempt, self.seq)


_encoder = msgspec.msgpack.Encoder()
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


class _Tagged(msgspec.Struct):
    """What is read of an event of whatever kind."""

    type: str


_KINDS = frozenset(get_args(EventKind))
_tag_decoder: msgspec.msgpack.Decoder[_Tagged] = msgspec.msgpack.Decoder(_Tagged)


def encode(value: Any) -> bytes:
    """A record, an event or any other struct as MessagePack."""
    return _encoder.encode(value)


def decode_event(data: bytes) -> Event:
    """The event in MessagePack bytes. Raises msgspec.DecodeError."""
    return _event_decoder.decode(data)


def is_of_unknown_kind(kind: str, data: bytes) -> bool:
    """Whether an encoded event is of this kind, and this version does not have the kind: a later
    one wrote it. Readers pass over such an event."""
    if kind in _KINDS:
        return False
    try:
        return _tag_decoder.decode(data).type == kind
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return False


def kind_of(event: Event) -> str:
    """The event's tag: the word for its kind in topics and tables."""
    return str(event.__struct_config__.tag)
