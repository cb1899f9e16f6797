"""The protocol of Agent World Model's released agent (arXiv:2602.10090), for parity with it.

The model sees two functions, `list_tools` and `call_tool`, and calls one of them in each turn. The
wording of the prompt differs from the released agent's; the layout of calls and of the tool list is
the same, including what it leaves out (the type of an `anyOf` is `unknown`).

Two rules are stricter than the released agent's: a call of a function that does not exist, and a
block from which nothing can be read, are format errors. The released agent answers the first with
an error text (as this harness does under the rules `off`) and ends the episode on the second.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault, read_arguments
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.json_repair import repair_json
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
    preamble,
    result_text,
    user_messages,
    without_thoughts,
)
from rehearsal_room.harness.dialects.hermes import call_block
from rehearsal_room.harness.dialects.imitation import imitation_fault
from rehearsal_room.scenarios.format import Call

LIST_TOOLS, CALL_TOOL, PREFIX = "list_tools", "call_tool", "mcp_tool_"
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_json = msgspec.json.Encoder().encode
_Decode = Callable[[str], Any]


class Awm:
    """AWM's protocol.

    `results` is the role of the messages that contain results: user or tool. `lenient` reads JSON
    as leniently as the released agent; without it a broken block, an unclosed tag and arguments
    that are not an object are format errors (for runs under the rules `awm`).
    """

    reads_cut_replies = False
    unanswered = ""

    def __init__(self, *, results: str = "user", lenient: bool = True) -> None:
        self.name = "awm" if results == "user" else "awm-tool"
        self._lenient = lenient
        self._as_tool = results == "tool"
        self._system = ScenarioText(_system_prompt)
        self._tool_list = ScenarioText(format_tool_list)

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt with the two functions, and the task."""
        return (
            Message("system", self._system(briefing)),
            *briefing.earlier,
            Message("user", briefing.instruction),
        )

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """No tools: the prompt describes the two functions, and `list_tools` returns the rest."""
        return ()

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The first call that can be read, also inside a thought; without a call, the text
        as the answer."""
        text = reply.text
        bodies = block_bodies(text)
        if not bodies:
            if _OPEN in text and not self._lenient:
                return FormatError(f"A {_OPEN} is not closed.")
            fault = imitation_fault(without_thoughts(text), is_answer=_OPEN not in text)
            return answer_of(text) if fault is None else FormatError(fault)
        if (fault := imitation_fault(without_thoughts(text), is_answer=False)) is not None:
            return FormatError(fault)
        for body in bodies if self._lenient else bodies[:1]:
            try:
                return _decision(self._decode(body), self._decode, call_id(turn, 0), self._lenient)
            except ValueError:
                continue
        return FormatError(f"A {_OPEN} does not hold a JSON object with name and arguments.")

    def _decode(self, text: str) -> Any:
        """The JSON value of a text. Raises ValueError."""
        if self._lenient:
            return repair_json(text)
        try:
            return msgspec.json.decode(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def local_result(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """The tool list for a call of `list_tools`."""
        return ToolResult(self._tool_list(briefing)) if call.name == LIST_TOOLS else None

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's text unchanged, then the result."""
        reply = Message("assistant", step.reply.text)
        if isinstance(step.decision, FormatError):
            return (reply, Message("user", f"Tool response:\nError: {step.decision.reason}"))
        if not step.results or not isinstance(step.decision, Act):
            return (reply, *user_messages(step, _new_tools))
        text = result_text(step.results[0])
        if self._as_tool:
            return (reply, Message("tool", text, call_id=step.decision.calls[0].id))
        return (reply, Message("user", f"Tool response:\n{text}"))

    def pins(self, step: StepTaken) -> bool:
        """A call of `list_tools`: its result stays visible, because it may be called only once."""
        return isinstance(step.decision, Act) and step.decision.calls[0].name == LIST_TOOLS

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """A short thought (AWM's rules ask for one), the text, then the call.

        Raises ValueError for more than one call.
        """
        if without_thoughts(text) != text.strip() or "tool_call>" in text:
            raise ValueError("a text cannot hold <think> or <tool_call> tags")
        if fault := imitation_fault(text, is_answer=True):
            raise ValueError(fault)
        if len(calls) > 1:
            raise ValueError("AWM's protocol has one call a turn")
        parts = [f"<think>\n{'I call ' + calls[0].name if calls else 'I am done'}.\n</think>"]
        if text:
            parts.append(text)
        if calls:
            parts.append(call_block(_json(_function_call(calls[0]))))
        return Reply("\n\n".join(parts))

    def opening_calls(self) -> tuple[Call, ...]:
        """The call of `list_tools`."""
        return (Call(LIST_TOOLS),)


def block_bodies(text: str) -> list[str]:
    """The text between each opening tag and the next closing tag."""
    bodies = []
    start = text.find(_OPEN)
    while start >= 0:
        end = text.find(_CLOSE, start)
        if end < 0:
            break
        bodies.append(text[start + len(_OPEN) : end])
        start = text.find(_OPEN, end)
    return bodies


def _function_call(call: Call) -> dict[str, Any]:
    """The call of `list_tools` or `call_tool` that makes a tool call."""
    if call.name == LIST_TOOLS:
        return {"name": LIST_TOOLS, "arguments": None}
    inner = {"tool_name": call.name, "arguments": _json(call.arguments).decode()}
    return {"name": CALL_TOOL, "arguments": inner}


def _decision(value: Any, decode: _Decode, new_id: str, lenient: bool) -> Decision:
    """What the value of a block means. Raises ValueError when it is not an object."""
    if lenient and isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        raise ValueError("not an object")
    name, arguments = value.get("name"), value.get("arguments")
    if not isinstance(name, str) or not name:
        return FormatError("A tool call has no name.")
    if name.startswith(PREFIX):
        name, arguments = CALL_TOOL, {"tool_name": name, "arguments": arguments or {}}
    if name == LIST_TOOLS:
        return Act((AgentCall(LIST_TOOLS, {}, new_id),))
    if name != CALL_TOOL:
        return FormatError(
            f"There is no function {name!r}: call {LIST_TOOLS}, or {CALL_TOOL} with a tool's name."
        )
    outer = _object(arguments, decode)
    tool = outer.get("tool_name") if outer is not None else None
    if outer is None or not isinstance(tool, str) or not tool.removeprefix(PREFIX):
        return FormatError(f"{CALL_TOOL} needs tool_name and arguments.")
    tool = tool.removeprefix(PREFIX)
    inner = _object(outer.get("arguments"), decode)
    if inner is None:
        if not lenient:
            why = read_arguments(outer.get("arguments"))[1] or "they must be a JSON object"
            return FormatError(f"The arguments of {tool} cannot be used: {why}.")
        inner = {}
    if fault := argument_fault(inner):
        return FormatError(f"The arguments of {tool} cannot be used: {fault}.")
    return Act((AgentCall(tool, inner, new_id),))


def _object(value: Any, decode: _Decode) -> dict[str, Any] | None:
    """An object that is given as such, as JSON text, or as nothing (then it is empty); None
    for any other value."""
    if isinstance(value, str) and value.strip():
        try:
            value = decode(value)
        except ValueError:
            return None
    if value is None or value == "" or (isinstance(value, str) and not value.strip()):
        return {}
    return value if isinstance(value, dict) else None


def _new_tools(tools: tuple[ToolSpec, ...]) -> str:
    return f"From now on there are more tools. {format_tool_list(Briefing('', '', tools, '', ''))}"


def format_tool_list(briefing: Briefing) -> str:
    """The result of `list_tools`.

    Example of one tool's part:

        1. mcp_tool_get_order
           Description: One order with its lines.
           Parameters:
              - order_id: integer (required)
    """
    lines = [f"Available MCP Tools ({len(briefing.tools)} tools):", "=" * 80, ""]
    for number, tool in enumerate(briefing.tools, 1):
        first, *more = [line.strip() for line in tool.description.split("\n")]
        name = tool.name if tool.name.startswith(PREFIX) else PREFIX + tool.name
        lines += [f"{number}. {name}", f"   Description: {first}"]
        lines += [f"   {line}" for line in more if line]
        if tool.schema.get("properties"):
            lines += ["   Parameters:", *_parameters(tool.schema, " " * 6)]
        else:
            lines.append("   Parameters: None")
        lines.append("")
    return "\n".join(lines).strip()


def _parameters(schema: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, info in schema["properties"].items():
        kind = info.get("type", "unknown")
        need = "required" if name in schema.get("required", ()) else "optional"
        lines.append(f"{indent}- {name}: {kind} ({need})")
        for title, key in (
            ("Description", "description"),
            ("Default", "default"),
            ("Allowed values", "enum"),
        ):
            value = info.get(key)
            if value is not None and value != "" and value != []:
                lines.append(f"{indent}  {title}: {value}")
        if kind == "object" and info.get("properties"):
            lines += [f"{indent}  Properties:", *_parameters(info, indent + "    ")]
    return lines


def _system_prompt(briefing: Briefing) -> str:
    return f"""{preamble(briefing)}

# Tools

The tools are those of an MCP environment. You reach them through two functions, described within \
<tools></tools>, and call one function a step:
<tools>
1. list_tools
    - Description: Lists the tools of this environment with their parameters.
    - Arguments: None
    - Output: The tools' names, descriptions and parameters

2. call_tool
    - Description: Calls one tool of this environment.
    - Arguments:
        - tool_name: str, required, a tool's name as list_tools gives it
        - arguments: str, required, the tool's arguments as a JSON object in a string; an empty \
object for a tool without parameters
    - Output: The tool's result
</tools>

Call list_tools first, and only once. In the last step write the answer and call no function.

A call is a JSON object with name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": "list_tools", "arguments": null}}
</tool_call>
<tool_call>
{{"name": "call_tool", "arguments": {{"tool_name": "mcp_tool_get_room", "arguments": \
"{{\\"room\\": 12}}"}}}}
</tool_call>"""
