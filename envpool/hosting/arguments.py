"""Checking a tool's arguments as the MCP SDK does: against the tool's JSON schema."""

from typing import Any

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

Json = dict[str, Any]


class Arguments:
    """The check of one tool's arguments, built once.

    The SDK checks the schema itself before each use: a schema that is none (a name required twice,
    for a path and a body parameter of one name) fails every call of its tool.
    """

    __slots__ = ("_errors", "_fault")

    def __init__(self, schema: Json) -> None:
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        self._fault = ""
        self._errors = kind(schema).iter_errors
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as exc:
            self._fault = str(exc)

    def fault(self, arguments: Json) -> str:
        """What is wrong with the arguments, in the SDK's words; empty: nothing."""
        error = best_match(self._errors(arguments))
        return "" if error is None else f"Input validation error: {error.message}"

    @property
    def schema_fault(self) -> str:
        """What is wrong with the schema; empty: nothing."""
        return self._fault
