"""Which look-ups are enough before a change.

The results are written by hand, as several tools may give them; no model takes part.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.judge.failures.calls import MadeCall, unread
from rehearsal_room.judge.failures.reference import Reference
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call

ORDER = {"id": 4105, "status": "open", "total_cents": 9350, "customer_id": 201}
LOOK, CANCEL = Call("get_order", {"order_id": 4105}), Call("cancel_order", {"order_id": 4105})


def missing(name: str, arguments: dict[str, Any], shown: object) -> str:
    """The look-up that an order's cancellation lacks after this call and its result."""
    task = replace(find("shop_support").task("cancel-duplicate"), oracle=(LOOK, CANCEL))
    reference = Reference(task, (ToolResult(json.dumps(ORDER)), ToolResult("{}")), (), {})
    made = MadeCall(0, name, arguments, ToolResult(json.dumps(shown)))
    write = MadeCall(1, CANCEL.name, CANCEL.arguments, ToolResult("{}"))
    return unread([made, write], write, 1, reference)


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("get_order", {"order_id": 4106}, ORDER | {"id": 4106, "total_cents": 1200}),
        ("list_orders", {}, [ORDER | {"id": 4106}, ORDER | {"id": 4107}]),
        ("get_customer", {"id": 201}, {"customer_id": 201, "status": "open", "name": "Ada"}),
    ],
)
def test_another_record_is_not_enough(name: str, arguments: dict[str, Any], shown: object) -> None:
    """However many of its fields are alike: status, customer, total."""
    assert missing(name, arguments, shown) == "get_order(order_id=4105)"


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("list_orders", {}, [{"order_id": 4105, "status": "open", "total_cents": 9350}]),
        ("query", {}, [[4105, "open", 9350, 201]]),
        ("order_summary", {"order_id": 4105}, {"status": "open", "total_cents": 9350}),
    ],
)
def test_another_look_up_of_the_record_is_enough(
    name: str, arguments: dict[str, Any], shown: object
) -> None:
    """Under other names, as a row, or without the id that it was asked for."""
    assert missing(name, arguments, shown) == ""
