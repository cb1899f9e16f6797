"""What MCP-Universe's agent `function_call` (package 1.1.3) sends a model, and how it reads it.

The first message is the agent's prompt, and each round but the first begins with a message that
counts the steps that are left. Only a JSON object with `thought` and `answer` ends the talk, and
its `answer` alone is judged; another text is commented on, and the talk goes on.
"""

import json
import re
from collections.abc import Sequence
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
from rehearsal_room.harness.dialects.base import call_id
from rehearsal_room.harness.dialects.native import Native, with_usable_ids
from rehearsal_room.scenarios.format import Call

PREFIX = "mcp_universe:"
_EMPTY = "Received an empty response from the LLM. Please try again."
_LONGEST = 300  # characters of an error
# Where a text has more than JSON, upstream looks for these, one after the other.
_PATTERNS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}",
        r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]",
        r"\{(?:[^{}]|(?:\{[^{}]*\}))*\}",
        r"\[(?:[^\[\]]|(?:\[[^\[\]]*\]))*\]",
    )
)


class McpUniverse(Native):
    """MCP-Universe's own messages; a task's instruction is the whole prompt of its agent."""

    reads_cut_replies = True
    unanswered = (
        "I'm sorry, but I couldn't find a satisfactory answer within the allowed number of "
        "iterations."
    )

    def __init__(self, max_steps: int) -> None:
        super().__init__()
        self.name = f"{PREFIX}{max_steps}"
        self._max_steps = max_steps

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The agent's prompt."""
        return (Message("user", briefing.instruction),)

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls, whatever their arguments; otherwise the answer in its text."""
        if reply.calls:
            calls = [
                AgentCall(call.name, call.arguments, call_id(turn, index))
                for index, call in enumerate(reply.calls)
            ]
            return Act(tuple(calls))
        answer, _ = _read_text(reply.said or "")
        return FormatError(self._steps_left(turn)) if answer is None else Answer(answer)

    def local_result(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """The error of a call that upstream does not make; None: the world makes it."""
        fault = _fault_of(call, briefing)
        if fault is None:
            return None
        return ToolResult(f"Error: {fault[:_LONGEST]}", "arguments", (), "")

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The reply, results and comments as upstream's history has them, then how many steps are
        left."""
        reply, decision = step.reply, step.decision
        text = (reply.said or "").strip()
        messages = []
        if reply.thought and (thought := _thought_of(reply)):
            messages.append(Message("assistant", thought))
        if isinstance(decision, Act):
            calls = with_usable_ids(reply.calls, decision.calls)
            wire = {"role": "assistant", "content": None, "tool_calls": list(map(_wire, calls))}
            messages.append(Message("assistant", "", calls, wire=wire))
            for call, result in zip(calls, step.results, strict=False):
                messages.append(Message("tool", result.text.strip(), call_id=call.id))
            if reply.said:
                messages.append(Message("assistant", text))
            left = self._steps_left(int(decision.calls[0].id[1:].partition("-")[0]))
            return (*messages, Message("user", left))
        if reply.said:
            messages.append(Message("assistant", text))
        if isinstance(decision, FormatError):
            _, comment = _read_text(reply.said or "")
            if comment and not (comment == _EMPTY and reply.thought):
                messages.append(Message("user", comment))
            messages.append(Message("user", decision.reason))
        return tuple(messages)

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """As in the chat API; an answer is the JSON object that is read as one."""
        if calls:
            return super().write(calls, text, turn=turn)
        return Reply(json.dumps({"thought": "", "answer": text}))

    def _steps_left(self, turn: int) -> str:
        return f"You have {self._max_steps - turn - 1} steps remaining. Please continue."


def _read_text(text: str) -> tuple[str | None, str]:
    """The answer that a text gives (None: it gives none), and upstream's comment on a text without
    one (empty: it has none).

    Example: '{"thought": "t", "answer": {"n": 4}}' -> ('{"n": 4}', "")
    """
    if not text:
        return None, _EMPTY
    content = text.strip()
    bare = content.strip("`").strip()
    if bare.startswith("json"):
        bare = bare[4:].strip()
    try:
        found = json.loads(_json_in(bare))
    except (json.JSONDecodeError, RecursionError):
        return None, (
            f"Encountered an error in parsing LLM response:\n{content}\n\nPlease try again."
        )
    try:
        if "answer" not in found:
            return None, ""
        answer, _ = found["answer"], found["thought"]
    except (KeyError, TypeError):
        # The backslashes are upstream's.
        return None, (
            f"Encountered an unexpected error for the LLM response:\\n{content}.\\n\\n"
            "Please try again."
        )
    if isinstance(answer, str):
        return answer, ""
    return (json.dumps(answer) if isinstance(answer, dict) else str(answer)), ""


def _json_in(text: str) -> str:
    """The part of a text that is JSON; the text itself where none is."""
    candidates = [text]
    candidates += [match for pattern in _PATTERNS for match in pattern.findall(text)]
    for opening, closing in ("{}", "[]"):
        first, last = text.find(opening), text.rfind(closing)
        if -1 < first < last:
            candidates.append(text[first : last + 1])
    return next(filter(_is_json, candidates), text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return False
    return True


def _fault_of(call: AgentCall, briefing: Briefing) -> str | None:
    """Why upstream does not make a call; None: it does. Names of tools are `server__tool`."""
    server, separator, tool = call.name.partition("__")
    if not separator:
        return f"Cannot parse function name: {call.name}"
    if isinstance(call.arguments, str):
        try:
            json.loads(call.arguments)
        except (ValueError, RecursionError) as exc:
            return str(exc)
    names = [one.name for one in briefing.tools]
    if not any(name.startswith(f"{server}__") for name in names):
        return f"Not found server {server}"
    if call.name not in names:
        return f"Server {server} has no tool {tool}"
    if not isinstance(call.arguments, dict):
        return f"Error occurred during executing tool {tool}"
    return None


def _thought_of(reply: Reply) -> str:
    """The thought that came in a field of its own."""
    return reply.text.partition("<think>")[2].partition("</think>")[0].strip()


def _wire(call: AgentCall) -> dict[str, Any]:
    arguments = call.arguments
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": written},
    }
