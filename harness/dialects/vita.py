"""What VitaBench (meituan-longcat) sends a model: tool calling of the chat API, as its `generate`
writes it.

The world's rules are its system prompt, with the task's time. The history has each reply as it
came: its content, thoughts included, and arguments of calls as Python writes JSON; a call and a
result name their tool. What has no content and no calls leaves no trace: neither an empty reply nor
the opening, which the agent is not shown.
"""

import json
from typing import Any

from msgspec.structs import replace

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    NOTHING_SAID,
    Act,
    AgentCall,
    Answer,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import object_calls, user_messages
from rehearsal_room.harness.dialects.native import Native


class Vita(Native):
    """VitaBench's own messages."""

    name = "vita"
    reads_cut_replies = True

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt alone: the talk begins with words in the agent's name."""
        return (Message("system", briefing.rules),)

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls, whatever their names; its content otherwise, as it is."""
        sent = [replace(one, arguments={}) if one.arguments == "" else one for one in reply.calls]
        calls = object_calls(replace(reply, calls=tuple(sent)), turn=turn)
        if isinstance(calls, FormatError):
            return calls
        return Act(calls) if calls else Answer(reply.said or "")

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply as it came, and what followed."""
        if step.decision == NOTHING_SAID:
            return ()
        if isinstance(step.decision, FormatError):
            return super().turn_messages(step)
        said = step.reply.said
        wire: dict[str, Any] = {"role": "assistant", "content": said}
        if not isinstance(step.decision, Act):
            own = () if said is None else (Message("assistant", said, wire=wire),)
            return (*own, *user_messages(step))
        made = tuple(zip(step.reply.calls, step.decision.calls, step.results, strict=False))
        wire["tool_calls"] = [_wire_call(sent.id, read) for sent, read, _ in made]
        calls = tuple([sent for sent, _, _ in made])
        messages = [Message("assistant", said or "", calls, wire=wire)]
        for sent, _, result in made:
            wire = {"role": "tool", "content": result.text, "tool_call_id": sent.id}
            wire["name"] = sent.name
            messages.append(Message("tool", result.text, call_id=sent.id, wire=wire))
        return tuple(messages)


def _wire_call(identifier: str, call: AgentCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": identifier, "name": call.name, "function": function, "type": "function"}
