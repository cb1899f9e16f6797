"""Run with the Python that has `openenv-core` 0.3.0: client.py URL"""

import asyncio
import sys
import tomllib
from pathlib import Path

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

TASKS = Path(__file__).parents[3] / "scenarios" / "bundled" / "shop_support" / "tasks.toml"


async def main(url: str) -> None:
    task = tomllib.loads(TASKS.read_text())["task"][0]
    async with GenericEnvClient(base_url=url) as env:
        start = await env.reset(task_idx=0)
        assert start.observation["task"] == task["instruction"].strip()
        for call in task["oracle"]:
            step = {"type": "call_tool", "tool_name": call["name"], "arguments": call["arguments"]}
            assert (await env.step(step)).observation["reward_type"] == "tool_call_ok"
        answer = {"final_answer": task["answer"]}
        end = await env.step({"type": "call_tool", "tool_name": "verify", "arguments": answer})
        assert (end.reward, end.done) == (1.0, False)
        end = await env.step({"type": "call_tool", "tool_name": "done", "arguments": {}})
        assert (end.reward, end.done) == (0.0, True)
    sys.stdout.write("openenv-core 0.3.0, GenericEnvClient: oracle got 1.0\n")
    async with MCPToolClient(base_url=url) as env:
        tools = await env.list_tools()
        assert len(tools) > 10
        await env.reset(task_idx=0)
        for call in task["oracle"]:
            assert await env.call_tool(call["name"], **call["arguments"])
        await refused(env, "no_such_tool", "tool_not_found")
        call = CallToolAction(tool_name="verify", arguments={"final_answer": task["answer"]})
        assert (await env.step(call)).reward == 1.0
        await refused(env, task["oracle"][0]["name"], "takes no more calls")
        env.use_production_mode = True  # calls over /mcp, in a session of their own
        try:
            await env.call_tool("get_order", order_id=4101)
        except RuntimeError as exc:
            assert "call reset first" in str(exc), exc
        else:
            raise AssertionError("a session without an episode executed a call")
    sys.stdout.write(f"openenv-core 0.3.0, MCPToolClient: {len(tools)} tools, oracle got 1.0\n")


async def refused(env: MCPToolClient, tool: str, why: str) -> None:
    try:
        await env.call_tool(tool)
    except RuntimeError as exc:
        assert why in str(exc), exc
    else:
        raise AssertionError(f"{tool} was called")


asyncio.run(main(sys.argv[1]))
