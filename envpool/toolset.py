"""From the functions of tools.py to tools: names, descriptions, schemas, checked arguments."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec

from envpool.errors import ToolsetError
from envpool.types import ToolSpec
from scenarios.api import Db
from scenarios.format import Scenario


class BadArguments(Exception):
    """Arguments that do not fit a tool's schema; the sentence is for the agent."""


class Tool:
    """One function of tools.py, callable with arguments that came as JSON."""

    __slots__ = ("_fields", "_type", "function", "spec")

    def __init__(self, function: Callable[..., Any], spec: ToolSpec, kind: type[msgspec.Struct]):
        self.function = function
        self.spec = spec
        self._type = kind
        self._fields = kind.__struct_fields__

    def arguments(self, given: Any) -> dict[str, Any]:
        """The checked keyword arguments. Raises BadArguments."""
        try:
            checked = msgspec.convert(given, self._type)
        except msgspec.ValidationError as exc:
            raise BadArguments(self._complaint(given, str(exc))) from None
        return {field: getattr(checked, field) for field in self._fields}

    def _complaint(self, given: Any, message: str) -> str:
        name = self.spec.name
        if not isinstance(given, Mapping):
            return f"{name}: the arguments must be a JSON object."
        takes = ", ".join(self._fields) or "none"
        if missing := re.search(r"missing required field `(\w+)`", message):
            return f"{name}: argument {missing[1]!r} is missing. Arguments: {takes}."
        if unknown := re.search(r"unknown field `([^`]*)`", message):
            return f"{name}: there is no argument {unknown[1]!r}. Arguments: {takes}."
        fault, _, place = message.partition(" - at `$.")
        fault = fault.replace("`", "")
        return f"{name}: argument {place.rstrip('`')!r}: {fault[:1].lower()}{fault[1:]}."


def load_module(path: Path, name: str) -> ModuleType:
    """Execute a Python file of a trusted package under a module name of its own.

    Raises ToolsetError naming the file when it cannot be executed.
    """
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolsetError(f"{path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # where type hints and structs of the module look for it
    try:
        spec.loader.exec_module(module)
    except Exception as exc:
        del sys.modules[name]
        raise ToolsetError(f"{path}: {type(exc).__name__}: {exc}") from exc
    return module


def load(scenario: Scenario) -> dict[str, Tool]:
    """The tools of a package, in the order in which tools.py defines them.

    Raises ToolsetError naming the file, the tool and the parameter.
    """
    path = scenario.path / "tools.py"
    module = load_module(path, f"rehearsal_{scenario.name}_{scenario.digest[:12]}_tools")
    tools = {}
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if function.__module__ == module.__name__ and (tool := _tool(path, name, function)):
            tools[name] = tool
    if not tools:
        raise ToolsetError(f"{path}: no function has a first parameter annotated Db")
    return tools


def _tool(path: Path, name: str, function: Callable[..., Any]) -> Tool | None:
    """The function as a tool; None when its first parameter is no Db."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as exc:
        raise ToolsetError(f"{path}: {name}: its annotations cannot be read: {exc}") from exc
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or hints.get(parameters[0].name) is not Db:
        return None
    description = inspect.getdoc(function)
    if not description:
        raise ToolsetError(f"{path}: {name}: a tool needs a docstring, its description")
    fields = [_field(path, name, parameter, hints) for parameter in parameters[1:]]
    required_first = sorted(fields, key=lambda field: len(field) == 3)
    try:
        kind = msgspec.defstruct(
            f"{name}_arguments", required_first, forbid_unknown_fields=True, kw_only=True
        )
        schema = _schema(kind, [parameter.name for parameter in parameters[1:]])
    except TypeError as exc:
        raise ToolsetError(f"{path}: {name}: {exc}") from exc
    return Tool(function, ToolSpec(name, description, schema), kind)


def _field(
    path: Path, name: str, parameter: inspect.Parameter, hints: dict[str, Any]
) -> tuple[str, Any] | tuple[str, Any, Any]:
    place = f"{path}: {name}: parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolsetError(f"{place} is open-ended; a schema cannot tell what it takes")
    if parameter.name not in hints:
        raise ToolsetError(f"{place} has no annotation")
    if parameter.default is parameter.empty:
        return parameter.name, hints[parameter.name]
    if isinstance(parameter.default, list | dict | set):
        raise ToolsetError(f"{place} has a mutable default; use None")
    return parameter.name, hints[parameter.name], parameter.default


def _schema(kind: type[msgspec.Struct], order: list[str]) -> dict[str, Any]:
    """The JSON schema of the arguments, without `$ref` and titles, properties in the order of
    the function's parameters."""
    (reference,), components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = _inlined(reference, components)
    schema.pop("title", None)
    properties = schema.get("properties", {})
    schema["properties"] = {name: properties[name] for name in order}
    required = schema.get("required", [])
    schema["required"] = [name for name in order if name in required]
    schema["additionalProperties"] = False
    return schema


def _inlined(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(components[node["$ref"].rpartition("/")[2]], components)
    return {key: _inlined(value, components) for key, value in node.items()}
