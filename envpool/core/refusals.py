"""What a call gets that cannot be made: its tool does not exist, or it has no arguments object."""

from collections.abc import Sequence
from typing import Any

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec


def refusal(
    tools: Sequence[ToolSpec], name: str, arguments: Any
) -> tuple[str, ToolErrorKind] | None:
    """The text and kind of the refusal; None: the call can be made."""
    if all(tool.name != name for tool in tools):
        known = ", ".join(tool.name for tool in tools)
        return f"There is no tool {name!r}. Tools: {known}.", "unknown_tool"
    if not isinstance(arguments, dict):
        found = "null" if arguments is None else f"a {type(arguments).__name__}"
        return f"{name}: expected an object of arguments, got {found}.", "arguments"
    return None
