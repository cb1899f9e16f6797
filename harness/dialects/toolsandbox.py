"""What ToolSandbox 0.0.1 sends a model: tool calling of the chat API, as its `OpenAIAPIAgent` does.

What a model writes beside its calls is not shown again, results name their tool, and those of one
reply stand in the order in which the world gave them. A reply without calls and without content,
and one whose arguments are not JSON, are malformed: there upstream's runner gives the episode up.
"""

import json
from typing import Any

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    Answer,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import object_calls
from rehearsal_room.harness.dialects.verbatim import Verbatim


class ToolSandbox(Verbatim):
    """ToolSandbox's own messages; the world's rules are its system prompt."""

    name = "toolsandbox"
    reads_cut_replies = True

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls, or its text as it is."""
        calls = object_calls(reply, turn=turn)
        if isinstance(calls, FormatError):
            return calls
        if not calls and reply.said is None:
            return FormatError("The reply has neither a text nor a call.")
        return Act(calls) if calls else Answer(reply.said or "")

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply with its calls and their results, or with what the user says."""
        decision = step.decision
        if isinstance(decision, FormatError):
            return super().turn_messages(step)
        if isinstance(decision, Answer):
            said = [Message("assistant", decision.text)]
            if step.user is not None and not step.user.ended:
                said.append(Message("user", step.user.text))
            return tuple(said)
        pairs = list(zip(decision.calls, step.reply.calls, strict=False))
        wire: dict[str, Any] = {"role": "assistant", "content": ""}
        wire["tool_calls"] = [
            {
                "id": sent.id,
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                "type": "function",
            }
            for call, sent in pairs
        ]
        messages = [Message("assistant", "", step.reply.calls[: len(pairs)], wire=wire)]
        answers = list(zip(pairs, step.results, strict=False))
        if all(result.place is not None for _, result in answers):
            answers.sort(key=lambda one: one[1].place or 0)
        for (call, sent), result in answers:
            wire = {
                "tool_call_id": sent.id,
                "role": "tool",
                "name": call.name,
                "content": result.text,
            }
            messages.append(Message("tool", result.text, call_id=sent.id, wire=wire))
        return tuple(messages)
