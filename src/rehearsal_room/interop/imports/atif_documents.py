"""The documents of Harbor's Agent Trajectory Interchange Format, as far as they are read.

Unknown fields are passed over. What `rehearse export --to atif` puts into `extra` under the key
`rehearsal` has the types of the log; each of these structs says whose `extra` it is.
"""

from typing import Annotated, Any

import msgspec

from rehearsal_room.envpool.core.types import ServerRequest, ToolErrorKind
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.scenarios.checks import Finding

TokenCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]  # of a token


class AtifPart(msgspec.Struct):
    """One part of a message that is not plain text."""

    type: str = "text"
    text: str | None = None


AtifText = str | list[AtifPart] | None


class CallFacts(msgspec.Struct):
    """What our export put into the `extra` of a call."""

    arguments: Any = None  # where they are not an object


class CallExtra(msgspec.Struct):
    """The `extra` of a call."""

    rehearsal: CallFacts = msgspec.field(default_factory=CallFacts)


class ToolCall(msgspec.Struct):
    """A call that a reply made."""

    function_name: str
    tool_call_id: str = ""
    arguments: dict[str, Any] = {}
    extra: CallExtra | None = None


class ResultFacts(msgspec.Struct):
    """What our export put into the `extra` of a result."""

    error: ToolErrorKind | None = None
    injected: bool = False
    asked: tuple[ServerRequest, ...] = ()


class ResultExtra(msgspec.Struct):
    """The `extra` of a result."""

    rehearsal: ResultFacts = msgspec.field(default_factory=ResultFacts)


class AtifResult(msgspec.Struct):
    """What a tool returned; `source_call_id` None: for which call is not known."""

    source_call_id: str | None = None
    content: AtifText = None
    extra: ResultExtra | None = None


class Observation(msgspec.Struct):
    """What the agent saw after a step."""

    results: list[AtifResult] = []


class AtifMetrics(msgspec.Struct):
    """Tokens of a reply, as far as they were counted or kept."""

    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    cached_tokens: TokenCount | None = None
    prompt_token_ids: list[TokenId] | None = None
    completion_token_ids: list[TokenId] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class AtifCall(msgspec.Struct):
    """A call as our log has it; its arguments need not be an object."""

    name: str
    arguments: Any = None
    id: str = ""


class TextResult(msgspec.Struct):
    """A result as our log has it."""

    text: str
    error: ToolErrorKind | None = None


class StepFacts(msgspec.Struct):
    """What our export put into the `extra` of a step: of the agent's, and of a user's."""

    finish: str = ""
    first_turn: TokenCount = 0
    recalled: list[TokenCount] = []
    summary: bool = False
    format_error: str | None = None
    reward: float | None = None
    sent_calls: list[AtifCall] = []
    ended: bool = False
    calls: list[AtifCall] = []
    results: list[TextResult] = []
    tools: list[dict[str, Any]] = []


class StepExtra(msgspec.Struct):
    """The `extra` of a step."""

    rehearsal: StepFacts = msgspec.field(default_factory=StepFacts)


class AtifStep(msgspec.Struct):
    """A message of the system, the user or the agent, with the calls and results of an agent's."""

    source: str
    message: AtifText = ""
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    extra: StepExtra | None = None

    @property
    def facts(self) -> StepFacts:
        """What our export put into `extra`."""
        return self.extra.rehearsal if self.extra else StepFacts()


class AtifAgent(msgspec.Struct):
    """Who played, and the tools that it was given."""

    name: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None


class ForkFacts(msgspec.Struct):
    """The turn of another episode at which this one began."""

    run: str
    episode: str
    turn: TokenCount


class AtifFacts(msgspec.Struct):
    """What our export put into the document's `extra`, as far as it is read."""

    run: str = ""
    episode: str = ""
    scenario: str = ""
    task: str = ""
    instruction: str = ""
    group: str = ""
    member: TokenCount = 0
    group_size: TokenCount = 1
    seed: TokenCount = 0
    dialect: str = ""
    history: str = "full"
    hidden: list[str] = []
    tags: list[str] = []
    forked_from: ForkFacts | None = None
    ending: Ending | None = None
    error: str | None = None
    judge: str | None = None
    label: Label | None = None
    reward: float | None = None
    step_rewards: list[float] = []
    findings: list[Finding] = []


class DocumentExtra(msgspec.Struct):
    """The document's `extra`."""

    rehearsal: AtifFacts = msgspec.field(default_factory=AtifFacts)


class Document(msgspec.Struct):
    """A trajectory: one episode."""

    schema_version: str
    agent: AtifAgent
    steps: list[AtifStep]
    trajectory_id: str | None = None
    extra: DocumentExtra | None = None
