"""Checking a tool's arguments as the MCP SDK does: against the tool's JSON schema.

Nearly all arguments fit, and nearly all schemas say no more of an argument than its type. Those are
passed by a look at the types (1 µs); jsonschema (40 µs) has the word on everything else.
"""

from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

Json = dict[str, Any]


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
_SILENT = {"title", "description", "default", "example", "examples", "deprecated"}


class Arguments:
    """The check of one tool's arguments, built once."""

    __slots__ = ("_errors", "_fitting", "_kind", "_required", "_schema", "_schema_fault")

    def __init__(self, schema: Json) -> None:
        self._kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        self._errors = self._kind(schema).iter_errors
        self._schema = schema
        self._required = frozenset(schema.get("required", ()))
        self._fitting = {name: _types_of(one) for name, one in schema.get("properties", {}).items()}
        if schema.keys() - {"type", "properties", "required", "title"}:
            self._fitting = {}
            self._required = frozenset(("",))  # which no arguments have: jsonschema is asked
        self._schema_fault: str | None = None  # None: not looked at yet, it takes a millisecond

    def fault(self, arguments: Json) -> str:
        """What is wrong with the arguments, in the SDK's words; empty: nothing."""
        if self._surely_fit(arguments):
            return ""
        error = best_match(self._errors(arguments))
        return "" if error is None else f"Input validation error: {error.message}"

    def _surely_fit(self, arguments: Json) -> bool:
        """Whether the arguments fit by their types alone. False says nothing."""
        fitting = self._fitting
        for name, value in arguments.items():
            types = fitting.get(name)
            if types is None:
                if name in fitting:
                    return False
            elif type(value) not in types:
                return False
        return self._required <= arguments.keys()

    @property
    def schema_fault(self) -> str:
        """What is wrong with the schema; empty: nothing.

        The SDK looks before each use: a schema that is none (a name required twice, for a path and
        a body parameter of one name) fails every call of its tool.
        """
        if self._schema_fault is None:
            try:
                self._kind.check_schema(self._schema)
                self._schema_fault = ""
            except jsonschema.SchemaError as exc:
                self._schema_fault = str(exc)
        return self._schema_fault


def _types_of(schema: Any) -> frozenset[type] | None:
    """The types whose every value fits; None: the schema says more, or something else.

    Example: {"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"} -> {str}
    """
    if not isinstance(schema, dict) or schema.keys() - _SILENT - {"type", "anyOf"}:
        return None
    if "type" not in schema and "anyOf" not in schema:
        return None
    found = frozenset(type for types in _TYPES.values() for type in types)
    if "type" in schema:
        named = schema["type"]
        if not isinstance(named, str) or named not in _TYPES:
            return None
        found &= frozenset(_TYPES[named])
    if "anyOf" in schema:
        branches = [_types_of(branch) for branch in schema["anyOf"]]
        found &= frozenset().union(*(branch for branch in branches if branch is not None))
    return found
