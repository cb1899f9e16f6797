"""Our tools as tools of Inspect AI."""

from contextvars import ContextVar
from typing import Any

from inspect_ai.tool import Tool, ToolDef, ToolParams, ToolSource

from rehearsal_room.envpool.core.types import ToolSpec

tools_of_sample: ContextVar[list[Tool]] = ContextVar(
    "tools"
)  # that this task of the event loop plays


def tool_of(tool: ToolSpec, call: Any) -> ToolDef:
    """A tool of a world as one of Inspect; `call(name, arguments)` returns its text."""

    async def execute(**arguments: Any) -> str:
        return str(await call(tool.name, arguments))

    # Inspect wants a description of every parameter.
    shown = {
        parameter: {"description": parameter.replace("_", " "), **schema}
        for parameter, schema in tool.schema.get("properties", {}).items()
    }
    parameters = ToolParams.model_validate({**tool.schema, "properties": shown})
    return ToolDef(execute, tool.name, tool.description or tool.name, parameters, parallel=False)


def world_tools() -> ToolSource:
    """The tools of the sample's world, for an agent such as `react(tools=[world_tools()])`."""
    return _WorldTools()


class _WorldTools(ToolSource):
    async def tools(self) -> list[Tool]:
        return tools_of_sample.get()
