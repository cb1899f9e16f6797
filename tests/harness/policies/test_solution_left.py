"""What is left of a solution, whatever was called before."""

from typing import Any

import pytest

from rehearsal_room.harness.policies.solution_left import Made, calls_left, differing_arguments
from rehearsal_room.scenarios.format import Call


def call(name: str, order: int, **more: Any) -> Call:
    """A call about an order."""
    return Call(name, {"order_id": order, **more})


SOLUTION = (call("get", 7), call("ship", 7), call("note", 7, text="It left the house today."))
WRITES = (False, True, True)


def made(*calls: Call, is_error: bool = False) -> list[Made]:
    """Calls that were made."""
    return [Made(one.name, one.arguments, is_error) for one in calls]


@pytest.mark.parametrize(
    ("before", "left", "left_if_tried"),
    [
        ([], [0, 1, 2], [0, 1, 2]),
        (made(SOLUTION[0]), [1, 2], [1, 2]),
        (made(SOLUTION[1]), [2], [2]),  # what the look-up shows was not needed
        (made(SOLUTION[2]), [1], [1]),  # a write that was left out is made up for
        (made(call("get", 9), call("get", 9)), [0, 1, 2], [1, 2]),
        (made(call("ship", 9)), [0, 1, 2], [2]),
        (made(SOLUTION[1], is_error=True), [0, 1, 2], [2]),  # it was refused
        (made(call("note", 7, text="The parcel has left.")), [1], [1]),  # in other words
        (made(call("note", 7, text="No.")), [0, 1, 2], [1]),
        (made(SOLUTION[1], SOLUTION[1]), [2], [2]),
        (made(call("drop", 7)), [0, 1, 2], [0, 1, 2]),
    ],
)
def test_calls_left(before: list[Made], left: list[int], left_if_tried: list[int]) -> None:
    """Look-ups before what was done are not made up for; writes are, unless what was tried
    counts."""
    assert calls_left(SOLUTION, before, WRITES) == left
    assert calls_left(SOLUTION, before, WRITES, tried_counts=True) == left_if_tried


def test_a_call_that_is_needed_twice() -> None:
    """It is left once after it was made once, and nobody knows which of them writes."""
    assert calls_left((SOLUTION[1], SOLUTION[1]), made(SOLUTION[1])) == [1]
    assert calls_left(SOLUTION, made(SOLUTION[2])) == [0, 1]


def test_differing_arguments() -> None:
    """Those with other values, or on one side alone; true is not 1."""
    one, other = {"a": 1, "b": True, "c": [1, 2]}, {"a": 1, "b": 1, "c": [1, 3], "d": None}
    assert differing_arguments(one, other) == ["b", "c", "d"]
