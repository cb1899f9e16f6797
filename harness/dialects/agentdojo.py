"""What AgentDojo 0.1.35 sends a model: tool calling of the chat API, as its `OpenAILLM` writes it.

Contents are lists of parts, the system prompt has the role `developer`, a failed call's content is
the error alone, and results name their tool. A text among a call's arguments that is a list of
Python goes back as that list: the package's executor reads it so.
"""

import ast
import json
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
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
from rehearsal_room.harness.dialects.base import object_calls
from rehearsal_room.harness.dialects.native import Native

_Wire = dict[str, Any]
_LONGEST = 100_000  # characters of a list in a text: Python reads ten times as many in nine seconds


class AgentDojo(Native):
    """AgentDojo's own messages; the world's rules are its system prompt."""

    name = "agentdojo"
    reads_cut_replies = True

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt and the task."""
        rules, task = briefing.rules, briefing.instruction
        return (
            Message("system", rules, wire={"role": "developer", "content": _parts(rules)}),
            *briefing.earlier,
            Message("user", task, wire={"role": "user", "content": _parts(task)}),
        )

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls, whatever their names; its text otherwise, as it is."""
        calls = object_calls(reply, turn=turn)
        if isinstance(calls, FormatError):
            return calls
        return Act(calls) if calls else Answer(reply.said or "")

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply as the model wrote it, and what its calls returned."""
        if isinstance(step.decision, FormatError):
            return super().turn_messages(step)
        said = step.reply.said
        wire: _Wire = {"role": "assistant", "content": None if said is None else _parts(said)}
        calls = step.reply.calls if isinstance(step.decision, Act) else ()
        made = tuple(zip(calls, step.results, strict=False))
        if made:
            wire["tool_calls"] = [_wire_call(call, result) for call, result in made]
        messages = [Message("assistant", said or "", calls[: len(made)], wire=wire)]
        for call, result in made:
            shown = result.text if result.is_error else _parts(result.text)
            wire = {"role": "tool", "content": shown, "tool_call_id": call.id, "name": call.name}
            messages.append(Message("tool", result.text, call_id=call.id, wire=wire))
        return tuple(messages)


def _parts(text: str) -> list[_Wire]:
    return [{"type": "text", "text": text}]


def _wire_call(call: AgentCall, result: ToolResult) -> _Wire:
    arguments = call.arguments
    if result.error != "unknown_tool":
        arguments = {name: _as_read(value) for name, value in arguments.items()}
    function = {"name": call.name, "arguments": json.dumps(arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _as_read(value: Any) -> Any:
    """An argument as AgentDojo's executor reads it.

    Example: "['a', 'b']" -> ["a", "b"]; "a" -> "a"
    """
    if not isinstance(value, str) or "[" not in value or len(value) > _LONGEST:
        return value
    try:
        found = ast.literal_eval(value)
        json.dumps(found)
    except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return value
    return found if isinstance(found, list) else value
