"""A task of a small shop, and assignments of it for agents."""

from pathlib import Path

from harness.policies.base import Assignment
from scenarios.api import User
from scenarios.format import Call, Scenario, Task
from tests.support.prompts import BRIEFING

VOID = Task(
    "void-7",
    "Void order 7 and refund ORD-7.",
    "simple",
    "change",
    "Order 7 is void.",
    (
        Call("get_order", {"order_id": 7}),
        Call("void_order", {"order_id": 7, "reason": "late"}),
        Call("refund", {"order_id": 7, "amount_cents": 4250}),
    ),
)
WRITES = [False, True, True]  # of the oracle's calls
SHOP = Scenario(
    name="shop",
    title="A shop",
    version="1",
    description="A small shop.",
    clock="2026-03-14T09:30:00Z",
    user=User("1", "Ann Lee", "clerk"),
    schema_sql="",
    data_sql="",
    rules="",
    tasks=(VOID,),
    path=Path("shop"),
    digest="0" * 32,
)


def assignment(task: Task = VOID, seed: int = 0, member: int = 0, episode: str = "e") -> Assignment:
    return Assignment(episode, SHOP, task, seed, BRIEFING, member)
