"""Tools in the system prompt, calls as `<tool_call>` JSON in the text.

The default for training: a group's episodes share the whole prompt prefix. Tools and results are
laid out as in the templates of Hermes and Qwen models.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from envpool.core.types import ToolResult, ToolSpec
from harness.core.events import StepTaken
from harness.core.messages import Act, AgentCall, Briefing, Decision, FormatError, Message, Reply
from harness.dialects.base import (
    PerWorld,
    answer,
    call_id,
    ends_in_thought,
    preamble,
    shown,
    unfit,
    without_thoughts,
)
from scenarios.format import Call

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_json = msgspec.json.Encoder().encode


class Hermes:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`, several a turn are allowed.

    Text without a tag is the answer. What stands inside `<think>…</think>` is neither.
    """

    name = "hermes"

    def __init__(self) -> None:
        self._system = PerWorld(_system)

    def opening(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt with the tool list, and the task."""
        return (
            Message("system", self._system(briefing)),
            Message("user", briefing.instruction),
        )

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """None: the prompt tells them."""
        return ()

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """Calls where there are tags, the text as the answer where there are none."""
        if ends_in_thought(reply.text):
            return FormatError("The reply stops inside <think>: it has no call and no answer.")
        text = without_thoughts(reply.text)
        if _OPEN not in text:
            if _CLOSE in text:
                return FormatError(f"{_CLOSE} closes a tag that was never opened.")
            return answer(text)
        try:
            calls = _calls(text, turn)
        except _Broken as broken:
            return FormatError(str(broken))
        return Act(calls)

    def local(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """Nothing: every call is the world's."""
        return None

    def turn(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's text as it was, then one user message with all results."""
        said = Message("assistant", step.reply.text)
        if isinstance(step.decision, FormatError):
            return (said, Message("user", step.decision.reason))
        if not step.results:
            return (said,)
        blocks = [f"<tool_response>\n{shown(result)}\n</tool_response>" for result in step.results]
        return (said, Message("user", "\n".join(blocks)))

    def pins(self, step: StepTaken) -> bool:
        """Never: the system prompt holds the tools."""
        return False

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """The text, then a block for each call."""
        if without_thoughts(text) != text.strip() or _OPEN in text or _CLOSE in text:
            raise ValueError("a text cannot hold <think> or <tool_call> tags")
        blocks = [block(_json({"name": call.name, "arguments": call.arguments})) for call in calls]
        return Reply("\n".join([text, *blocks] if text else blocks))

    def openers(self) -> tuple[Call, ...]:
        """None."""
        return ()


def block(encoded: bytes) -> str:
    """A call as text. Inside of JSON every `<` is written as an escape when it could be taken for
    a tag's, so that arguments may hold any text.

    Example: block(b'{"name":"ping"}') -> '<tool_call>\\n{"name":"ping"}\\n</tool_call>'
    """
    text = encoded.decode()
    if "tool_call>" in text or "think>" in text:
        text = text.replace("<", "\\u003c")
    return f"{_OPEN}\n{text}\n{_CLOSE}"


class _Broken(Exception):
    """A block that cannot be read; the sentence is for the agent."""


def _calls(text: str, turn: int) -> tuple[AgentCall, ...]:
    calls: list[AgentCall] = []
    start = text.find(_OPEN)
    while start >= 0:
        value, end = _value(text, start + len(_OPEN))
        calls.append(_call(value, call_id(turn, len(calls))))
        start = text.find(_OPEN, end)
    return tuple(calls)


def _value(text: str, start: int) -> tuple[Any, int]:
    """The JSON that begins at `start`, and where its closing tag ends.

    A string in the arguments may hold the closing tag: then a later one is the end.
    """
    end, fault = start, ""
    for _ in range(4):
        end = text.find(_CLOSE, end)
        if end < 0:
            break
        try:
            return msgspec.json.decode(text[start:end]), end + len(_CLOSE)
        except (ValueError, RecursionError) as exc:
            fault = fault or str(exc)
            end += len(_CLOSE)
    if not fault:
        raise _Broken(f"A {_OPEN} is not closed.")
    raise _Broken(f"A {_OPEN} does not hold valid JSON: {fault}.")


def _call(value: Any, name_of_call: str) -> AgentCall:
    if not isinstance(value, dict):
        raise _Broken(f"A {_OPEN} must hold a JSON object with name and arguments.")
    name, arguments = value.get("name"), value.get("arguments")
    if not isinstance(name, str) or not name:
        raise _Broken("A tool call has no name.")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise _Broken(f"The arguments of {name} must be a JSON object.")
    if why := unfit(arguments):
        raise _Broken(f"The arguments of {name} cannot be used: {why}.")
    return AgentCall(name, arguments, name_of_call)


def _system(briefing: Briefing) -> str:
    return with_tools(preamble(briefing), briefing.tools)


def with_tools(system: str, tools: Sequence[ToolSpec]) -> str:
    """A system prompt, and behind it the tools and how they are called."""
    lines = [
        _json(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
        ).decode()
        for tool in tools
    ]
    listed = "\n".join(lines)
    return f"""{system}

# Tools

These functions can be called, each described by one line of JSON within <tools></tools>:
<tools>
{listed}
</tools>

To call a function, write a JSON object with its name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": <function name>, "arguments": <object of arguments>}}
</tool_call>
Results come back within <tool_response></tool_response>."""
