"""Sentences for validation errors: the field, the fault and what is allowed."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from rehearsal_room.scenarios.decode_errors import field_of, field_sentence


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    """A struct inside of others."""

    mode: Literal["fast", "slow"]
    weights: dict[str, Literal[1, 2]] = {}


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    """Every way in which one type holds another."""

    leaves: tuple[Inner, ...] = ()
    pair: tuple[int, Inner] | None = None
    rows: list[list[Inner]] = []
    some: Annotated[list[Inner], msgspec.Meta(max_length=3)] = []
    named: Inner | None = msgspec.field(default=None, name="as")


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"leaves": [{"mode": "fats"}]}, "leaves[0].mode: 'fats' is not one of 'fast', 'slow'"),
    ({"pair": [1, {"mode": "x"}]}, "pair[1].mode: 'x' is not one of 'fast', 'slow'"),
    ({"rows": [[], [{"mode": "x"}]]}, "rows[1][0].mode: 'x' is not one of 'fast', 'slow'"),
    ({"some": [{"mode": "x"}]}, "some[0].mode: 'x' is not one of 'fast', 'slow'"),
    ({"as": {"mode": "x"}}, "as.mode: 'x' is not one of 'fast', 'slow'"),
    (
        {"as": {"mode": "fast", "weights": {"a": 3}}},
        "as.weights[...]: 3 is not one of 1, 2",
    ),
    (
        {"as": {"mode": "fast", "weight": {}}},
        "as: object contains unknown field `weight`; did you mean 'weights'?",
    ),
    (
        {"colour": 1},
        "object contains unknown field `colour`; the fields are leaves, pair, rows, some, as",
    ),
    ({"as": {}}, "as: object missing required field `mode`"),
    ({"leaves": 1}, "leaves: expected `array`, got `int`"),
]


@pytest.mark.parametrize(("value", "sentence"), FAULTS)
def test_a_fault_names_what_is_allowed(value: dict[str, Any], sentence: str) -> None:
    """The field comes first; then the allowed words, the nearest field or all fields."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Tree)
    assert field_sentence(str(caught.value), Tree) == sentence


def test_many_fields_are_not_listed() -> None:
    """A struct with very many fields gives the nearest name or none."""
    wide = msgspec.defstruct("Wide", [(f"field_{n}", int, 0) for n in range(40)])
    message = "Object contains unknown field `colour`"
    assert field_sentence(message, wide) == "object contains unknown field `colour`"


def test_without_the_type_a_fault_is_only_turned_round() -> None:
    """Field and fault are split, and the fault begins in lower case."""
    message = "Invalid enum value 'x' - at `$.leaves[0].mode`"
    assert field_of(message) == ("leaves[0].mode", "invalid enum value 'x'")
    assert field_of("Expected `object`, got `int`") == ("", "expected `object`, got `int`")
