"""Schemas of tools as agents' frameworks want them: enumerations that also name their type."""

from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec

_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def typed_tools(tools: list[ToolSpec]) -> list[ToolSpec]:
    """The tools, with a type beside each enumeration. JSON Schema needs none there; smolagents
    fails without it, and so do servers of strict schemas."""
    return [msgspec.structs.replace(tool, schema=typed_schema(tool.schema)) for tool in tools]


def typed_schema(schema: Any) -> Any:
    """A copy of a schema with a type beside each enumeration whose values have one.

    Example: {"enum": ["US", "CA"]} -> {"enum": ["US", "CA"], "type": "string"}
    """
    if isinstance(schema, list):
        return [typed_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {name: typed_schema(part) for name, part in schema.items()}
    values = schema.get("enum")
    if isinstance(values, list) and "type" not in schema:
        kinds = {type(value) for value in values}
        if len(kinds) == 1 and (kind := kinds.pop()) in _TYPES:
            typed["type"] = _TYPES[kind]
    return typed
