"""The trainer samples: an episode against a trainer's own OpenAI-compatible proxy, on loopback."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.bridges.trainers.areal import RehearsalAgent
from rehearsal_room.bridges.trainers.play import play
from rehearsal_room.bridges.trainers.rllm import RehearsalEvaluator, RehearsalFlow, task_name
from rehearsal_room.bridges.trainers.segments import UnjudgedError
from rehearsal_room.scenarios.format import Task
from tests.bridges.trainers import stubs
from tests.bridges.trainers.stubs import TASK
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, Status
from tests.support.paths import LIBRARY


@pytest.fixture
def anyio_backend() -> str:
    """Trainers run on asyncio."""
    return "asyncio"


@pytest.fixture(params=["full", "last:1"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackgroundRun]:
    made = stubs.run_in(tmp_path, request.param)
    yield made
    made.close()


@dataclass(frozen=True)
class Oracle:
    """A model that makes the task's calls; the last call's id has the turn."""

    task: Task

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        ids = [one["tool_call_id"] for one in request.body["messages"] if one["role"] == "tool"]
        turn = int(ids[-1].split("-")[0].lstrip("c")) + 1 if ids else 0
        if turn == len(self.task.oracle):
            return await Completes(self.task.answer or "Done.").perform(request, writer)
        call = self.task.oracle[turn]
        made = (f"c{turn}-0", call.name, json.dumps(call.arguments))
        return await Completes(None, (made,)).perform(request, writer)


def solver_of(run: BackgroundRun) -> Oracle:
    return Oracle(run.tasks[TASK][1])


async def test_play(run: BackgroundRun) -> None:
    """The reward comes back; every request went to the proxy, with its key and the model's name."""
    async with ModelServer(solver_of(run)) as server:
        reward = await play(TASK, server.url, "session-key", "policy", run=run, temperature=1.0)
    assert reward == 1.0
    assert {one.headers["authorization"] for one in server.requests} == {"Bearer session-key"}
    sent = {(one.body["model"], one.body["temperature"]) for one in server.requests}
    assert sent == {("policy", 1.0)}
    assert len(server.requests) == len(run.tasks[TASK][1].oracle) + 1


async def test_a_model_that_does_nothing(run: BackgroundRun) -> None:
    """An episode without a call is judged like any other."""
    async with ModelServer(Completes("I have done nothing.")) as server:
        assert await play(TASK, server.url, "k", "policy", run=run) < 1.0


async def test_a_proxy_that_refuses(run: BackgroundRun) -> None:
    """A model that cannot answer gives no reward, and the reason; the key is not in it."""
    async with ModelServer(Status(401, "no such session")) as server:
        with pytest.raises(UnjudgedError, match=r"policy_error.*no such session") as raised:
            await play(TASK, server.url, "session-key", "policy", run=run)
    assert "session-key" not in str(raised.value)


async def test_a_run_without_a_judge(tmp_path: Path) -> None:
    """Without a judge there is no reward."""
    run = BackgroundRun(tmp_path / "run", [str(LIBRARY)], RunOptions())
    async with ModelServer(Completes("Done.")) as server:
        with pytest.raises(UnjudgedError, match="the run has no judge"):
            await play(TASK, server.url, "k", "policy", run=run)
    run.close()


async def test_areal(run: BackgroundRun) -> None:
    """AReaL calls `run` with the row and its proxy, and takes a float."""
    agent = RehearsalAgent(run)
    async with ModelServer(solver_of(run)) as server:
        proxy = {"base_url": server.url, "api_key": "k", "http_client": None}
        reward = await agent.run({"task": TASK}, **proxy)
    assert type(reward) is float and reward == 1.0


class Loose(SimpleNamespace):
    """Any of rLLM's models."""


TYPES: Any = SimpleNamespace(
    Trajectory=Loose,
    Episode=Loose,
    EvalOutput=lambda *values: values,
    Signal=lambda *values: values,
)


async def test_rllm(run: BackgroundRun) -> None:
    """The flow's trajectory has the reward, and the evaluator hands it on with its signals."""
    flow, evaluator = RehearsalFlow(run, types=TYPES), RehearsalEvaluator(types=TYPES)
    task = SimpleNamespace(id="7", metadata={"task": TASK})
    async with ModelServer(solver_of(run)) as server:
        config = SimpleNamespace(base_url=server.url, model="policy", session_uid="7:0")
        episode = await flow.arun(task, config)
    steps = float(len(run.tasks[TASK][1].oracle) + 1)
    signals = [("completed", 1.0), ("steps", steps), ("truncated", 0.0)]
    assert evaluator.evaluate(task, episode) == (1.0, True, signals)
    assert episode.is_correct


def test_tasks_of_rllm() -> None:
    """A task is named in its metadata, in a row, or by its id; a task without a name is refused."""
    assert task_name({"task": TASK}) == TASK
    assert task_name(SimpleNamespace(id=TASK, metadata={})) == TASK
    with pytest.raises(ValueError, match="names none of our tasks"):
        task_name({})
