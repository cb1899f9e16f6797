"""Checking a tool's arguments as the MCP SDK does: against the tool's JSON schema."""

from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

Json = dict[str, Any]


class Arguments:
    """The check of one tool's arguments, built once."""

    __slots__ = ("_errors", "_kind", "_schema", "_schema_fault")

    def __init__(self, schema: Json) -> None:
        self._kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        self._errors = self._kind(schema).iter_errors
        self._schema = schema
        self._schema_fault: str | None = None  # None: not looked at yet, it takes a millisecond

    def fault(self, arguments: Json) -> str:
        """What is wrong with the arguments, in the SDK's words; empty: nothing."""
        error = best_match(self._errors(arguments))
        return "" if error is None else f"Input validation error: {error.message}"

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
