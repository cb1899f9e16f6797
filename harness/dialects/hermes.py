"""Tools in the system prompt, calls as `<tool_call>` JSON in the text.

The default for training: a group's episodes share the whole prompt prefix. Tools and results are
laid out as in the templates of Hermes and Qwen models.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.arguments import read_arguments
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import (
    ScenarioText,
    answer_of,
    call_id,
    ends_in_thought,
    preamble,
    result_text,
    user_messages,
    without_thoughts,
)
from rehearsal_room.harness.dialects.imitation import imitation_fault
from rehearsal_room.scenarios.format import Call

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_json = msgspec.json.Encoder().encode


class Hermes:
    """Calls as `<tool_call>{"name": …, "arguments": …}</tool_call>`; a turn may have several.

    Text without a tag is the answer. Text inside `<think>…</think>` is neither call nor answer.
    """

    name = "hermes"
    reads_cut_replies = False
    unanswered = ""

    def __init__(self) -> None:
        self._system = ScenarioText(_system_prompt)

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt with the tool list, and the task."""
        return (
            Message("system", self._system(briefing)),
            *briefing.earlier,
            Message("user", briefing.instruction),
        )

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """No tools: the system prompt lists them."""
        return ()

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The calls in tags; where there are no tags, the text as the answer."""
        if ends_in_thought(reply.text):
            return FormatError("The reply stops inside <think>: it has no call and no answer.")
        text = without_thoughts(reply.text)
        if _OPEN not in text:
            if _CLOSE in text:
                return FormatError(f"{_CLOSE} closes a tag that was never opened.")
            fault = imitation_fault(text, is_answer=True)
            return answer_of(text) if fault is None else FormatError(fault)
        if (fault := imitation_fault(text, is_answer=False)) is not None:
            return FormatError(fault)
        try:
            calls = _calls(text, turn)
        except _BadBlockError as exc:
            return FormatError(str(exc))
        return Act(calls)

    def local_result(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """None: the world executes every call."""
        return None

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's text unchanged, then one user message with all results."""
        reply = Message("assistant", step.reply.text)
        if isinstance(step.decision, FormatError):
            return (reply, Message("user", step.decision.reason))
        if not step.results:
            return (reply, *user_messages(step, _new_tools))
        blocks = [
            f"<tool_response>\n{result_text(result)}\n</tool_response>" for result in step.results
        ]
        return (reply, Message("user", "\n".join(blocks)))

    def pins(self, step: StepTaken) -> bool:
        """Never: the system prompt contains the tools."""
        return False

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """The text, then a block for each call."""
        if without_thoughts(text) != text.strip() or _OPEN in text or _CLOSE in text:
            raise ValueError("a text cannot hold <think> or <tool_call> tags")
        if fault := imitation_fault(text, is_answer=True):
            raise ValueError(fault)
        blocks = [
            call_block(_json({"name": call.name, "arguments": call.arguments})) for call in calls
        ]
        return Reply("\n".join([text, *blocks] if text else blocks))

    def opening_calls(self) -> tuple[Call, ...]:
        """No calls: the system prompt shows the tools."""
        return ()


def call_block(encoded: bytes) -> str:
    """A call, encoded as JSON, as a tagged block of text.

    Where the JSON contains something that reads like a tag, every `<` in it becomes an escape: so
    arguments may contain any text.

    Example: call_block(b'{"name":"ping"}') -> '<tool_call>\\n{"name":"ping"}\\n</tool_call>'
    """
    text = encoded.decode()
    if "tool_call>" in text or "think>" in text:
        text = text.replace("<", "\\u003c")
    return f"{_OPEN}\n{text}\n{_CLOSE}"


# What models call the arguments: Hermes and Qwen, Llama, others.
_ARGUMENTS = ("arguments", "parameters", "args")


class _BadBlockError(Exception):
    """A block that cannot be read; the message is a sentence that the agent reads."""


def _calls(text: str, turn: int) -> tuple[AgentCall, ...]:
    calls: list[AgentCall] = []
    start = text.find(_OPEN)
    while start >= 0:
        value, end = _decode_block(text, start + len(_OPEN))
        calls.append(_call(value, call_id(turn, len(calls))))
        start = text.find(_OPEN, end)
    return tuple(calls)


def _decode_block(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and the offset behind its closing tag.

    A string in the arguments may contain the closing tag: then a later tag ends the block.
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
        raise _BadBlockError(f"A {_OPEN} is not closed.")
    raise _BadBlockError(f"A {_OPEN} does not hold valid JSON: {fault}.")


def _call(value: Any, new_id: str) -> AgentCall:
    if not isinstance(value, dict):
        raise _BadBlockError(f"A {_OPEN} must hold a JSON object with name and arguments.")
    name, given = value.get("name"), [key for key in _ARGUMENTS if value.get(key) is not None]
    if not isinstance(name, str) or not name:
        raise _BadBlockError("A tool call has no name.")
    if len(given) > 1:
        raise _BadBlockError(f"The call of {name} has both {given[0]} and {given[1]}.")
    if not given and (others := sorted(set(value) - {"name", "type", "id", *_ARGUMENTS})):
        raise _BadBlockError(f"The call of {name} has no arguments, but {', '.join(others)}.")
    arguments, fault = read_arguments(value[given[0]] if given else None)
    if arguments is None:
        raise _BadBlockError(f"The arguments of {name} cannot be used: {fault}.")
    return AgentCall(name, arguments, new_id)


def _system_prompt(briefing: Briefing) -> str:
    return with_tools(preamble(briefing), briefing.tools)


def with_tools(system: str, tools: Sequence[ToolSpec]) -> str:
    """A system prompt followed by the tools and how to call them."""
    return f"""{system}

# Tools

These functions can be called, each described by one line of JSON within <tools></tools>:
{_tool_block(tools)}

To call a function, write a JSON object with its name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": <function name>, "arguments": <object of arguments>}}
</tool_call>
Results come back within <tool_response></tool_response>."""


def _new_tools(tools: Sequence[ToolSpec]) -> str:
    return f"From now on these functions can be called as well:\n{_tool_block(tools)}"


def _tool_block(tools: Sequence[ToolSpec]) -> str:
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
    return "\n".join(["<tools>", *lines, "</tools>"])
