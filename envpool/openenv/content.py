"""What an agent reads of an OpenEnv environment: its tools, and observations as texts.

An environment with tools lists them by the step `list_tools` and executes `call_tool`. Any other
has one tool, `step`, whose arguments are its action.
"""

from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec

STEP = "step"
_NOT_SHOWN = ("metadata", "done", "reward")
_ERRORS: dict[str, ToolErrorKind] = {
    "tool_not_found": "unknown_tool",
    "invalid_args": "arguments",
    "invalid_action": "arguments",
    "timeout": "timeout",
    "transport_error": "internal",
    "server_error": "internal",
}


def has_tools(action: dict[str, Any]) -> bool:
    """Whether the schema of an environment's action is that of tools: it has `call_tool`, or does
    not state any field."""
    if b'"call_tool"' in msgspec.json.encode(action):
        return True
    return not set(action.get("properties", {})) - {"metadata"}  # OpenEnv's own `Action`


def listed_tools(observation: dict[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools in the observation of `list_tools`; empty where it has none."""
    found = observation.get("tools")
    return tuple(
        [
            ToolSpec(
                str(tool["name"]),
                str(tool.get("description") or ""),
                tool.get("input_schema") or tool.get("inputSchema") or {"type": "object"},
            )
            for tool in (found if isinstance(found, list) else [])
            if isinstance(tool, dict) and "name" in tool
        ]
    )


def step_tool(action: dict[str, Any], description: str) -> ToolSpec:
    """The one tool of an environment without tools, whose action has this schema."""
    shown = {name: value for name, value in action.items() if name != "properties"}
    properties = action.get("properties", {})
    shown["properties"] = {name: one for name, one in properties.items() if name != "metadata"}
    about = " ".join(f"Act in the environment. {description}".split())
    return ToolSpec(STEP, about, {"type": "object", **shown})


def read_observation(observation: dict[str, Any]) -> tuple[str, ToolErrorKind | None]:
    """The text of an observation, and which kind of error it reports.

    Example: {"tool_name": "add", "result": 5} -> ("5", None)
    Example: {"tool_name": "ad", "error": {"error_type": "tool_not_found", "message": "no tool ad"}}
        -> ("no tool ad", "unknown_tool")
    """
    error = observation.get("error")
    kind = observation.get("reward_type")
    if isinstance(error, dict):
        kind = error.get("error_type")
        error = error.get("message") or msgspec.json.encode(error).decode()
    if error is not None:
        return str(error), _ERRORS.get(str(kind), "refused")
    for name in ("tool_result", "result"):
        if name in observation:
            refused = kind == "tool_refused" or _is_error(observation[name])
            return _text_of(observation[name]), "refused" if refused else None
    shown = {name: value for name, value in observation.items() if name not in _NOT_SHOWN}
    return _text_of(shown), None


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("is_error") or value.get("isError"))


def _text_of(value: Any) -> str:
    """A value as text; the result of an MCP tool by its parts."""
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        parts = [part.get("text") for part in value["content"] if isinstance(part, dict)]
        if all(isinstance(part, str) for part in parts) and parts:
            return "\n".join(map(str, parts))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
