"""Run with the Python that has `openreward`: client.py URL WORLD..."""

import asyncio
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

os.environ["OPENREWARD_SESSION_URL"] = os.environ["OPENREWARD_API_URL"] = sys.argv[1]
os.environ["OPENREWARD_API_KEY"] = "none"

from openreward import AsyncOpenReward

BUNDLED = Path(__file__).parents[3] / "scenarios" / "bundled"


def oracles(world: str) -> list[dict[str, Any]]:
    """The tasks of a bundled world with their oracles."""
    tasks = tomllib.loads((BUNDLED / world / "tasks.toml").read_text())["task"]
    return [task for task in tasks if "user" not in task]


async def play(environment: Any, task: Any, oracle: dict[str, Any] | None) -> float:
    """The reward of the oracle, or of doing nothing."""
    async with environment.session(task=task) as session:
        assert await session.is_assistant_message_final()
        blocks = await session.get_prompt()
        assert blocks[-1].text == task.task_spec["instruction"]
        for call in () if oracle is None else oracle.get("oracle", ()):
            output = await session.call_tool(call["name"], call.get("arguments", {}))
            assert output.reward is None
            assert not output.finished
        end = await session.call_terminal_tool("" if oracle is None else oracle["answer"])
        assert end.finished
        assert end.reward is not None
        return end.reward


async def main(worlds: list[str]) -> None:
    openreward = AsyncOpenReward()
    for world in worlds:
        environment = openreward.environments.get(world)
        assert "train" in await environment.list_splits()
        tasks = await environment.list_tasks("train")
        known = {task["id"]: task for task in oracles(world)}
        assert await environment.num_tasks("train") == len(tasks) == len(known)
        assert len(await environment.list_tools()) > 10
        chosen = tasks[:8]
        for name in ("oracle", "no-op"):
            plays = [
                play(environment, one, known[one.task_spec["id"]] if name == "oracle" else None)
                for one in chosen
            ]
            found = await asyncio.gather(*plays)
            assert all((reward == 1.0) == (name == "oracle") for reward in found), (name, found)
            sys.stdout.write(f"openreward, {world}: {name} got {found}\n")
        async with environment.session(split="train", index=0) as session:
            try:
                await session.call_tool("no_such_tool", {})
            except Exception as exc:
                assert getattr(exc, "reason", "") == "not_found", exc
            else:
                raise AssertionError("an unknown tool was called")
    await openreward.environments.aclose()


asyncio.run(main(sys.argv[2:]))
