"""Any OpenEnv environment as a world: tools, calls, rewards as findings, and what goes wrong."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.mcp.unknown_states import UNKNOWN
from rehearsal_room.envpool.openenv import pool as pool_module
from rehearsal_room.envpool.openenv.content import read_observation
from rehearsal_room.envpool.openenv.pool import OpenEnvPool
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.mcp_tasks import read_openenv_tasks
from tests.support.openenv_server import EnvServer
from tests.support.protocols import served_protocols

COUNTER = """
name = "counter"
description = "Sums of numbers."

[[task]]
id = "sum"
instruction = "Add 2 and 3, then finish with the sum."
reset = { seed = 3 }

[[task]]
id = "half"
instruction = "Get half a point."
reward = 0.5
answer = "half"
[[task.check]]
name = "add"
arguments = { n = 0 }
expect = { equals = "0" }
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def tasks_for(folder: Path, url: str, text: str = COUNTER) -> Scenario:
    path = folder / "tasks.toml"
    path.write_text(text)
    return read_openenv_tasks(path, url)


async def call(env: Env, name: str, number: int = 0, **arguments: Any) -> ToolResult:
    return await env.call(name, arguments, f"c{number}-{name}")


async def test_rewards_become_a_finding(tmp_path: Path) -> None:
    """A lease is a session that was reset with the task's options; the sum of its rewards is judged
    against the task's; after the environment's end no call is sent."""
    async with EnvServer() as server, OpenEnvPool(server.url) as pool:
        made: Pool = pool
        scenario = tasks_for(tmp_path, server.url)
        states = await made.host(scenario)
        assert [tool.name for tool in states.tools] == ["add", "finish", "boom", "hang", "leave"]
        async with made.lease(scenario, scenario.tasks[0]) as env:
            assert server.resets[-1] == {"seed": 3}
            assert await call(env, "add", n=2) == ToolResult("2")
            assert await call(env, "add", 1, n=3) == ToolResult("5")
            assert await call(env, "add", 1, n=3) == ToolResult("5")  # the id was executed
            wrong = await call(env, "add", 2, n="x")
            assert wrong == ToolResult("n: expected a number", "arguments")
            assert (await call(env, "no")).error == "unknown_tool"
            ended = await call(env, "finish", n=5)
            assert ended.text.splitlines()[0] == "ended"
            assert (await call(env, "add", 3, n=1)).error == "refused"
            assert env.state() == UNKNOWN
            found = await env.check(scenario.tasks[0], "5")
            name, needed = "rewards of the environment", "at least 1 in all"
            assert found == (Finding(name, False, needed, "0", "goal"),)  # the wrong call cost 1
            env.reset()
            await call(env, "add", 9, n=5)
            await call(env, "finish", 9, n=5)
            assert (await env.check(scenario.tasks[0], ""))[0].passed
        assert (pool.num_live, server.live, pool.num_calls) == (0, 0, 8)


async def test_the_file_may_ask_for_more(tmp_path: Path) -> None:
    """An answer and checks of the task are findings beside the rewards."""
    async with EnvServer() as server, OpenEnvPool(server.url) as pool:
        scenario = tasks_for(tmp_path, server.url)
        await pool.host(scenario)
        async with pool.lease(scenario, scenario.tasks[1]) as env:
            found = await env.check(scenario.tasks[1], "it is half")
        assert [one.passed for one in found] == [False, True, True]


async def test_an_environment_without_tools_has_one(tmp_path: Path) -> None:
    """Its tool `step` has the fields of the action; observations are read as JSON."""
    async with EnvServer(has_tools=False) as server, OpenEnvPool(server.url) as pool:
        scenario = tasks_for(tmp_path, server.url)
        (tool,) = (await pool.host(scenario)).tools
        assert (tool.name, list(tool.schema["properties"])) == ("step", ["value"])
        async with pool.lease(scenario, scenario.tasks[0]) as env:
            assert (await call(env, "step", value=3)).text == '{"total":3}'
            assert (await call(env, "step", 1, value=2)).text.startswith('{"total":5}\n')
            assert (await env.check(scenario.tasks[0], ""))[0].found == "5"


async def test_leases_wait_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with room for two sessions plays any number of leases, two at a time."""
    monkeypatch.setattr(pool_module, "_PAUSE_S", 0.01)
    async with EnvServer(room=2) as server, OpenEnvPool(server.url) as pool:
        scenario = tasks_for(tmp_path, server.url)
        await pool.host(scenario)

        async def play() -> None:
            async with pool.lease(scenario, None) as env:
                await call(env, "add", n=1)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for _ in range(12):
                    group.start_soon(play)
        assert (server.most, server.live, pool.num_live) == (2, 0, 0)


async def test_a_world_that_breaks(tmp_path: Path) -> None:
    """An exception of the environment is the world's fault; a lost connection, and a call that was
    stopped, break the world."""
    async with EnvServer() as server, OpenEnvPool(server.url) as pool:
        scenario = tasks_for(tmp_path, server.url)
        await pool.host(scenario)
        async with pool.lease(scenario, None) as env:
            assert await call(env, "boom") == ToolResult("it broke", "internal")
            with pytest.raises(WorldError, match="closed the connection"):
                await call(env, "leave")
            for use in (env.state, env.fork):
                with pytest.raises(WorldError):
                    use()
            with pytest.raises(WorldError):
                await env.check(scenario.tasks[0], "")
        async with pool.lease(scenario, None) as env:
            with anyio.move_on_after(0.05):
                await call(env, "hang")
            with pytest.raises(WorldError, match="was stopped"):
                await call(env, "add", n=1)
        with pytest.raises(PoolError, match="stored states"):
            await pool.verify(scenario, scenario.tasks[0], UNKNOWN, "")


async def test_what_is_not_an_environment(tmp_path: Path) -> None:
    """A URL where nothing or something else is served is a PoolError that names it."""
    async with OpenEnvPool("http://127.0.0.1:1") as pool:
        with pytest.raises(PoolError, match="1: the environment cannot be"):
            await pool.host(tasks_for(tmp_path, "http://127.0.0.1:1"))
    async with EnvServer() as server, OpenEnvPool(f"{server.url}/elsewhere") as pool:
        with pytest.raises(PoolError, match="cannot be reached: 404"):
            await pool.host(tasks_for(tmp_path, server.url))


async def test_our_own_server_is_such_an_environment(tmp_path: Path) -> None:
    """The oracle in a world that `rehearse serve` serves: the results are those of a local pool,
    and the verdict is that of the tool `verify`."""
    shop = find("shop_support")
    task = shop.tasks[0]
    text = f"""
name = "shop"
description = "The shop, elsewhere."
[[task]]
id = "one"
instruction = {task.instruction!r}
reset = {{ task_id = "{task.id}" }}
"""
    local = LocalPool()
    settings = WorldServerSettings(port=0)
    async with served_protocols(shop, settings=settings) as client:
        url = f"{client.url}/openenv/shop_support"
        scenario = tasks_for(tmp_path, url, text)
        async with OpenEnvPool(url) as pool:
            await pool.host(scenario)
            async with pool.lease(scenario, None) as env, local.lease(shop, task) as same:
                assert len(env.tools) == len(same.tools)
                for number, made in enumerate(task.oracle):
                    found = await env.call(made.name, made.arguments, f"c{number}")
                    assert (
                        found.text
                        == (await same.call(made.name, made.arguments, f"c{number}")).text
                    )
                verdict = await env.check(scenario.tasks[0], task.answer)
                assert verdict == (Finding("verify", True, "complete", "complete", "goal"),)
            async with pool.lease(scenario, None) as env:
                (verdict_of_nothing,) = await env.check(scenario.tasks[0], "")
                assert (verdict_of_nothing.passed, verdict_of_nothing.found) == (
                    False,
                    "agent_error",
                )
        assert client.is_empty()
    local.close()


@pytest.mark.parametrize(
    ("observation", "text", "error"),
    [
        ({"tool_name": "x", "result": "plain"}, "plain", None),
        ({"tool_name": "x", "tool_result": "awm", "reward_type": "tool_call_ok"}, "awm", None),
        ({"result": {"content": [{"text": "a"}, {"text": "b"}], "data": 1}}, "a\nb", None),
        ({"result": {"content": [{"text": "no"}], "is_error": True}}, "no", "refused"),
        ({"result": [1, 2]}, "[1,2]", None),
        (
            {"error": "Order 7 not found", "reward_type": "server_error"},
            "Order 7 not found",
            "internal",
        ),
        ({"error": "no", "reward_type": "tool_not_found"}, "no", "unknown_tool"),
        ({"error": {"error_type": "execution_error", "message": "m"}}, "m", "refused"),
        ({"board": "x", "metadata": {}}, '{"board":"x"}', None),
    ],
)
def test_observations_as_texts(observation: dict[str, Any], text: str, error: str | None) -> None:
    """What an agent reads of an observation, and which kind of error it is."""
    assert read_observation(observation) == (text, error)


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ({"reward_type": "complete"}, True),
        ({"reward_type": "others"}, False),
        ({"reward_type": "agent_error"}, False),
        ({"reward_type": "server_error", "error": "database is locked"}, None),
        ({"reward_type": "no_verifier"}, None),
        ({"reward_type": "complete", "verify_result": {"execution_status": "error"}}, None),
        ({"error": "Internal Server Error"}, None),
        ({"code": "EXECUTION_ERROR", "message": "verify raised KeyError"}, None),
    ],
)
async def test_a_verdict_that_is_none_is_the_worlds_fault(
    tmp_path: Path, answer: dict[str, Any], passed: bool | None
) -> None:
    """AWM's `verify` over OpenEnv: where it crashes or there is none, the world failed."""
    async with EnvServer(verdict=answer) as server, OpenEnvPool(server.url) as pool:
        scenario = tasks_for(tmp_path, server.url)
        await pool.host(scenario)
        async with pool.lease(scenario, scenario.tasks[0]) as env:
            if passed is None:
                with pytest.raises(WorldError, match="verify"):
                    await env.check(scenario.tasks[0], "5")
            else:
                (found,) = await env.check(scenario.tasks[0], "5")
                assert (found.name, found.passed) == ("verify", passed)


async def test_a_check_of_no_tool_is_refused(tmp_path: Path) -> None:
    """Before the first episode."""
    text = COUNTER.replace('name = "add"', 'name = "ad"')
    async with EnvServer() as server, OpenEnvPool(server.url) as pool:
        with pytest.raises(PoolError, match=r"task 'half': check\[0\]: there is no tool 'ad'"):
            await RoutingPool(elsewhere=pool).host(tasks_for(tmp_path, server.url, text))
