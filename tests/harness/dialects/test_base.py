"""What the dialects share: thoughts in a text, and values that arguments may have."""

import msgspec
import pytest
from hypothesis import given

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.dialects.base import first_thought, without_thoughts
from tests.support.prompts import json_values


@pytest.mark.parametrize(
    ("text", "rest", "thought"),
    [
        ("plain", "plain", ""),
        (" <think> a </think> b ", "b", "a"),
        ("a</think>b", "b", "a"),
        ("<think></think>b", "b", ""),
        ("x <think>a</think> y <think>b</think> z", "x  y  z", "a"),
        ("x <think>cut", "x", ""),
    ],
)
def test_thoughts(text: str, rest: str, thought: str) -> None:
    """Thoughts are separated from the rest of a text, also when the prompt began them."""
    assert (without_thoughts(text), first_thought(text)) == (rest, thought)


@given(json_values)
def test_arguments_can_be_logged(value: object) -> None:
    """MessagePack can hold every value in which `argument_fault` finds no fault."""
    if argument_fault(value) is None:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value)) == value
