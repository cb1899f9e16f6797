"""Purposes: the requests of a task that do not depend on each other, counted from its oracle."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.core.world_host import HostedOutcome
from rehearsal_room.scenarios.generate.tasks.purposes import Purposes, purposes_of

Step = tuple[str, dict[str, Any], Any, bool]  # tool, arguments, result, whether it wrote


def counted(instruction: str, *steps: Step) -> Purposes:
    """The purposes of an oracle of these steps."""
    calls = [Call(name, arguments) for name, arguments, _, _ in steps]
    outcomes = [
        HostedOutcome(msgspec.json.encode(result).decode(), False, wrote)
        for _, _, result, wrote in steps
    ]
    return purposes_of(instruction, calls, outcomes)


FIND: Step = ("search_customers", {"query": "Ana Lopez"}, [{"id": 4071}], False)


def test_a_chain_is_one_purpose() -> None:
    """What a search finds is listed, and what the list shows is changed: one purpose."""
    found = counted(
        "Renew the overdue loans of Ana Lopez.",
        FIND,
        ("list_loans", {"customer_id": 4071}, [{"id": 811}, {"id": 812}], False),
        ("renew_loan", {"loan_id": 811}, {"id": 811}, True),
        ("renew_loan", {"loan_id": 812}, {"id": 812}, True),
    )
    assert found == Purposes(1, 1.0)


def test_a_look_up_of_a_named_customer_ties_no_wishes_together() -> None:
    """Two wishes about one customer are two purposes; the search belongs to the larger one."""
    found = counted(
        "Ana Lopez has a new phone, 555-0101, and wants to end the plan that renews on 2026-05-01.",
        FIND,
        ("update_phone", {"customer_id": 4071, "phone": "555-0101"}, {"id": 4071}, True),
        ("list_plans", {"customer_id": 4071}, [{"id": 9301}], False),
        ("end_plan", {"plan_id": 9301}, {"id": 9301}, True),
    )
    assert found == Purposes(2, 0.75)


def test_a_record_that_an_earlier_write_made_ties() -> None:
    """A line that is added to the order which the first call placed belongs to it."""
    found = counted(
        "Place an order of a lamp and a desk.",
        ("place_order", {"product_id": 5001}, {"order_id": 7100}, True),
        ("add_line", {"order_id": 7100, "product_id": 5002}, {"line_id": 8200}, True),
    )
    assert found.count == 1


def test_what_is_read_to_decide_belongs_to_the_decision() -> None:
    """A reading whose result no call uses belongs to the later call about the same record."""
    found = counted(
        "If the parcel of Ana Lopez has not left, cancel it.",
        FIND,
        ("find_orders", {"customer_id": 4071}, [{"id": 7100}], False),
        ("get_shipment", {"order_id": 7100}, {"id": 66, "status": "planned"}, False),
        ("cancel_order", {"order_id": 7100}, {"id": 7100}, True),
    )
    assert found == Purposes(1, 1.0)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_unrelated_writes_are_as_many_purposes(count: int) -> None:
    """Writes that share nothing are counted one by one."""
    steps: list[Step] = [
        (f"close_{number}", {"id": 100 + number}, {"done": True}, True) for number in range(count)
    ]
    assert counted("Close them.", *steps).count == count


def test_look_ups_alone_are_one_question() -> None:
    """An oracle that only looks up what the instruction names has one purpose."""
    assert counted("What does Ana Lopez owe?", FIND) == Purposes(1, 1.0)
