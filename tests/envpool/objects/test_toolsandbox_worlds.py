"""ToolSandbox's worlds, with a checkout: REHEARSAL_TOOLSANDBOX names its folder and
REHEARSAL_TOOLSANDBOX_PYTHON an interpreter with its packages."""

import os
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import Env, SentCall, TakesTogether, ToolResult
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.toolsandbox import VARIANTS, ToolSandboxData

_FOLDER, _PYTHON = (os.environ.get(f"REHEARSAL_TOOLSANDBOX{name}", "") for name in ("", "_PYTHON"))
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,  # the suite's program takes some seconds to load its scenarios
    pytest.mark.skipif(not _FOLDER, reason="REHEARSAL_TOOLSANDBOX names no checkout"),
]
_NUM_SEQUENCES = int(os.environ.get("REHEARSAL_TOOLSANDBOX_SEQUENCES", "200"))
_TEXTS = ("Homer S", "+10000000000", "friend", "Ada", "2")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def data() -> ToolSandboxData:
    return ToolSandboxData(_FOLDER, _PYTHON)


def _pool(data: ToolSandboxData) -> ObjectPool:
    return ObjectPool(ProgramSettings("sandbox", data.options(), _PYTHON))


def _named(data: ToolSandboxData, name: str) -> Scenario:
    return next(one for variant in VARIANTS for one in data.scenarios(variant) if one.name == name)


Replies = list[list[SentCall]]


def _drawn(env: Env, rng: Random) -> Replies:
    replies: Replies = []
    for turn in range(rng.randint(1, 5)):
        calls = []
        for at in range(rng.choice([1, 1, 2, 3])):
            tool = rng.choice([one for one in env.tools if one.name != "end_conversation"])
            arguments = {
                name: _value(one, rng)
                for name, one in tool.schema["properties"].items()
                if name in tool.schema["required"] or rng.random() < 0.5
            }
            calls.append(SentCall(tool.name, arguments, f"c{turn}-{at}", f"call_{turn}_{at}"))
        replies.append(calls)
    return replies


def _value(schema: dict[str, Any], rng: Random) -> Any:
    match schema.get("type"):
        case "boolean":
            return rng.random() < 0.5
        case "integer":
            return rng.randint(1, 12)
        case "number":
            return rng.choice([1762430400.0, 37.3, 3])
    return rng.choice(_TEXTS)


async def _make(env: Env, replies: Sequence[list[SentCall]]) -> list[ToolResult]:
    results = []
    for calls in replies:
        assert isinstance(env, TakesTogether)
        env.announce(calls)
        results += [await env.call(one.name, one.arguments, one.call_id) for one in calls]
    return results


@pytest.mark.timeout(900)  # 200 worlds, each call in all orders
async def test_random_calls_forked_and_made_again_are_equal(data: ToolSandboxData) -> None:
    """Straight run, fork in the middle and a second run give the same results, rows and digests,
    ids and times included; a reset is the start again."""
    rng = Random(40)
    scenarios = [one for name in VARIANTS for one in data.scenarios(name)]
    reset_ms, wrote = [], 0
    async with _pool(data) as pool:
        for scenario in rng.sample(scenarios, _NUM_SEQUENCES):
            async with pool.lease(scenario) as env, pool.lease(scenario) as second:
                replies = _drawn(env, rng)
                middle = rng.randint(0, len(replies))
                before = await _make(env, replies[:middle])
                fork = env.fork()
                straight = before + await _make(env, replies[middle:])
                assert before + await _make(fork, replies[middle:]) == straight
                assert await _make(second, replies) == straight
                assert env.state() == fork.state() == second.state()
                wrote += env.digest != env.start_digest
                env.reset()
                assert env.digest == env.start_digest
                began = time.perf_counter()
                env.reset()
                await env._open()  # type: ignore[attr-defined]
                reset_ms.append(1000 * (time.perf_counter() - began))
    assert wrote > _NUM_SEQUENCES / 10
    middle_ms = sorted(reset_ms)[_NUM_SEQUENCES // 2]
    line = f"{_NUM_SEQUENCES} sequences, {wrote} wrote; a reset takes {middle_ms:.2f} ms (median)"
    sys.stdout.write(f"{line}\n")


async def test_an_order_of_calls_that_fails_decides(data: ToolSandboxData) -> None:
    """Two calls of one reply, of which one needs the other: the order that fails is the one whose
    results and state stand, and the places say so. One after the other, both succeed."""
    scenario = _named(data, "turn_on_cellular_low_battery_mode")
    low = SentCall("set_low_battery_mode_status", {"on": False}, "c0-0", "call_0")
    cellular = SentCall("set_cellular_service_status", {"on": True}, "c0-1", "call_1")
    async with _pool(data) as pool:
        async with pool.lease(scenario) as env:
            one, two = await _make(env, [[low, cellular]])
        assert (one.text, one.place, two.error, two.place) == ("None", 1, "refused", 0)
        async with pool.lease(scenario) as env:
            one, two = await _make(env, [[low], [_later(cellular)]])
        assert (one.error, one.place, two.error, two.place) == (None, None, None, None)


def _later(call: SentCall) -> SentCall:
    """The call in a turn of its own."""
    return SentCall(call.name, call.arguments, "c1-0", call.sent_id)


async def test_what_is_paid_without_the_work(data: ToolSandboxData) -> None:
    """Calls of tools that were not offered, ids that are programs, replies that upstream cannot use
    and talk after the end earn nothing; silence earns the scenarios that have a minefield only. An
    agent that lies earns what upstream pays for its words."""
    scenario = _named(data, "cellular_off")
    call = {"name": "set_cellular_service_status", "arguments": {"on": False}, "id": "call_1"}
    right = {"calls": [call], "text": None, "user": None}
    says = {"text": "Go on.", "ended": False, "calls": [], "acts": []}
    said = {"calls": [], "text": "Cellular service is turned off", "user": says}
    ended = {**said, "text": "Bye.", "user": {**says, **_END}}
    useless = {"calls": [], "text": None, "user": None}
    wrong = {**call, "name": "set_wifi_status"}
    program = {**call, "id": "import os; os._exit(1)\nx"}

    async with _pool(data) as pool:

        async def score(*talk: dict[str, Any]) -> float | None:
            (found,) = await pool.score(scenario, scenario.tasks[0], list(talk))
            return found.share

        assert await score(right, said) == 1.0
        assert await score({**right, "calls": [program]}, said) == 1.0
        assert await score({**right, "calls": [call, wrong]}, said) == 0.0
        assert await score(right, said, useless) == 0.0
        assert await score(ended, right, said) == 0.0
        assert await score(said) == 0.5  # the lie: upstream pays for the milestone of words
        assert await score() == 0.0
        silent = _named(data, "find_days_till_holiday_insufficient_information")
        (found,) = await pool.score(silent, silent.tasks[0], [])
        assert found.share == 1.0


_END = {"text": "", "ended": True, "calls": [{"name": "end_conversation", "arguments": {}}]}
_END["acts"] = [{"text": "", "calls": 1}]
