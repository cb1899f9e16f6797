"""List the tools of a FastAPI application as fastapi-mcp 0.4.0 lists them over MCP.

Each operation of the OpenAPI document is a tool. Its name is the operation's id. Its description
has the summary, the description and an example of the first 2xx response. Its arguments are the
path and query parameters and the properties of the request body. References are replaced by what
they refer to. For a union without a type, fastapi-mcp takes an arbitrary type out of a set, which
depends on Python's hash seed; here it is the type that it takes with PYTHONHASHSEED=0 on Python
3.11.

The behaviour is that of fastapi-mcp 0.4.0 (openapi/convert.py, openapi/utils.py), read and
compared. A property of a response that its example omits (a union, a constant) is omitted here,
too.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.hosting.fastapi_compat import ignore_warnings, plain_model_search

Json = dict[str, Any]

_METHODS = ("get", "post", "put", "delete", "patch")
_MODELS = "#/components/schemas/"
_NOT_IN_EXAMPLES = (
    *("allOf", "anyOf", "oneOf", "nullable", "discriminator"),
    *("readOnly", "writeOnly", "xml", "externalDocs"),
)
# The order of a set of these words with PYTHONHASHSEED=0; number and object have the same rank and
# keep their order. (Sets of five, or of number, object and boolean, may have another order.)
_TYPE_ORDER = {"array": 0, "string": 1, "integer": 2, "number": 3, "object": 3, "boolean": 4}
_STRING_EXAMPLES = {
    "date-time": "2023-01-01T00:00:00Z",
    "date": "2023-01-01",
    "email": "user@example.com",
    "uri": "https://example.com",
}


class Operation(msgspec.Struct, frozen=True):
    """What is needed to build the request of a tool's call."""

    method: str  # upper case
    path: str  # template: "/orders/{order_id}"
    parameters: tuple[tuple[str, str], ...]  # (in, name), in order; in: path, query, header, …


class ListedTool(msgspec.Struct, frozen=True):
    """A tool and its operation."""

    spec: ToolSpec
    operation: Operation


def list_tools(app: FastAPI, path: Path) -> tuple[ListedTool, ...]:
    """The tools, in the order of the routes. Raises ToolsetError naming `path`.

    An operation id given twice is listed twice; calls go to the later one (fastapi-mcp does so).
    """
    try:
        with ignore_warnings(), plain_model_search():
            document = get_openapi(
                title=app.title,
                version=app.version,
                openapi_version=app.openapi_version,
                description=app.description,
                routes=app.routes,
            )
    except Exception as exc:
        raise ToolsetError(
            f"{path}: its tools have no OpenAPI description: {type(exc).__name__}: {exc}"
        ) from exc
    models = document.get("components", {}).get("schemas", {})
    _check_recursion(models, path)
    listed = []
    for route, item in document.get("paths", {}).items():
        for method, operation in _resolve_references(item, models).items():
            if method in _METHODS and operation.get("operationId"):
                listed.append(_listed_tool(method, route, operation))
    if not listed:
        raise ToolsetError(
            f"{path}: its application has no tool: its OpenAPI document has no route"
        )
    return tuple(listed)


def _listed_tool(method: str, route: str, operation: Json) -> ListedTool:
    name = operation["operationId"]
    spec = ToolSpec(
        name, _description(method, route, operation), _arguments_schema(name, operation)
    )
    parameters = tuple(
        (parameter["in"], parameter["name"]) for parameter in operation.get("parameters", [])
    )
    return ListedTool(spec, Operation(method.upper(), route, parameters))


# References --------------------------------------------------------------------------------------


def _check_recursion(models: Json, path: Path) -> None:
    """Raise ToolsetError for a model that contains itself: its references cannot be replaced."""
    names = {name: frozenset(_references(model)) for name, model in models.items()}
    for name in names:
        seen: set[str] = set()
        pending = set(names[name])
        while pending:
            if name in pending:
                raise ToolsetError(
                    f"{path}: the model {name} contains itself, so no tool that has it can be "
                    "listed (fastapi-mcp does not start with such a model either)"
                )
            seen |= pending
            pending = set().union(*(names.get(inner, ()) for inner in pending)) - seen


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for item in part if isinstance(item, dict) for name in _references(item)]
    if not isinstance(part, dict):
        return []
    target = part.get("$ref")
    found = []
    if isinstance(target, str) and target.startswith(_MODELS):
        found.append(target.rpartition("/")[2])
    return found + [name for value in part.values() for name in _references(value)]


def _resolve_references(part: Json, models: Json) -> Json:
    """A copy with every reference replaced by its model.

    Example: {"$ref": "#/components/schemas/Item", "title": "x"} -> {"title": "Item", "type": …}
    """
    reference = part.get("$ref")
    part = part.copy()
    if isinstance(reference, str) and reference.startswith(_MODELS):
        model = models.get(reference.rpartition("/")[2])
        if model is not None:
            del part["$ref"]
            part.update(model)
    if part.get("contentMediaType") == "application/octet-stream":  # in newer FastAPI
        part = {"format" if k == "contentMediaType" else k: v for k, v in part.items()}
        part["format"] = "binary"
    for key, value in part.items():
        if isinstance(value, dict):
            part[key] = _resolve_references(value, models)
        elif isinstance(value, list):
            part[key] = [
                _resolve_references(v, models) if isinstance(v, dict) else v for v in value
            ]
    return part


# Description -------------------------------------------------------------------------------------


def _description(method: str, route: str, operation: Json) -> str:
    text: str = operation.get("summary", "") or f"{method.upper()} {route}"
    if operation.get("description", ""):
        text += f"\n\n{operation['description']}"
    responses: Json = operation.get("responses", {})
    if not responses:
        return text
    success = next((str(code) for code in range(200, 300) if str(code) in responses), None)
    # An empty response object counts as missing.
    main = responses[success] if success is not None else None
    shown = {success: main} if success is not None and main else responses
    text += "\n\n### Responses:\n"
    for code, response in shown.items():
        text += f"\n**{code}**: {response.get('description', '')}"
        if response == main:
            text += " (Success Response)"
        for content_type, content in response.get("content", {}).items():
            if "schema" in content:
                text += f"\nContent-Type: {content_type}" + _example_text(content)
    return text


def _example_text(content: Json) -> str:
    example = None
    if "examples" in content:
        values = (entry["value"] for entry in content["examples"].values() if "value" in entry)
        example = next(values, None)
    elif "example" in content:
        example = content["example"]
    example = example or _example(_example_schema(content["schema"]))
    if not example:
        return ""
    return f"\n\n**Example Response:**\n```json\n{json.dumps(example, indent=2)}\n```"


def _example_schema(schema: Json) -> Json:
    """A schema without the keys that examples ignore."""
    schema = {key: value for key, value in schema.items() if key not in _NOT_IN_EXAMPLES}
    if "properties" in schema:
        schema["properties"] = {
            name: _example_schema(value) if isinstance(value, dict) else value
            for name, value in schema["properties"].items()
        }
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema["items"] = _example_schema(schema["items"])
    return schema


def _example(schema: Any) -> Any:
    """An example value of this schema; None when there is none.

    Example: {"type": "object", "properties": {"id": {"type": "integer"}}} -> {"id": 1}
    """
    if not schema or not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "object":
        values = ((name, _example(value)) for name, value in schema.get("properties", {}).items())
        return {name: value for name, value in values if value is not None}
    if kind == "array":
        item = _example(schema.get("items"))
        return [] if item is None else [item]
    if kind == "string":
        return _STRING_EXAMPLES.get(schema.get("format", "")) or schema.get("title", "string")
    known = {"integer": 1, "number": 1.0, "boolean": True}
    return known.get(kind) if isinstance(kind, str) else None


# Arguments ---------------------------------------------------------------------------------------


def _arguments_schema(name: str, operation: Json) -> Json:
    """The JSON schema of a tool's arguments: path and query parameters, then body properties."""
    properties: Json = {}
    required: list[str] = []
    for location in ("path", "query"):
        for parameter in operation.get("parameters", []):
            if parameter.get("in") == location:
                _add_property(properties, parameter, is_path=location == "path")
                if parameter.get("required", location == "path"):
                    required.append(parameter["name"])
    body = _body(operation)
    for field, schema in body.get("properties", {}).items():
        _add_property(properties, {"name": field, "schema": schema}, is_path=False)
        if field in body.get("required", []):
            required.append(field)
    result = {"type": "object", "properties": properties, "title": f"{name}Arguments"}
    return result | {"required": required} if required else result


def _body(operation: Json) -> Json:
    """The schema of the first content type of the request body; empty without a body."""
    contents = operation.get("requestBody", {}).get("content", {})
    first: Json = next(iter(contents.values()), {})
    schema: Json = first.get("schema", {})
    return schema


def _add_property(properties: Json, parameter: Json, *, is_path: bool) -> None:
    name, schema = parameter["name"], parameter.get("schema", {})
    added = schema.copy()
    added["title"] = name
    if parameter.get("description", ""):
        added["description"] = parameter["description"]
    if "type" not in added:
        added["type"] = "string" if is_path else _first_type(schema)
    properties[name] = added


def _first_type(schema: Json) -> str:
    """The type that fastapi-mcp gives to a union.

    Example: {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]} -> "string"
    """
    types = [option.get("type") for option in schema.get("anyOf", [])]
    known = [kind for kind in types if kind and kind != "null"]
    return min(known, key=lambda kind: _TYPE_ORDER.get(kind, 0), default="string")
