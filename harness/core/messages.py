"""What passes between the episode loop and a policy, in chat terms.

The loop shows a Window and gets a Reply; a dialect turns the Reply into a Decision.
"""

from typing import Any, Literal

import msgspec

from envpool.core.types import ToolSpec


class AgentCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One tool call as an agent asked for it.

    `arguments` is what the agent sent, decoded; it need not fit the tool's schema, and is a text
    where it was no JSON at all. `id` is unique within its episode.

    Example: AgentCall("get_order", {"order_id": 1042}, "c3-0")
    """

    name: str
    arguments: Any
    id: str


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One chat message. `calls` only on assistant messages of the native dialect; `call_id` only
    on role `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[AgentCall, ...] = ()
    call_id: str | None = None  # the call that a tool message answers


class Briefing(msgspec.Struct, frozen=True):
    """What an agent is told before its first turn."""

    instruction: str
    rules: str  # Markdown; empty: no rules
    tools: tuple[ToolSpec, ...]
    user: str  # who acts, in words
    now: str  # the scenario's clock


class Window(msgspec.Struct, frozen=True):
    """What the policy may see at one step: a pure function of the episode's events.

    `first_turn` is the index of the oldest turn after the pinned head from which on all are shown
    (0: all). Turns are counted from 0, as the episode's steps are.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()  # for the request's `tools` field; empty in text dialects
    first_turn: int = 0
    recalled: tuple[int, ...] = ()  # earlier turns that are shown before it, in order
    summarise: bool = False  # the messages end by asking for a summary, not for the next step


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts as the server reported them; 0 where it did not."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0  # of the prompt's, those that the server had kept


class Reply(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a policy answered: text, native calls, and from a token-level backend the tokens.

    Tokens are bytes (see harness.core.token_bytes). `logprobs` has one entry for each of
    `token_ids`, which
    are all that was sampled, the end token included. The exact tokens that the policy was shown
    are the first `prompt_shared` tokens of the prompt of the episode's first reply, and then
    `prompt_ids`: windows of one episode begin alike, and a log need not say it at every step.
    """

    text: str = ""
    calls: tuple[AgentCall, ...] = ()
    finish: str = "stop"  # as in the chat API: stop, length, tool_calls, content_filter
    usage: Usage = Usage()
    prompt_ids: bytes = b""
    prompt_shared: int = 0
    token_ids: bytes = b""
    logprobs: bytes = b""
    weights: str = ""  # the version of the weights that answered; empty: not known
    attempts: int = 1  # requests it took


class Act(msgspec.Struct, frozen=True, tag="act", gc=False):
    """The agent wants these calls executed, in order."""

    calls: tuple[AgentCall, ...]


class Answer(msgspec.Struct, frozen=True, tag="answer", gc=False):
    """The agent is done and says this."""

    text: str


class FormatError(msgspec.Struct, frozen=True, tag="format_error", gc=False):
    """The reply breaks the dialect's rules; `reason` is a sentence for the agent."""

    reason: str


Decision = Act | Answer | FormatError
