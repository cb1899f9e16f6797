"""The memory of the BFCL's fourth version: rules from the state, and equal states on every way to
them. With REHEARSAL_BFCL_PYTHON, an interpreter that has the package, on the package's own classes.
"""

import os
from random import Random
from typing import Any

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.harness.continuation.beginning import go_to
from rehearsal_room.harness.core.events import Origin
from rehearsal_room.harness.core.messages import AgentCall, Briefing
from rehearsal_room.harness.dialects.bfcl import Bfcl
from rehearsal_room.harness.rollout.episode import rules_of
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.bfcl_entries import BfclData
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.support.suites import DATA, entry, object_pool

PYTHON = os.environ.get("REHEARSAL_BFCL_PYTHON", "")
NO_PACKAGE = "REHEARSAL_BFCL_PYTHON names no interpreter that has bfcl-eval"
WORDS = ("name", "pet", "home_town", "Bad Key", "the (blue) cat", "it's", "x" * 400, "{a}", "é", "")


async def test_the_rules_are_written_from_the_state() -> None:
    """What is remembered stands in the system prompt; a question's has the form of the answer, too.
    A world that has no such rules says so."""
    question, talk = entry("memory_kv"), entry("memory_kv_prereq")
    async with object_pool() as pool, pool.lease(talk) as env:
        empty = await rules_of(env, talk.tasks[0])
        assert empty == "You help a student.\nYou remember:\nNothing.\n"
        await env.call("core_memory_add", {"key": "name", "value": "Ada"}, "c0-0")
        remembered = await rules_of(env, talk.tasks[0])
        assert '"name": "Ada"' in remembered
        env.reset()
        assert await rules_of(env, talk.tasks[0]) == empty
        async with pool.lease(question) as other:
            asked = await rules_of(other, question.tasks[0])
            assert asked.startswith(f"{empty}\n\nFor your final answer to the user")
    tickets = entry("multi_turn_base")
    async with object_pool() as pool, pool.lease(tickets) as env:
        with pytest.raises(WorldError, match="rules: "):
            await rules_of(env, tickets.tasks[0])


async def test_each_memory_is_a_record() -> None:
    """So the rows say what was remembered, one by one."""
    async with object_pool() as pool, pool.lease(entry("memory_kv")) as env:
        result = await env.call("core_memory_add", {"key": "name", "value": "Ada"}, "c0-0")
        (change,) = result.changes
        assert change.key == ("MemoryAPI_kv.core_memory", "name")
        assert change.before is None and change.after is not None
        assert change.after["value"] == '"Ada"'


def _value(rng: Random, described: dict[str, Any]) -> Any:
    if rng.random() < 0.05:
        return rng.choice([None, 3, ["a"], {"b": 1}])
    return rng.randint(1, 6) if described["type"] == "integer" else rng.choice(WORDS)


def _calls(scenario: Scenario, rng: Random) -> list[AgentCall]:
    assert scenario.suite is not None
    tools = scenario.suite.world["tools"]
    found = []
    for number in range(rng.randint(2, 14)):
        tool = rng.choice(tools)
        properties = tool["schema"]["properties"]
        arguments = {name: _value(rng, one) for name, one in properties.items()}
        found.append(AgentCall(tool["name"], arguments, f"c{number}-0"))
    return found


async def _made(env: Env, calls: list[AgentCall]) -> list[ToolResult]:
    return [await env.call(one.name, one.arguments, one.id) for one in calls]


async def _check_sequences(data: BfclData, python: str, categories: list[str], count: int) -> int:
    """Straight on, forked, brought there by the calls, and after a reset: all is equal. Returns how
    many sequences changed something."""
    changed = 0
    scenarios = {name: data.scenarios(name)[0] for name in categories}
    async with ObjectPool(ProgramSettings("bfcl", data.options(), python)) as pool:
        for seed in range(count):
            rng = Random(seed)
            scenario = scenarios[categories[seed % len(categories)]]
            task, calls = scenario.tasks[0], _calls(scenario, rng)
            cut = rng.randrange(len(calls))
            async with pool.lease(scenario) as env, pool.lease(scenario) as brought:
                straight = await _made(env, calls)
                end = env.digest, await rules_of(env, task), env.state()
                env.reset()
                assert await _made(env, calls[:cut]) == straight[:cut]
                fork = env.fork()
                assert await _made(fork, calls[cut:]) == straight[cut:]
                assert (fork.digest, await rules_of(fork, task), fork.state()) == end
                assert await _made(env, calls[cut:]) == straight[cut:]
                origin = Origin("e000000", brought.start_digest, tuple(calls[:cut]))
                briefing = Briefing("", "", tuple(brought.tools), "", "")
                found = await go_to(
                    origin, brought.start_digest, brought.call, dialect=Bfcl(), briefing=briefing
                )
                assert found == (straight[cut - 1].digest if cut else brought.start_digest)
                assert await _made(brought, calls[cut:]) == straight[cut:]
                assert (brought.digest, await rules_of(brought, task), brought.state()) == end
            changed += straight[-1].digest != brought.start_digest
    return changed


async def test_every_way_to_a_state_is_equal() -> None:
    """Twelve random sequences of calls; `just parity` and the test below have more."""
    assert await _check_sequences(DATA, "", ["memory_kv"], 12) > 4


@pytest.mark.slow  # 200 sequences, four times each, in the package's own classes
@pytest.mark.skipif(not PYTHON, reason=NO_PACKAGE)
async def test_every_way_to_a_state_is_equal_in_the_package() -> None:
    """200 random sequences of calls of the released memories."""
    data = suite("bfcl_v4").open(SuiteFlags(python=PYTHON))
    assert isinstance(data, BfclData)
    assert await _check_sequences(data, PYTHON, ["memory_kv", "memory_rec_sum"], 200) > 60
