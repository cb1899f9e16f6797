"""The check of arguments agrees with jsonschema."""

from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.exceptions import best_match

from rehearsal_room.envpool.hosting.arguments import ArgumentsCheck

_NAMES = st.sampled_from(["a", "b", "c"])
_TYPES = st.sampled_from(
    ["string", "integer", "number", "boolean", "null", "array", "object", ["string", "null"]]
)
_plain = st.fixed_dictionaries({"type": _TYPES}, optional={"title": st.just("t")})
_more = st.fixed_dictionaries(
    {},
    optional={
        "type": _TYPES,
        "anyOf": st.lists(_plain, min_size=1, max_size=3),
        "enum": st.just(["x", 1]),
        "minimum": st.just(2),
        "maxLength": st.just(1),
        "items": st.just({"type": "integer"}),
        "default": st.just(None),
    },
)
_schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(_NAMES, _plain | _more)},
    optional={
        "required": st.lists(_NAMES, unique=True),
        "title": st.just("t"),
        "additionalProperties": st.booleans(),
    },
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "xy"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=3,
)


@given(_schemas, st.dictionaries(_NAMES, _values))
def test_faults_are_those_of_jsonschema(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """For all schemas and arguments, the fault is the best match of jsonschema's errors."""
    error = best_match(jsonschema.Draft202012Validator(schema).iter_errors(arguments))
    expected = "" if error is None else f"Input validation error: {error.message}"
    assert ArgumentsCheck(schema).fault(arguments) == expected
