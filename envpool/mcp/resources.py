"""Tools with which an agent reads the resources and prompts of an MCP server.

MCP has them for the application, not for the model, so a world has these tools only where its
settings ask for them. A tool of the server's own with such a name wins.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import mcp_types
from fastmcp.client import Client

from rehearsal_room.envpool.core.types import ToolErrorKind, ToolSpec
from rehearsal_room.envpool.mcp.content import line_of

_Called = tuple[str, ToolErrorKind | None]


def _schema(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_RESOURCES = (
    ToolSpec("list_resources", "List the resources that can be read.", _schema()),
    ToolSpec(
        "read_resource",
        "Read a resource by its URI.",
        _schema(("uri",), uri={"type": "string"}),
    ),
)
_PROMPTS = (
    ToolSpec("list_prompts", "List the prepared prompts, with their arguments.", _schema()),
    ToolSpec(
        "get_prompt",
        "Get the messages of a prepared prompt.",
        _schema(
            ("name",),
            name={"type": "string"},
            arguments={"type": "object", "additionalProperties": {"type": "string"}},
        ),
    ),
)


def resource_tools(
    capabilities: mcp_types.ServerCapabilities | None, own: Iterable[ToolSpec]
) -> tuple[ToolSpec, ...]:
    """The tools for what a server has beside its `own` tools."""
    if capabilities is None:
        return ()
    names = {tool.name for tool in own}
    resources = _RESOURCES if capabilities.resources else ()
    prompts = _PROMPTS if capabilities.prompts else ()
    return tuple(tool for tool in (*resources, *prompts) if tool.name not in names)


async def call_resource_tool(
    client: Client[Any], name: str, arguments: dict[str, Any]
) -> tuple[str, ToolErrorKind | None]:
    """The text of a call of such a tool, and why it failed. Raises what the client raises."""
    calls: dict[str, Callable[[], Awaitable[_Called]]] = {
        "list_resources": lambda: _list_resources(client),
        "list_prompts": lambda: _list_prompts(client),
        "read_resource": lambda: _read(client, arguments.get("uri")),
        "get_prompt": lambda: _prompt(client, arguments.get("name"), arguments.get("arguments")),
    }
    return await calls[name]()


async def _list_resources(client: Client[Any]) -> _Called:
    found = [_line(one.uri, one) for one in await client.list_resources()]
    found += [_line(one.uri_template, one) for one in await client.list_resource_templates()]
    return "\n".join(found) or "There are no resources.", None


async def _list_prompts(client: Client[Any]) -> _Called:
    found = []
    for prompt in await client.list_prompts():
        names = [f"{a.name}{'' if a.required else '?'}" for a in prompt.arguments or ()]
        found.append(_line(f"{prompt.name}({', '.join(names)})", prompt))
    return "\n".join(found) or "There are no prompts.", None


async def _read(client: Client[Any], uri: Any) -> _Called:
    if not isinstance(uri, str) or not uri:
        return "read_resource takes one argument, uri: a text.", "arguments"
    parts = await client.read_resource(uri)
    blocks = (mcp_types.EmbeddedResource(type="resource", resource=part) for part in parts)
    return "\n".join(map(line_of, blocks)), None


async def _prompt(client: Client[Any], name: Any, arguments: Any) -> _Called:
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        return "get_prompt takes name, a text, and arguments, an object.", "arguments"
    prompt = await client.get_prompt(name, arguments or {})
    return "\n".join(f"{one.role}: {line_of(one.content)}" for one in prompt.messages), None


def _line(start: str, about: Any) -> str:
    """Example: ("notes://1", a resource named "first note") -> "notes://1: first note" """
    words = about.description or about.title or (about.name if about.name not in start else "")
    return f"{start}: {words}" if words else start
