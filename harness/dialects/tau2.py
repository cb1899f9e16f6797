"""What τ²-bench 1.0.1 sends a model: tool calling of the chat API, with its agent's instructions.

The texts are those of its `LLMAgent`. The history has what the model wrote after its thought, and
arguments of calls as Python writes JSON.
"""

import json
from collections.abc import Sequence

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
from rehearsal_room.harness.dialects.base import after_thought, result_text, user_messages
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.scenarios.format import Call

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
    reads_cut_replies = True

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt alone: the talk begins with the agent's greeting."""
        return (Message("system", _SYSTEM.format(policy=briefing.rules)),)

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """As in the chat API; a text is said as it is, but for the thought with which it begins."""
        return super().read(reply, turn=turn) if reply.calls else Answer(after_thought(reply.text))

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply as the model wrote it, and what followed."""
        if isinstance(step.decision, FormatError):
            return super().turn_messages(step)
        text = after_thought(step.reply.text)
        if not isinstance(step.decision, Act):
            return (Message("assistant", text), *user_messages(step))
        pairs = zip(step.reply.calls, step.decision.calls, strict=False)
        calls = [AgentCall(read.name, json.dumps(read.arguments), sent.id) for sent, read in pairs]
        messages = [Message("assistant", text, tuple(calls))]
        for call, result in zip(calls, step.results, strict=False):
            messages.append(Message("tool", result_text(result), call_id=call.id))
        return tuple(messages)

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """As in the chat API, without blanks around the text."""
        return super().write(calls, text.strip(), turn=turn)
