"""A world's tools as methods that TRL and transformers can read: type hints, Google docstring.

    {"name": "get_order", "parameters": {"order_id": {"type": "integer", "minimum": 1}}}
    -> def get_order(self, order_id: int) -> str:
           \"\"\"An order with its lines.

           Args:
               order_id: (minimum 1)
           \"\"\"

What type hints cannot say (bounds, fields of objects) is said in the docstring; the world checks
all of it when the tool is called.
"""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Literal

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.awm import CALL_TOOL, LIST_TOOLS

_TYPES = {"integer": int, "number": float, "string": str, "boolean": bool, "object": dict}
_IN_HINT = {"type", "description", "default", "enum", "title", "anyOf", "additionalProperties"}
_RESERVED = {"reset", "get_reward"}  # TRL calls these itself
CallTool = Callable[[Any, str, dict[str, Any]], str]  # environment, tool, arguments -> text


def method_of(tool: ToolSpec, call: CallTool) -> Callable[..., str]:
    """A method that calls the tool. Raises SettingsError for a name that TRL would not show."""
    if tool.name in _RESERVED or tool.name.startswith("_") or not tool.name.isidentifier():
        raise SettingsError(
            f"tool {tool.name!r} cannot be a method of a TRL environment (reset, get_reward and"
            " names that begin with _ are TRL's own); use the two meta-tools instead"
        )

    def method(self: Any, /, **arguments: Any) -> str:
        return call(self, tool.name, arguments)

    properties: dict[str, Any] = tool.schema.get("properties", {})
    required = set(tool.schema.get("required", ()))
    parameters = [_parameter(name, schema, required) for name, schema in properties.items()]
    receiver = Parameter("self", Parameter.POSITIONAL_ONLY)
    details: Any = method
    details.__name__ = details.__qualname__ = tool.name
    details.__doc__ = _docstring(tool.description, properties)
    details.__signature__ = Signature([receiver, *parameters], return_annotation=str)
    details.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    return method


def _parameter(name: str, schema: dict[str, Any], required: set[str]) -> Parameter:
    hint = _hint(schema)
    if name in required:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint)
    default = schema.get("default")
    if default is None:
        hint = hint | None
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _hint(schema: dict[str, Any]) -> Any:
    """The type hint of a JSON schema.

    Example: {"anyOf": [{"type": "integer"}, {"type": "null"}]} -> int | None
    """
    if options := schema.get("anyOf"):
        hints = [_hint(one) for one in options if one.get("type") != "null"]
        union = hints[0]
        for hint in hints[1:]:
            union = union | hint
        return union | None if len(hints) < len(options) else union
    if values := schema.get("enum"):
        return Literal[tuple(values)]
    kind = schema.get("type", "object")
    if kind == "array":
        return list[_hint(schema.get("items", {}))]  # type: ignore[misc]  # made at run time
    return _TYPES.get(kind, dict)


def _docstring(description: str, properties: dict[str, Any]) -> str:
    lines = [" ".join(description.split()) or "A tool.", ""]
    if properties:
        lines.append("Args:")
        lines += [f"    {name}: {_explained(schema)}" for name, schema in properties.items()]
        lines.append("")
    lines += ["Returns:", "    The tool's answer."]
    return "\n".join(lines)


def _explained(schema: dict[str, Any]) -> str:
    """A property's description and bounds, on one line.

    Example: {"type": "integer", "minimum": 1, "description": "rows"} -> "rows (minimum 1)"
    """
    bounds = ", ".join(f"{name} {value}" for name, value in schema.items() if name not in _IN_HINT)
    text = " ".join(str(schema.get("description", "")).split())
    return f"{text} ({bounds})".strip() if bounds else text or "(see its name)"


def list_tools(self: Any) -> str:
    """List the tools of this world, with their arguments as JSON schemas.

    Returns:
        One tool a line.
    """
    lines: str = self._tool_lines()
    return lines


def call_tool(self: Any, tool_name: str, arguments: dict) -> str:  # type: ignore[type-arg]
    """Call a tool of this world.

    Args:
        tool_name: the tool's name, as list_tools gives it
        arguments: the tool's arguments

    Returns:
        The tool's answer.
    """
    text: str = self._call(tool_name, arguments)
    return text


def submit_answer(self: Any, answer: str) -> str:
    """Give your final answer and end the task.

    Args:
        answer: what you tell the user

    Returns:
        A confirmation.
    """
    self._answer = answer
    return "The answer is recorded."


META_TOOLS = {LIST_TOOLS: list_tools, CALL_TOOL: call_tool}  # of AWM, for any world
ANSWER_TOOL = {"submit_answer": submit_answer}
