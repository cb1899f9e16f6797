"""Check a tool's arguments as the MCP SDK does: against the tool's JSON schema.

Nearly all arguments are valid, and nearly all schemas state only the type of an argument. For those
a comparison of types is enough (1 µs); jsonschema (40 µs) decides about everything else.
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
_ANNOTATIONS = {"title", "description", "default", "example", "examples", "deprecated"}


class ArgumentsCheck:
    """The check of one tool's arguments, created once."""

    __slots__ = ("_errors", "_kind", "_required", "_schema", "_schema_fault", "_types")

    def __init__(self, schema: Json) -> None:
        self._kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        self._errors = self._kind(schema).iter_errors
        self._schema = schema
        self._required = frozenset(schema.get("required", ()))
        self._types = {name: _types_of(one) for name, one in schema.get("properties", {}).items()}
        if schema.keys() - {"type", "properties", "required", "title"}:
            self._types = {}
            self._required = frozenset(("",))  # never present, so that jsonschema decides
        self._schema_fault: str | None = None  # None: not checked yet, it takes a millisecond

    def fault(self, arguments: Json) -> str:
        """The SDK's message about invalid arguments; empty when they are valid."""
        if self._match_by_type(arguments):
            return ""
        error = best_match(self._errors(arguments))
        return "" if error is None else f"Input validation error: {error.message}"

    def _match_by_type(self, arguments: Json) -> bool:
        """Whether the arguments are valid by their types alone. False: jsonschema must decide."""
        allowed = self._types
        for name, value in arguments.items():
            types = allowed.get(name)
            if types is None:
                if name in allowed:
                    return False
            elif type(value) not in types:
                return False
        return self._required <= arguments.keys()

    @property
    def schema_fault(self) -> str:
        """The error in the schema itself; empty when it is valid.

        The SDK checks the schema before each use: an invalid one (a name that is required twice,
        for a path and a body parameter of one name) fails every call of its tool.
        """
        if self._schema_fault is None:
            try:
                self._kind.check_schema(self._schema)
                self._schema_fault = ""
            except jsonschema.SchemaError as exc:
                self._schema_fault = str(exc)
        return self._schema_fault


def _types_of(schema: Any) -> frozenset[type] | None:
    """The types all of whose values are valid; None: the schema states more than types.

    Example: {"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"} -> {str}
    """
    if not isinstance(schema, dict) or schema.keys() - _ANNOTATIONS - {"type", "anyOf"}:
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
