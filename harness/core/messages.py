"""The data that the episode loop and a policy exchange, in chat terms.

The loop shows a Window to the policy and gets a Reply; a dialect turns the Reply into a Decision.
"""

from collections.abc import Container
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.core.types import SentCall, ToolResult, ToolSpec


class AgentCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One tool call as the agent requested it.

    `arguments` is what the agent sent, decoded. It may not fit the tool's schema, and it is a str
    where the agent's text was not JSON. `id` is unique within its episode. `fields` is what a
    server sent beside them and wants back with the call, as it came; what it sent inside of
    `function` is under that name. None: it sent nothing else.

    Example: AgentCall("get_order", {"order_id": 1042}, "c3-0")
    Example: AgentCall("ping", {}, "a", {"extra_content": {"google": {"thought_signature": "s"}}})
    """

    name: str
    arguments: Any
    id: str
    fields: dict[str, Any] | None = None


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One chat message. Only assistant messages of the native dialect have `calls`; only messages
    of role `tool` have a `call_id`. `thought` and `fields` are those of the reply that an assistant
    message shows. `wire` is the message as a dialect sends it to a chat API, word for word; None:
    in the usual form."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[AgentCall, ...] = ()
    call_id: str | None = None  # id of the call that a tool message answers
    thought: str = ""
    fields: dict[str, Any] | None = None
    wire: dict[str, Any] | None = None


class Briefing(msgspec.Struct, frozen=True):
    """The information that an agent gets before its first turn."""

    instruction: str
    rules: str  # Markdown; empty: no rules
    tools: tuple[ToolSpec, ...]
    user: str  # the person on whose behalf the agent acts: name and role
    now: str  # the scenario's clock
    is_dialogue: bool = False  # a reply without a call is said to a user, who answers
    earlier: tuple[Message, ...] = ()  # the talk before the instruction


class Window(msgspec.Struct, frozen=True):
    """The messages that the policy may see at one step: a pure function of the episode's events.

    Every turn from `first_turn` on is shown (0: all turns are), besides the pinned head. Turns are
    counted from 0, as the episode's steps are.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()  # for the request's `tools` field; empty in text dialects
    first_turn: int = 0
    recalled: tuple[int, ...] = ()  # turns before `first_turn` that are shown too, in order
    asks_for_summary: bool = False  # the last message asks for a summary, not for the next step
    # Fields of an agent that asks the model by itself, as in {"tool_choice": "required"}; those of
    # the run's settings win. None: there are none.
    fields: dict[str, Any] | None = None


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts as the server reported them; 0 where it reported none."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0  # the part of prompt_tokens that came from the server's prefix cache
    reasoning_tokens: int = 0  # the part of completion_tokens that the server names so


ContentKind = Literal["", "null", "empty", "no_calls"]


class Reply(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A policy's answer: text, native calls, and from a token-level backend the exact tokens.

    Tokens are encoded as bytes (see harness.core.token_bytes). `token_ids` holds every token that
    was sampled, the end token included, and `logprobs` has one entry for each of them. The exact
    prompt that the policy was shown is the first `prompt_shared` tokens of the prompt of the
    episode's first reply, followed by `prompt_ids`: the windows of one episode begin alike, so the
    log does not repeat the common beginning at every step.
    """

    text: str = ""
    calls: tuple[AgentCall, ...] = ()
    finish: str = "stop"  # stop, length or tool_calls, whatever the server's word for it is
    usage: Usage = Usage()
    prompt_ids: bytes = b""
    prompt_shared: int = 0
    token_ids: bytes = b""
    logprobs: bytes = b""
    weights: str = ""  # the version of the weights that answered; empty: not known
    attempts: int = 1  # requests that were sent to get this reply
    limited_s: float = 0.0  # seconds of waits after rate limits before it
    early_s: float = 0.0  # seconds that it took before the episode asked for it (a rehearsal)
    # The field in which the server sent the thought with which `text` begins, as in
    # `reasoning_content`; empty: there is no thought, or the model wrote it into its text.
    thought: str = ""
    # Other fields of the message that a server may want back, as they came (`reasoning_details`);
    # None: there are none.
    fields: dict[str, Any] | None = None
    # The content that the server sent, where that is unusual: none beside no call (`null`), an
    # empty text beside calls (`empty`), or a text beside an empty list of calls (`no_calls`).
    content: ContentKind = ""

    @property
    def said(self) -> str | None:
        """The content that the server sent, without a thought that came in a field of its own;
        None: it sent none."""
        text = self.text
        if self.thought and text.startswith("<think>"):
            text = text.partition("</think>")[2]
        is_usual = bool(text) or not self.calls or self.content == "empty"
        return text if is_usual and self.content != "null" else None

    @property
    def was_cut(self) -> bool:
        """Whether the model was stopped at its limit of tokens, before it had finished."""
        return self.finish == "length"


class Act(msgspec.Struct, frozen=True, tag="act", gc=False):
    """The agent requests these calls, to be executed in order."""

    calls: tuple[AgentCall, ...]


class Answer(msgspec.Struct, frozen=True, tag="answer", gc=False):
    """The agent is done; `text` is its final answer."""

    text: str


class FormatError(msgspec.Struct, frozen=True, tag="format_error", gc=False):
    """The reply breaks the dialect's rules; `reason` is a sentence that the agent reads."""

    reason: str


# Of a reply without words and calls where the agent is asked again, as if it had said nothing.
NOTHING_SAID = FormatError("The reply is empty.")
Decision = Act | Answer | FormatError


def sent_calls(act: Act, reply: Reply, made: Container[str]) -> tuple[SentCall, ...]:
    """The calls of a reply that the world makes, with the ids that the model's server gave them.
    `made`: the ids of these calls in the log."""
    ids = [call.id for call in reply.calls]
    return tuple(
        SentCall(call.name, call.arguments, call.id, sent or "")
        for call, sent in zip_longest(act.calls, ids[: len(act.calls)])
        if call.id in made
    )


class UserAct(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a user's model in which it makes calls."""

    ids: tuple[str, ...]  # of the calls, as the model's server sent them
    text: str = ""  # beside them; the agent does not see it


class UserTurn(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a user says to a reply of the agent without a call, and what the user did before."""

    text: str  # empty only where the user ends the talk without a word
    ended: bool = False  # the user ends the talk, and with it the episode
    calls: tuple[AgentCall, ...] = ()  # the user's own calls, in order; the agent does not see them
    results: tuple[ToolResult, ...] = ()  # one for each of them
    tools: tuple[ToolSpec, ...] = ()  # that the agent has from now on, beside those it had
    # The messages in which a user's model made `calls`; empty: no model plays the user.
    acts: tuple[UserAct, ...] = ()
