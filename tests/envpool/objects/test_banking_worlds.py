"""The worlds of τ²-bench's `banking_knowledge`, whose tools are upstream's own.

REHEARSE_TAU2 names a checkout, REHEARSE_TAU2_PYTHON an interpreter that has its packages.
"""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.core.dialogue import ModelUser
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.tau2_banking import CATEGORY, BankingData

CHECKOUT = os.environ.get("REHEARSE_TAU2", "")
PYTHON = os.environ.get("REHEARSE_TAU2_PYTHON", "")
pytestmark = [
    pytest.mark.slow,  # a second for the checkout, and a minute for 200 sequences
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (CHECKOUT and PYTHON), reason="REHEARSE_TAU2 and …_PYTHON name nothing"),
]
_CALL, _UNLOCK = "call_discoverable_agent_tool", "unlock_discoverable_agent_tool"
_READ = "get_bank_account_transactions_9173"
_WORDS = ("fee", "credit card", "close an account", "(", "dispute|refund", "zzz")
Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: what is tested is the suite's worlds."""
    return "asyncio"


@asynccontextmanager
async def banking(variant: str) -> AsyncIterator[tuple[ObjectPool, list[Scenario]]]:
    """A pool, and a scenario for each task."""
    data = BankingData(CHECKOUT, variant)
    async with ObjectPool(ProgramSettings("tau", data.options(), PYTHON)) as pool:
        yield pool, data.scenarios(CATEGORY)


async def made(env: Env, calls: Calls, first: int = 0) -> list[Any]:
    """What each call gave: text, error, changes and the state after it."""
    found = []
    for number, (name, arguments) in enumerate(calls, first):
        result = await env.call(name, arguments, f"c{number}-0")
        found.append((result.text, result.error, result.changes, result.digest))
    return found


def drawn(scenario: Scenario, draw: Random) -> Calls:
    """Calls of both sides: some of the reference actions, and some that nobody should make."""
    task, record = scenario.tasks[0], scenario.suite
    assert record is not None and isinstance(task.user, ModelUser)
    right = [(one.name, dict(one.arguments)) for one in task.oracle]
    right += [(one.name, one.arguments) for turn in task.user.solution for one in turn.calls]
    calls: Calls = []
    for _ in range(draw.randint(4, 12)):
        hidden, users = draw.choice(record.unlisted), draw.choice(record.users_unlisted)
        word, values = draw.choice(_WORDS), {"user_id": "u", "account_id": "a", "amount": 1}
        calls += draw.choice(
            [
                right[: draw.randint(0, len(right))],
                draw.sample(right, min(2, len(right))),
                [(_UNLOCK, {"agent_tool_name": hidden})],
                [(_CALL, {"agent_tool_name": hidden, "arguments": json.dumps(values)})],
                [(_CALL, {"agent_tool_name": hidden, "arguments": "{"})],
                [("give_discoverable_user_tool", {"discoverable_tool_name": users})],
                [(hidden, {"account_id": "a"}), (users, {"user_id": "u"})],
                [("KB_search", {"query": word}), ("grep", {"pattern": word})],
                [("request_human_agent_transfer", {}), ("no_such_tool", {})],
            ]
        )
    return calls


async def test_a_run_its_fork_and_its_replay_are_equal() -> None:
    """200 random sequences: made in one go, with a fork in the middle whose origin does something
    else meanwhile, once more after a reset, and once more in another world, each call gives the
    same text, changes and state."""
    num_calls = num_changing = 0
    async with banking("bm25_grep") as (pool, scenarios):
        for seed in range(200):
            draw = Random(seed)
            scenario = draw.choice(scenarios)
            calls = drawn(scenario, draw)
            middle = draw.randint(0, len(calls))
            async with pool.lease(scenario) as env:
                straight = await made(env, calls)
                env.reset()
                again = await made(env, calls[:middle])
                fork = env.fork()
                await made(env, drawn(scenario, draw), first=1000)
                again += await made(fork, calls[middle:], first=middle)
                env.reset()
                assert await made(env, calls) == straight, f"reset, seed {seed}"
            assert again == straight, f"fork, seed {seed}"
            async with pool.lease(scenario) as env:
                assert await made(env, calls) == straight, f"replay, seed {seed}"
            num_calls += len(calls)
            num_changing += sum(bool(changes) for _, _, changes, _ in straight)
    assert num_calls > 1500 and num_changing > 300
    _say(f"{num_calls} calls, {num_changing} of them changed records")


async def test_an_unlocked_tool_stays_unlocked_in_a_fork_alone() -> None:
    """What the agent unlocked is known to a fork; what the fork unlocks, not to its origin."""
    async with banking("no_knowledge") as (pool, scenarios), pool.lease(scenarios[0]) as env:
        before = env.fork()
        await made(env, [(_UNLOCK, {"agent_tool_name": _READ})])
        after = env.fork()
        calls: Calls = [(_CALL, {"agent_tool_name": _READ, "arguments": '{"account_id": "a"}'})]
        texts = [(await made(one, calls, first=5))[0][0] for one in (before, env, after)]
    assert "has not been unlocked" in texts[0]
    assert texts[1] == texts[2] and "has not been unlocked" not in texts[1]


async def test_both_sides_have_one_database() -> None:
    """A record that the customer writes is listed once, and the agent reads it."""
    async with banking("no_knowledge") as (pool, scenarios), pool.lease(scenarios[0]) as env:
        result = await env.call("request_human_agent_transfer", {}, "c0-0")
        (change,) = result.changes
        assert change.key == ("human_transfer_requests", "transfer_request_1")
        assert change.before is None


async def test_only_reads_that_the_score_asks_for_are_recorded() -> None:
    """In a task whose reference calls a hidden tool that reads, that call is a record; in others
    it is none."""
    async with banking("no_knowledge") as (pool, scenarios):
        for is_asked in (True, False):
            scenario = next(one for one in scenarios if (_READ in _reads_of(one)) is is_asked)
            async with pool.lease(scenario) as env:
                await env.call(_UNLOCK, {"agent_tool_name": _READ}, "c0-0")
                given = {"agent_tool_name": _READ, "arguments": '{"account_id": "a"}'}
                result = await env.call(_CALL, given, "c1-0")
            kinds = [one.key[0] for one in result.changes]
            assert kinds == ["agent_discoverable_tools"] * is_asked


async def test_what_agents_get_that_do_not_do_the_work() -> None:
    """How many of the 97 tasks lazy agents solve, whose customer does its part or does nothing.
    Nine tasks ask for calls alone, so calling all that any task asks for solves those."""
    async with banking("no_knowledge") as (pool, scenarios):
        everything = [call for one in scenarios for call in _reference(one)]
        hidden = scenarios[0].suite.unlisted if scenarios[0].suite else ()
        reasons = [call for call in everything if call[0] == "transfer_to_human_agents"]
        transfers: Calls = [("transfer_to_human_agents", {"reason": "", "summary": ""})]
        agents: dict[str, tuple[Calls, bool]] = {
            "silent": ([], False),
            "silent, the customer acts": ([], True),
            "transfers": (transfers, False),
            "transfers, the customer acts": (transfers, True),
            "transfers for every reason": (reasons, False),
            "unlocks every tool": ([(_UNLOCK, {"agent_tool_name": one}) for one in hidden], False),
            "makes the calls of all tasks, the customer acts": (everything, True),
        }
        solved = {
            name: sum([await _is_solved(pool, one, *given) for one in scenarios])
            for name, given in agents.items()
        }
    assert solved == {
        "silent": 0,
        "silent, the customer acts": 7,
        "transfers": 0,
        "transfers, the customer acts": 8,
        "transfers for every reason": 4,
        "unlocks every tool": 0,
        "makes the calls of all tasks, the customer acts": 9,
    }


async def test_the_assertion_in_words_of_one_task_is_not_decided_without_a_model() -> None:
    """In task_102 alone a model is asked; without one its finding says so, and a model that finds
    it unmet decides."""
    async with banking("no_knowledge") as (pool, scenarios):
        asked = [one for one in scenarios if await pool.questions(one, one.tasks[0], [])]
        assert [one.title for one in asked] == ["task_102"]
        one, talk = asked[0], _talk(asked[0], _reference(asked[0]), True)
        without = await pool.score(one, one.tasks[0], talk)
        unmet = [{"expectedOutcome": "x", "reasoning": "", "metExpectation": False}]
        answer = json.dumps({"results": unmet})
        answered = await pool.score(one, one.tasks[0], talk, [answer])
    assert [found.name for found in without] == ["database", "nl assertions (not judged)"]
    assert [(found.name, found.passed) for found in answered] == [
        ("database", True),
        ("nl assertions", False),
    ]


def _reference(scenario: Scenario) -> Calls:
    return [(one.name, dict(one.arguments)) for one in scenario.tasks[0].oracle]


async def _is_solved(pool: ObjectPool, scenario: Scenario, calls: Calls, acts: bool) -> bool:
    found = await pool.score(scenario, scenario.tasks[0], _talk(scenario, calls, acts))
    return all(one.passed for one in found)


def _talk(scenario: Scenario, calls: Calls, acts: bool) -> list[dict[str, Any]]:
    """A talk in which the agent makes calls, then the customer its own where it acts."""
    user = scenario.tasks[0].user
    assert isinstance(user, ModelUser)
    own = [(one.name, one.arguments) for turn in user.solution for one in turn.calls if acts]
    said = {"text": "###STOP###", "ended": True, "calls": list(map(_made_call, own)), "acts": []}
    mine = list(map(_made_call, calls))
    return [{"calls": mine, "text": "Done.", "beside": "", "user": said}]


def _made_call(call: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"name": call[0], "arguments": call[1], "text": "", "error": None}


async def test_how_long_a_world_takes_to_reset() -> None:
    """Prints what a reset and a call after it take, of the 97 tasks; asserts no time."""
    async with banking("bm25_grep") as (pool, scenarios):
        seconds: dict[str, list[float]] = {"reset": [], "reset and first call": [], "call": []}
        for scenario in scenarios:
            async with pool.lease(scenario) as env:
                await env.call("get_current_time", {}, "c0-0")
                began = time.perf_counter()
                env.reset()
                seconds["reset"].append(time.perf_counter() - began)
                await env.call("get_current_time", {}, "c1-0")
                seconds["reset and first call"].append(time.perf_counter() - began)
                began = time.perf_counter()
                await env.call("request_human_agent_transfer", {}, "c2-0")
                seconds["call"].append(time.perf_counter() - began)
    assert {len(found) for found in seconds.values()} == {97}
    for name, found in seconds.items():
        _say(f"{name}: median {_ms(found, 0.5)}, of 100 the 95th {_ms(found, 0.95)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _reads_of(scenario: Scenario) -> Sequence[str]:
    assert scenario.suite is not None
    found: Sequence[str] = scenario.suite.world["reads"]
    return found


def _ms(found: list[float], share: float) -> str:
    return f"{sorted(found)[int(share * (len(found) - 1))] * 1000:.1f} ms"
