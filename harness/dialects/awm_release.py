"""What the released agent of Agent World Model sends and reads (awm/core/agent.py at 91a9578), for
profile `awm-release`.

It has no format rules: from what cannot be read it reads on, a call that fails is a text, and a
reply without a call that it can read is the answer. Its system prompt is not ours: it stands before
the task as a message of the episode (see scenarios.awm.released_code).

Tools have the names that mcp-agent gives them, `mcp_server_` in front of their own.
"""

import json
from typing import Any, NoReturn

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.core.errors import SettingsError
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
from rehearsal_room.harness.dialects.awm import (
    CALL_TOOL,
    LIST_TOOLS,
    PREFIX,
    Awm,
    block_bodies,
)
from rehearsal_room.harness.dialects.base import ScenarioText, answer_of, call_id
from rehearsal_room.scenarios.distribution import missing_package

NAME = "awm-release"
SERVER = "mcp_server_"  # what mcp-agent puts before the names of a server's tools
_CLOSE_THOUGHT = "</think>"
_TIMED_OUT = "Error: Tool call timed out after 60.0s"


class ReleasedCall(msgspec.Struct, frozen=True):
    """The call of a reply that the released agent makes: its first one that can be read."""

    index: int  # of its block among those of the reply, from 0
    name: str  # of the function
    arguments: Any


class ReleasedAgentStops(Exception):
    """The released program ends here with an error of its own, and so without a verdict."""


class AwmRelease(Awm):
    """The released agent's protocol; `results` is the role of results: user, or tool where its URL
    is that of a local server."""

    reads_cut_replies = True

    def __init__(self, *, results: str = "user") -> None:
        super().__init__(results=results)
        self.name = NAME if results == "user" else f"{NAME}-tool"
        self._tool_list = ScenarioText(tool_list)

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt, which is among the earlier messages, and the task."""
        return (*briefing.earlier, Message("user", briefing.instruction))

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The first call that can be read; without one, the text as the answer. What the released
        agent answers by itself, without its tools, is the reason of a FormatError."""
        text = content_of(reply)
        try:
            call = first_call(text)
            if call is None:
                return answer_of(text)
            if call.name == LIST_TOOLS:
                return Act((AgentCall(LIST_TOOLS, {}, call_id(turn, call.index)),))
            if call.name != CALL_TOOL:
                return FormatError(
                    f"Unknown tool '{call.name}'. Only '{LIST_TOOLS}' and '{CALL_TOOL}' are "
                    "available."
                )
            tool, arguments = tool_call(call)
        except ReleasedAgentStops as exc:
            return FormatError(f"The released agent stops here with an error: {exc}")
        name = tool.removeprefix(SERVER)
        if not name or name == LIST_TOOLS:  # which would be the function of this name
            is_server = tool.startswith(SERVER)
            return FormatError(f"Unknown tool: {name}" if is_server else _not_found(tool))
        if fault := argument_fault(arguments):
            return FormatError(f"The arguments of {tool} cannot be used: {fault}.")
        return Act((AgentCall(name, arguments, call_id(turn, call.index)),))

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """What the model wrote, and the result in the role that this server takes."""
        reply, text = Message("assistant", content_of(step.reply)), response_text(step)
        if text is None:
            return (reply,)
        if not self._as_tool:
            return (reply, Message("user", f"Tool response:\n{text}"))
        calls = step.decision.calls if isinstance(step.decision, Act) else ()
        return (reply, Message("tool", text, call_id=calls[0].id if calls else "call_unknown"))


def content_of(reply: Reply) -> str:
    """The text of the message, without a thought that the server sent beside it."""
    return reply.text.partition(_CLOSE_THOUGHT)[2] if reply.thought else reply.text


def first_call(text: str) -> ReleasedCall | None:
    """The call that the released agent makes; None: it takes the text for the answer. Raises
    ReleasedAgentStops."""
    calls = []
    for index, body in enumerate(block_bodies(text)):
        value = read_json(body.strip())
        if isinstance(value, list):
            value = value[0] if value else None
        if not value or not isinstance(value, dict):
            continue
        name, arguments = value.get("name", ""), value.get("arguments", {})
        if not isinstance(name, str):
            raise ReleasedAgentStops("the name of the function is not a text")
        if name.startswith(PREFIX):
            name, arguments = CALL_TOOL, {"tool_name": name, "arguments": arguments or {}}
        calls.append(ReleasedCall(index, name, arguments))
    return calls[0] if calls else None


def tool_call(call: ReleasedCall) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the tool that a call of `call_tool` names. Raises
    ReleasedAgentStops."""
    outer = read_json(call.arguments) if isinstance(call.arguments, str) else call.arguments
    if not isinstance(outer, dict):
        return "", {}
    tool, inner = outer.get("tool_name", ""), outer.get("arguments", {})
    if not isinstance(tool, str):
        raise ReleasedAgentStops("the name of the tool is not a text")
    if isinstance(inner, str):
        inner = read_json(inner)
    return tool.removeprefix(PREFIX), inner if isinstance(inner, dict) else {}


def response_text(step: StepTaken) -> str | None:
    """The text that the released agent shows for a step; None: it shows none, as the step is the
    answer."""
    decision = step.decision
    if isinstance(decision, Answer):
        return None
    if isinstance(decision, FormatError):
        return f"Error: {decision.reason}"
    if not step.results:
        return ""
    result = step.results[0]
    if result.error is None:
        return result.text
    if result.error == "timeout":
        return _TIMED_OUT
    if result.error == "unknown_tool" and (call := first_call(content_of(step.reply))):
        tool = tool_call(call)[0]
        if not tool.startswith(SERVER):  # mcp-agent looks such names up, others the server does
            return f"Error: {_not_found(tool)}"
    return f"Error: {result.text}"


def _not_found(tool: str) -> str:
    return f"Tool '{tool}' not found"


def read_json(text: str) -> Any:
    """The value of a text as the released code reads it: strictly, as Python does, or repaired.
    Raises ReleasedAgentStops.

    Unlike there a text that is the path of a file is not replaced by what is in the file.
    """
    text = text.encode("utf-8", "ignore").decode().strip()
    if not text:
        return {}
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    found = _repair(text)
    return {} if found == "" else found


def require_repair() -> None:
    """Raise SettingsError where the package that repairs JSON is missing."""
    _repair("")


def _repair(text: str) -> Any:
    """Raises SettingsError and ReleasedAgentStops."""
    try:
        import json_repair
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package(f"profile: {NAME!r}", exc, "awm")) from exc
    try:
        return json_repair.loads(text)
    except Exception as exc:  # it is a guess at what a text means, and has faults of its own
        raise ReleasedAgentStops(f"the JSON cannot be repaired ({type(exc).__name__})") from exc


def _integer(digits: str) -> int | float:
    """As orjson: beyond 64 bits a float."""
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(digits)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def tool_list(briefing: Briefing) -> str:
    """What `list_tools` returns."""
    parts = [f"Available MCP Tools ({len(briefing.tools)} tools):\n", "=" * 80, "\n\n"]
    for number, tool in enumerate(briefing.tools, 1):
        first, *more = [line.strip() for line in tool.description.split("\n")]
        parts.append(f"{number}. {PREFIX}{SERVER}{tool.name}\n   Description: {first}\n")
        parts += [f"   {line}\n" for line in more if line]
        if tool.schema.get("properties"):
            parts.append("   Parameters:\n")
            parts += _parameters(tool.schema, " " * 6)
        else:
            parts.append("   Parameters: None\n")
        parts.append("\n")
    return "".join(parts).strip()


def _parameters(schema: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, info in schema["properties"].items():
        kind = info.get("type", "unknown")
        need = "required" if name in schema.get("required", []) else "optional"
        lines.append(f"{indent}- {name}: {kind} ({need})\n")
        if info.get("description"):
            lines.append(f"{indent}  Description: {info['description']}\n")
        if info.get("default") is not None:
            lines.append(f"{indent}  Default: {info['default']}\n")
        if info.get("enum"):
            lines.append(f"{indent}  Allowed values: {info['enum']}\n")
        if kind == "object" and info.get("properties"):
            lines += [f"{indent}  Properties:\n", *_parameters(info, indent + "    ")]
    return lines
