"""Calls drawn at random."""

from random import Random
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.messages import Act, Message, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.random_calls import (
    RandomPolicy,
    ValuePool,
    collect_values,
    random_arguments,
)
from tests.support.assignments import NATIVE, SHOP, VOID, assignment, played
from tests.support.prompts import BRIEFING, DIALECTS


class Line(msgspec.Struct, forbid_unknown_fields=True):
    sku: str
    quantity: Annotated[int, msgspec.Meta(ge=1, le=5)]


class Everything(msgspec.Struct, forbid_unknown_fields=True):
    order_id: Annotated[int, msgspec.Meta(ge=1)]
    reason: Literal["late", "wrong"]
    day: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    code: Annotated[str, msgspec.Meta(min_length=3, max_length=5)]
    rate: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    lines: Annotated[list[Line], msgspec.Meta(min_length=1, max_length=3)]
    plate: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{1,3}-[A-Z]{2}\.? \d+#?$")]
    state: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{2}$")]
    minus: Annotated[int, msgspec.Meta(lt=0)]
    dozens: Annotated[int, msgspec.Meta(multiple_of=12, ge=12)]
    express: bool
    note: str | None = None
    parent: int | None = None
    by_day: dict[str, int] = {}
    anything: Any = None


SCHEMA = msgspec.json.schema(Everything)
POOL: ValuePool = {
    "id": [7, -1, "x"],
    "code": ["abc", "too long a code"],
    "quantity": [3, 99],
    "day": ["now"],
}


@given(st.integers(), st.sampled_from([None, POOL]))
def test_random_arguments_fit(seed: int, pool: Any) -> None:
    """With any seed and pool the arguments fit the schema; equal seeds give equal arguments."""
    drawn = random_arguments(SCHEMA, Random(seed), pool)
    assert msgspec.convert(drawn, Everything)
    assert drawn == random_arguments(SCHEMA, Random(seed), pool)


def test_random_arguments_use_the_pool() -> None:
    """Plausible values are used most of the time, and optional fields are sometimes left out."""
    drawn = [random_arguments(SCHEMA, Random(seed), POOL) for seed in range(200)]
    assert sum(arguments["order_id"] == 7 for arguments in drawn) > 100
    assert 0 < sum("note" in arguments for arguments in drawn) < 200


def test_values_are_collected_from_results() -> None:
    """Ids and words of a result become plausible values, each once."""
    pool: dict[str, list[Any]] = {}
    text = '{"id":7,"status":"open","price":4.5,"lines":[{"sku":"A\\"1"},{"sku":"B"}],"id":7}'
    collect_values(f"Tool response:\n{text}", pool)
    assert pool == {"id": [7], "status": ["open"], "sku": ['A"1', "B"]}


@given(st.text())
def test_any_result_can_be_searched_for_values(text: str) -> None:
    """Collecting values accepts any text."""
    collect_values(text, {})


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_random_calls(dialect: Dialect) -> None:
    """A random agent makes 1 to `num_calls` calls of known tools."""
    policy = RandomPolicy(dialect, num_calls=3)
    names = {tool.name for tool in BRIEFING.tools}
    made = [await played(policy.agent(assignment(seed=seed)), dialect) for seed in range(20)]
    assert {len(called) for called, _ in made} == {1, 2, 3}
    assert {call.name for called, _ in made for call in called} == names


async def test_random_calls_use_results() -> None:
    """Ids from earlier results are used in later calls."""
    briefing = msgspec.structs.replace(BRIEFING, tools=BRIEFING.tools[:1])
    seen = Window((Message("tool", '{"order_id": 987654}', call_id="c0-0"),))
    asked = []
    for seed in range(20):
        agent = RandomPolicy(NATIVE).agent(Assignment("e", SHOP, VOID, seed, briefing))
        decision = NATIVE.read(await agent.reply(seen), turn=0)
        assert isinstance(decision, Act)
        asked.append(decision.calls[0].arguments["order_id"])
    assert asked.count(987654) > 10
