"""Run with the Python that has `openenv`: client.py URL PLAYS.json

64 episodes at once for each client: the oracles of all tasks (again from the first), and as many in
which nothing is done.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from openenv import GenericEnvClient
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient

CONCURRENCY = 64


def call_of(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


async def generic(url: str, play: dict[str, Any], *, idle: bool) -> float:
    """The reward of one episode of GenericEnvClient, as AWM's client plays it."""
    scenario = url.rpartition("/")[2]
    async with GenericEnvClient(base_url=url) as env:
        listed = await env.step({"type": "list_tools"})
        start = await env.reset(scenario=scenario, task_idx=play["task_idx"])
        assert start.observation["reward_type"] == "reset_ok"
        assert start.observation["num_tools"] == len(listed.observation["tools"])
        assert "tool_name" not in start.observation
        total = 0.0
        for call in [] if idle else play["calls"]:
            made = await env.step(call_of(call["name"], call["arguments"]))
            assert made.observation["reward_type"] == "tool_call_ok", made
            total += made.reward
        answer = "" if idle else play["answer"]
        for _ in range(2):  # the reward is given once
            made = await env.step(call_of("verify", {"final_answer": answer}))
            total += made.reward
            assert not made.done
        made = await env.step(call_of("done", {}))
        assert made.done
        assert made.observation["reward_type"] == "episode_done"
        assert (await env.state())["step_count"] == made.observation["steps_taken"]
        return total + made.reward


async def mcp(url: str, play: dict[str, Any], *, idle: bool) -> float:
    """The reward of one episode of MCPToolClient: calls over /mcp, reset and verdict over /ws."""
    async with MCPToolClient(base_url=url) as env:
        assert len(await env.list_tools()) > 10
        await env.reset(task_idx=play["task_idx"])
        for call in [] if idle else play["calls"]:
            if "name" in call["arguments"]:  # an argument that call_tool cannot take
                action = CallToolAction(tool_name=call["name"], arguments=call["arguments"])
                assert (await env.step(action)).observation.error is None
            else:
                assert await env.call_tool(call["name"], **call["arguments"]) is not None
        answer = {"final_answer": "" if idle else play["answer"]}
        made = await env.step(CallToolAction(tool_name="done", arguments=answer))
        assert made.done
        return made.reward


async def main(url: str, plays: list[dict[str, Any]]) -> None:
    world = url.rpartition("/")[2]
    for name, one in (("GenericEnvClient", generic), ("MCPToolClient", mcp)):
        for idle in (False, True):
            began = time.perf_counter()
            chosen = [plays[number % len(plays)] for number in range(CONCURRENCY)]
            rewards = Counter(await asyncio.gather(*(one(url, play, idle=idle) for play in chosen)))
            spent = time.perf_counter() - began
            assert (1.0 in rewards) is not idle, (world, name, idle, rewards)
            assert idle or set(rewards) == {1.0}, (world, name, rewards)
            who = "no-op" if idle else "oracle"
            sys.stdout.write(f"{world}, {name}, {CONCURRENCY} at once: {who} got {dict(rewards)}")
            sys.stdout.write(f" ({spent:.1f} s)\n")
            sys.stdout.flush()


asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
