"""The tools of a FastAPI application, as fastapi-mcp 0.4.0 would list them over MCP.

Each operation of the OpenAPI document is a tool: its name is the operation's id, its description
the summary, the description and an example of the first 2xx response, its arguments the path and
query parameters and the properties of the request body. References are replaced by what they refer
to. Where fastapi-mcp takes any type out of a set (a union without a type of its own), it depends on
Python's hash seed; we take the one that it takes with PYTHONHASHSEED=0 on Python 3.11.

Behaviour after fastapi-mcp 0.4.0 (openapi/convert.py, openapi/utils.py), read and compared; a
property in a response that the example leaves out (a union, a constant) is left out here too.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from envpool.core.errors import ToolsetError
from envpool.core.types import ToolSpec
from envpool.hosting.fastapi_compat import quiet

Json = dict[str, Any]

_METHODS = ("get", "post", "put", "delete", "patch")
_MODELS = "#/components/schemas/"
_NOT_SHOWN = (
    *("allOf", "anyOf", "oneOf", "nullable", "discriminator"),
    *("readOnly", "writeOnly", "xml", "externalDocs"),
)
# How a set of these words is ordered with PYTHONHASHSEED=0: number and object, which share a place,
# as they come. (Sets of five, or of number, object and boolean, may be ordered otherwise.)
_PLACES = {"array": 0, "string": 1, "integer": 2, "number": 3, "object": 3, "boolean": 4}
_EXAMPLES = {
    "date-time": "2023-01-01T00:00:00Z",
    "date": "2023-01-01",
    "email": "user@example.com",
    "uri": "https://example.com",
}


class Operation(msgspec.Struct, frozen=True):
    """How a tool's call becomes a request."""

    method: str  # upper case
    path: str  # template: "/orders/{order_id}"
    parameters: tuple[tuple[str, str], ...]  # (in, name), in order; in: path, query, header, …


class Listed(msgspec.Struct, frozen=True):
    """A tool and its operation."""

    spec: ToolSpec
    operation: Operation


def list_tools(app: FastAPI, path: Path) -> tuple[Listed, ...]:
    """The tools, in the order of the routes. Raises ToolsetError naming `path`.

    An operation id given twice is listed twice; calls go to the later one (fastapi-mcp does so).
    """
    try:
        with quiet():
            document = get_openapi(
                title=app.title,
                version=app.version,
                openapi_version=app.openapi_version,
                description=app.description,
                routes=app.routes,
            )
    except Exception as exc:
        raise ToolsetError(
            f"{path}: its tools cannot be told as OpenAPI: {type(exc).__name__}: {exc}"
        ) from exc
    models = document.get("components", {}).get("schemas", {})
    _check_recursion(models, path)
    listed = []
    for route, item in document.get("paths", {}).items():
        for method, operation in _resolved(item, models).items():
            if method in _METHODS and operation.get("operationId"):
                listed.append(_listed(method, route, operation))
    if not listed:
        raise ToolsetError(f"{path}: its application has no tool: no route is in its OpenAPI")
    return tuple(listed)


def _listed(method: str, route: str, operation: Json) -> Listed:
    name = operation["operationId"]
    spec = ToolSpec(name, _description(method, route, operation), _schema(name, operation))
    parameters = tuple(
        (parameter["in"], parameter["name"]) for parameter in operation.get("parameters", [])
    )
    return Listed(spec, Operation(method.upper(), route, parameters))


# References --------------------------------------------------------------------------------------


def _check_recursion(models: Json, path: Path) -> None:
    """Raise ToolsetError for a model that contains itself: it has no end when written out."""
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
    own = part.get("$ref")
    found = [own.rpartition("/")[2]] if isinstance(own, str) and own.startswith(_MODELS) else []
    return found + [name for value in part.values() for name in _references(value)]


def _resolved(part: Json, models: Json) -> Json:
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
    if part.get("contentMediaType") == "application/octet-stream":  # how newer FastAPI says it
        part = {"format" if k == "contentMediaType" else k: v for k, v in part.items()}
        part["format"] = "binary"
    for key, value in part.items():
        if isinstance(value, dict):
            part[key] = _resolved(value, models)
        elif isinstance(value, list):
            part[key] = [_resolved(v, models) if isinstance(v, dict) else v for v in value]
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
    # An empty description of a response counts as none.
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
        given = (entry["value"] for entry in content["examples"].values() if "value" in entry)
        example = next(given, None)
    elif "example" in content:
        example = content["example"]
    example = example or _example(_shown(content["schema"]))
    if not example:
        return ""
    return f"\n\n**Example Response:**\n```json\n{json.dumps(example, indent=2)}\n```"


def _shown(schema: Json) -> Json:
    """A schema without what an example cannot be made from."""
    schema = {key: value for key, value in schema.items() if key not in _NOT_SHOWN}
    if "properties" in schema:
        schema["properties"] = {
            name: _shown(value) if isinstance(value, dict) else value
            for name, value in schema["properties"].items()
        }
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema["items"] = _shown(schema["items"])
    return schema


def _example(schema: Any) -> Any:
    """A value of this schema; None: there is none to show.

    Example: {"type": "object", "properties": {"id": {"type": "integer"}}} -> {"id": 1}
    """
    if not schema or not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "object":
        made = ((name, _example(value)) for name, value in schema.get("properties", {}).items())
        return {name: value for name, value in made if value is not None}
    if kind == "array":
        item = _example(schema.get("items"))
        return [] if item is None else [item]
    if kind == "string":
        return _EXAMPLES.get(schema.get("format", "")) or schema.get("title", "string")
    known = {"integer": 1, "number": 1.0, "boolean": True}
    return known.get(kind) if isinstance(kind, str) else None


# Arguments ---------------------------------------------------------------------------------------


def _schema(name: str, operation: Json) -> Json:
    """The JSON schema of a tool's arguments: path parameters, then query, then the body's."""
    properties: Json = {}
    required: list[str] = []
    for place in ("path", "query"):
        for parameter in operation.get("parameters", []):
            if parameter.get("in") == place:
                _add(properties, parameter, is_path=place == "path")
                if parameter.get("required", place == "path"):
                    required.append(parameter["name"])
    body = _body(operation)
    for field, schema in body.get("properties", {}).items():
        _add(properties, {"name": field, "schema": schema}, is_path=False)
        if field in body.get("required", []):
            required.append(field)
    result = {"type": "object", "properties": properties, "title": f"{name}Arguments"}
    return result | {"required": required} if required else result


def _body(operation: Json) -> Json:
    """The schema of the first content type of the request body; empty: none."""
    contents = operation.get("requestBody", {}).get("content", {})
    first: Json = next(iter(contents.values()), {})
    schema: Json = first.get("schema", {})
    return schema


def _add(properties: Json, parameter: Json, *, is_path: bool) -> None:
    name, schema = parameter["name"], parameter.get("schema", {})
    added = schema.copy()
    added["title"] = name
    if parameter.get("description", ""):
        added["description"] = parameter["description"]
    if "type" not in added:
        added["type"] = "string" if is_path else _first_type(schema)
    properties[name] = added


def _first_type(schema: Json) -> str:
    """The type that a union is given.

    Example: {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]} -> "string"
    """
    types = [option.get("type") for option in schema.get("anyOf", [])]
    known = [kind for kind in types if kind and kind != "null"]
    return min(known, key=lambda kind: _PLACES.get(kind, 0), default="string")
