"""A client's request for a model's reply, and the reply for the client, whatever the API is."""

from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import AgentCall, Message, Reply, Usage
from rehearsal_room.harness.core.token_bytes import ID_BYTES


class UnsupportedRequest(ValueError):
    """A request that this server cannot answer; the message is a sentence for the client."""


class ModelRequest(msgspec.Struct, frozen=True):
    """A request. `fields` are those that shape the reply besides messages and tools, in the words
    of the chat API, as they came (`temperature`, `tool_choice`, `stop`)."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    fields: dict[str, Any] = {}
    stream: bool = False
    stream_usage: bool = False  # whether the end of a stream of chat completions has the usage
    own: Any = None  # the field `rehearsal` of a chat request; None: it has none


class ClientReply(msgspec.Struct, frozen=True):
    """A reply in the form that the client gets. `thought` begins no text: it is apart."""

    text: str
    calls: tuple[AgentCall, ...]
    thought: str = ""
    thought_field: str = ""  # of a chat message, as in `reasoning_content`; empty: there is none
    fields: dict[str, Any] | None = None  # others of a chat message that come back


class ModelReply(msgspec.Struct, frozen=True):
    """A reply for a client. `finish` is stop, length or tool_calls."""

    reply: ClientReply
    finish: str
    usage: Usage
    # The field `rehearsal` of a chat completion: the format in which the model saw the messages.
    notes: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


_THOUGHT_BEGINS, _THOUGHT_ENDS = "<think>", "</think>"


def model_reply(reply: Reply) -> ModelReply:
    """A policy's reply as a client gets it: a thought that its server sent apart is apart again."""
    text, thought = reply.text, ""
    if reply.thought and text.startswith(_THOUGHT_BEGINS) and _THOUGHT_ENDS in text:
        thought, _, text = text[len(_THOUGHT_BEGINS) :].partition(_THOUGHT_ENDS)
    shown = ClientReply(text, reply.calls, thought, reply.thought, reply.fields)
    usage = reply.usage
    if not usage.completion_tokens and reply.token_ids:
        usage = Usage(usage.prompt_tokens, len(reply.token_ids) // ID_BYTES)
    return ModelReply(shown, reply.finish, usage)
