"""A task of a small shop, assignments of it for agents, and the calls that an agent makes."""

from pathlib import Path

from rehearsal_room.harness.core.messages import Act, Answer, Message, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import Call, Scenario, Task
from tests.support.prompts import BRIEFING, DIALECTS

NATIVE = DIALECTS[0]
WINDOW = Window((Message("user", "Void order 7."),))

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


async def played(agent: Agent, dialect: Dialect = NATIVE) -> tuple[list[Call], str]:
    """The calls that an agent makes, one per turn (without those that the dialect requires first),
    and its answer."""
    made: list[Call] = []
    for turn in range(50):
        decision = dialect.read(await agent.reply(WINDOW), turn=turn)
        if isinstance(decision, Answer):
            assert tuple(made[: len(dialect.opening_calls())]) == dialect.opening_calls()
            return made[len(dialect.opening_calls()) :], decision.text
        assert isinstance(decision, Act)
        (call,) = decision.calls
        made.append(Call(call.name, call.arguments))
    raise AssertionError("the agent never answers")
