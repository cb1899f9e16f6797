"""Dialogues over a protocol: the agent talks by a tool, and what the user does counts."""

import pytest

from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task
from tests.support.protocols import served_protocols

SHOP = find("shop_support")
DIALOGUES = [task for task in SHOP.tasks if task.must_be_chosen][:3]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("task", DIALOGUES, ids=lambda task: task.id)
async def test_the_oracle_of_a_dialogue_gets_one(task: Task) -> None:
    """The oracle says its lines between its calls, and its answer to the user at the end."""
    lines = {line.after: line.text for line in task.utterances}
    async with (
        served_protocols(SHOP) as client,
        client.socket("/openenv/shop_support/ws") as talk,
    ):
        start = await talk.reset(task_id=task.id)
        tools = await talk.send({"type": "step", "data": {"type": "list_tools"}})
        names = [tool["name"] for tool in tools["data"]["observation"]["tools"]]
        assert names[-1] == TALK.name
        assert start["observation"]["num_tools"] == len(names)
        for number in range(len(task.oracle) + 1):
            if number in lines:
                heard = await talk.call(TALK.name, text=lines[number])
                assert heard["observation"]["reward_type"] == "tool_call_ok"
            if number < len(task.oracle):
                call = task.oracle[number]
                await talk.call(call.name, **call.arguments)
        await talk.call(TALK.name, text=task.answer)
        assert (await talk.call("verify", final_answer=task.answer))["reward"] == 1.0
