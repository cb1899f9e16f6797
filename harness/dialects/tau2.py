"""What τ²-bench 1.0.1 sends a model: tool calling of the chat API, with its agent's instructions.

The texts are those of its `LLMAgent`. The history has what the model wrote, whole, and arguments of
calls as Python writes JSON.
"""

import json

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import result_text, user_messages
from rehearsal_room.harness.dialects.native import Native

_SYSTEM = """<instructions>
You are a customer service agent that helps the user according to the <policy> provided below.
In each turn you can either:
- Send a message to the user.
- Make a tool call.
You cannot do both at the same time.

Try to be helpful and always follow the policy. Always make sure you generate valid JSON only.
</instructions>
<policy>
{policy}
</policy>"""


class Tau2(Native):
    """τ²-bench's own messages; the world's rules are its policy."""

    name = "tau2"

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt alone: the talk begins with the agent's greeting."""
        return (Message("system", _SYSTEM.format(policy=briefing.rules)),)

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """As in the chat API; a text is said as it is, its thoughts included, unless they came in a
        field of their own. An empty reply is malformed."""
        if reply.calls:
            return super().read(reply, turn=turn)
        text = said_in(reply)
        return Answer(text) if text.strip() else FormatError("The reply is empty.")

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply as the model wrote it, and what followed."""
        text = said_in(step.reply)
        if not isinstance(step.decision, Act):
            return (Message("assistant", text), *user_messages(step))
        pairs = zip(step.reply.calls, step.decision.calls, strict=False)
        calls = [AgentCall(read.name, json.dumps(read.arguments), sent.id) for sent, read in pairs]
        messages = [Message("assistant", text, tuple(calls))]
        for call, result in zip(calls, step.results, strict=False):
            messages.append(Message("tool", result_text(result), call_id=call.id))
        return tuple(messages)


def said_in(reply: Reply) -> str:
    """The text of a reply without the thought that its server sent in a field of its own."""
    if not reply.thought:
        return reply.text
    return reply.text.partition("</think>")[2].lstrip("\n")
