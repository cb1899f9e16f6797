"""Turn the functions of tools.py into tools: names, descriptions, schemas, checked arguments.

A schema is the same in every process: properties have the order of the parameters, and the values
of an enum are sorted.
"""

import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.inprocess.world_imports import world_builtins
from rehearsal_room.scenarios.api import Db
from rehearsal_room.scenarios.files import compiled
from rehearsal_room.scenarios.format import Scenario

_SMALL = 2**63  # integers below it, with either sign, have 64 bits
_STEP = re.compile(r"\.(\w+)|\[")  # a step of a msgspec path such as `.lines[0].sku`


class BadArguments(Exception):
    """Arguments that do not match a tool's schema; the sentence is for the agent."""


class Tool:
    """One function of tools.py, called with arguments from JSON."""

    __slots__ = ("_fields", "_order", "_type", "function", "spec")

    def __init__(
        self,
        function: Callable[..., Any],
        spec: ToolSpec,
        kind: type[msgspec.Struct],
        order: tuple[str, ...] = (),
    ) -> None:
        self.function = function
        self.spec = spec
        self._type = kind
        self._fields = kind.__struct_fields__
        self._order = order or self._fields  # of the function's parameters

    def with_function(self, function: Callable[..., Any]) -> "Tool":
        """The same tool for its callers, implemented by another function."""
        return Tool(function, self.spec, self._type, self._order)

    def arguments(self, value: Any) -> dict[str, Any]:
        """The checked keyword arguments. Raises BadArguments."""
        if not isinstance(value, Mapping):
            raise BadArguments(f"{self.spec.name}: the arguments must be a JSON object.")
        if reason := _unloggable(value):
            raise BadArguments(f"{self.spec.name}: {reason}.")
        try:
            checked = self._checked(value)
        except msgspec.ValidationError as exc:
            raise BadArguments(f"{self.spec.name}: {self._explain(str(exc))}.") from None
        except UnicodeEncodeError as exc:  # surrogates; msgspec reports unknown names only
            raise BadArguments(f"{self.spec.name}: there is no argument {exc.object!r}.") from None
        return {field: getattr(checked, field) for field in self._fields}

    def _checked(self, value: Mapping[str, Any]) -> msgspec.Struct:
        """The arguments as the tool's struct. JSON Schema calls 3.0 an integer."""
        try:
            return msgspec.convert(value, self._type)
        except msgspec.ValidationError as exc:
            if not str(exc).startswith("Expected `int") or "got `float`" not in str(exc):
                raise
        return msgspec.convert(_with_integers(value), self._type)

    def _explain(self, message: str) -> str:
        """A message of msgspec as a sentence for the agent."""
        fault, _, location = message.rpartition(" - at `")
        fault, location = (fault, location.rstrip("`")) if fault else (message, "$")
        if location.startswith("key"):  # key` in `$.prices
            where = location.rpartition("`$")[2][1:]
            what = f"a name in argument {where!r}" if where else "an argument's name"
            return f"{what}: {_lower_first(fault)}"
        path = location[2:]  # after "$."
        inside = f"argument {path!r}: " if path else ""
        whole = self.spec.schema or _schema(self._type, self._order)
        schema = _schema_at(whole, location[1:])
        takes = ", ".join(schema.get("properties", ())) or "none"
        if missing := re.fullmatch(r".* missing required field `(\w+)`", fault):
            where = f"{path}.{missing[1]}" if path else missing[1]
            return f"argument {where!r} is missing. {'It takes' if path else 'Arguments'}: {takes}"
        if unknown := re.fullmatch(r".* unknown field `(.*)`", fault, re.DOTALL):
            what = "field" if path else "argument"
            list_of = "Fields" if path else "Arguments"
            return f"{inside}there is no {what} {unknown[1]!r}. {list_of}: {takes}"
        if wrong := re.fullmatch(r"Invalid enum value (.*)", fault, re.DOTALL):
            allowed = ", ".join(map(repr, _enum(schema)))
            return f"{inside}expected one of {allowed}, got {wrong[1]}"
        return f"{inside}{_lower_first(fault)}"


def _with_integers(value: Any) -> Any:
    """A value whose whole floats are integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _SMALL:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _with_integers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_integers(inner) for inner in value]
    return value


def _lower_first(fault: str) -> str:
    fault = fault.replace("`", "")
    return fault[:1].lower() + fault[1:]


def _unloggable(arguments: Mapping[str, Any]) -> str | None:
    """Why a world and its log cannot hold the arguments, whatever the schema; None: they can."""
    for name, value in arguments.items():
        kind = type(value)
        if kind is str:
            if "\0" not in value and (value.isascii() or _is_text(value)):
                continue
        elif kind is int:
            if -_SMALL < value < _SMALL:
                continue
        elif value is None or kind is bool:
            continue
        if fault := argument_fault({name: value}) or _fault(value):
            return f"argument {name!r}: {fault}"
    return None


def _fault(value: Any) -> str | None:
    """Why JSON has no form for a value whose depth is bounded; None: it has one."""
    if isinstance(value, str):
        if "\0" in value:
            return "a text with the character U+0000 cannot be stored"
        return None if _is_text(value) else "half of a surrogate pair is not Unicode text"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is not a JSON number"
    if isinstance(value, Mapping):
        value = (*value, *value.values())
    if isinstance(value, list | tuple):
        return next((fault for item in value if (fault := _fault(item))), None)
    return None


def _is_text(value: Any) -> bool:
    """Whether it is a text that UTF-8 can encode."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _branches(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a schema; the schema itself where there are none."""
    found = schema.get("anyOf") or schema.get("oneOf")
    return [inner for branch in found for inner in _branches(branch)] if found else [schema]


def _schema_at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The part of a schema that describes a msgspec path such as `.lines[0].sku`; empty where the
    schema does not determine it."""
    for step in _STEP.finditer(path):
        for branch in _branches(schema):
            inner = (
                branch.get("properties", {}).get(step[1])
                if step[1]
                else branch.get("items") or branch.get("additionalProperties")
            )
            if isinstance(inner, dict):
                schema = inner
                break
        else:
            return {}
    return schema


def _enum(schema: dict[str, Any]) -> list[Any]:
    """The values of an enum and of its alternatives, JSON null left out."""
    values = [value for branch in _branches(schema) for value in branch.get("enum", ())]
    return [value for value in values if value is not None]


def load_module(path: Path, name: str, source: str | None = None) -> ModuleType:
    """Execute a Python file of a package as a module with this name.

    With `source`, that text is executed and the file is not read; messages still name the file.
    The import system's compiled files are not used: they are found by size and modification time,
    so a file that was edited within a second could run as it was before. Raises ToolsetError naming
    the file when it cannot be executed.
    """
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolsetError(f"{path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # type hints and structs of the module look it up there
    vars(module)["__builtins__"] = world_builtins()
    try:
        text = path.read_bytes() if source is None else source
        # The package is trusted, or this is a worker.
        exec(compiled(text, str(path)), vars(module))  # nosec B102
    except Exception as exc:
        del sys.modules[name]
        raise ToolsetError(f"{path}: {type(exc).__name__}: {exc}") from exc
    return module


def load(scenario: Scenario, source: str | None = None, *, schemas: bool = True) -> dict[str, Tool]:
    """The tools of a package, in the order in which tools.py defines them.

    With `source`, that text is executed instead of the file. Without `schemas`, which take a third
    of the time, those of the specifications are empty: for callers that show the tools to nobody.
    Results are the same, and so are the sentences about wrong arguments.
    Raises ToolsetError naming the file, the tool and the parameter.
    """
    path = scenario.path / "tools.py"
    name = f"rehearsal_{scenario.name}_{scenario.digest[:12]}_tools"
    module = load_module(path, name, source)
    tools = {}
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if function.__module__ == module.__name__ and (
            tool := _tool(path, name, function, schemas=schemas)
        ):
            tools[name] = tool
    if not tools:
        raise ToolsetError(f"{path}: no function has a first parameter annotated Db")
    return tools


def _tool(path: Path, name: str, function: Callable[..., Any], *, schemas: bool) -> Tool | None:
    """The function as a tool; None when its first parameter is not a Db.

    Raises ToolsetError for a first parameter `db` without an annotation: its author meant a tool.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as exc:
        raise ToolsetError(f"{path}: {name}: its annotations cannot be read: {exc}") from exc
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name == "db" and "db" not in hints:
        line = function.__code__.co_firstlineno
        raise ToolsetError(
            f"{path}: line {line}: function {name!r} has a parameter 'db' without an annotation: "
            f"write `db: Db` to make it a tool, or rename it to '_{name}' to make it a helper"
        )
    if not parameters or hints.get(parameters[0].name) is not Db:
        return None
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ToolsetError(
            f"{path}: {name}: a tool is a plain function: write it without async and yield"
        )
    description = inspect.getdoc(function)
    if not description:
        raise ToolsetError(f"{path}: {name}: a tool needs a docstring, which is its description")
    fields = [_field(path, name, parameter, hints) for parameter in parameters[1:]]
    required_first = sorted(fields, key=lambda field: len(field) == 3)
    try:
        kind = msgspec.defstruct(
            f"{name}_arguments", required_first, forbid_unknown_fields=True, kw_only=True
        )
        order = tuple(parameter.name for parameter in parameters[1:])
        schema = _schema(kind, order) if schemas else {}
    except (TypeError, RecursionError) as exc:
        raise ToolsetError(f"{path}: {name}: {_name_untyped(fields)}{exc}") from exc
    return Tool(function, ToolSpec(name, description, schema), kind, order)


def _field(
    path: Path, name: str, parameter: inspect.Parameter, hints: dict[str, Any]
) -> tuple[str, Any] | tuple[str, Any, Any]:
    prefix = f"{path}: {name}: parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolsetError(f"{prefix} is open-ended: a schema cannot describe * and ** parameters")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolsetError(f"{prefix} is positional only: arguments are passed by name")
    if parameter.name not in hints:
        raise ToolsetError(f"{prefix} has no annotation")
    if parameter.default is parameter.empty:
        return parameter.name, hints[parameter.name]
    if isinstance(parameter.default, list | dict | set):
        raise ToolsetError(f"{prefix} has a mutable default: use None")
    try:
        msgspec.convert(parameter.default, hints[parameter.name])
    except msgspec.ValidationError:
        fault = f"has default {parameter.default!r}, which does not match its annotation"
        raise ToolsetError(f"{prefix} {fault}") from None
    except TypeError:
        pass  # a type without a schema: `_tool` reports it
    return parameter.name, hints[parameter.name], parameter.default


def _name_untyped(fields: list[Any]) -> str:
    """The parameter whose type has no JSON schema, as the start of a sentence."""
    for name, hint, *_ in fields:
        try:
            _inlined(*_components(hint))
        except (TypeError, RecursionError):
            return f"parameter {name!r}: "
    return ""


def _components(hint: Any) -> tuple[Any, dict[str, Any]]:
    (reference,), components = msgspec.json.schema_components([hint])
    return reference, components


def _schema(kind: type[msgspec.Struct], order: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of the arguments, without `$ref` and titles, properties in the order of
    the function's parameters."""
    schema: dict[str, Any] = _inlined(*_components(kind))
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
