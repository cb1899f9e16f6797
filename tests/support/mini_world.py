"""The mini world of the tests, changed copies of it, and episodes in it."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.scenarios.format import Call, read
from tests.support.paths import LIBRARY


def library() -> HostedScenario:
    """The mini world, hosted."""
    return HostedScenario(read(LIBRARY))


def variant(folder: Path, **edits: tuple[str, str]) -> Path:
    """A copy of the mini world with one text replaced in a file, as in
    `variant(tmp_path, verify=("fine_cents=0", "fine_cents=1"))`. Keys are file names without
    their ending."""
    copy = folder / LIBRARY.name
    shutil.copytree(LIBRARY, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (old, new) in edits.items():
        path = next(copy.glob(f"{name}.*"))
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is not once in {path.name}"
        path.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def episode(
    world: HostedScenario,
    task: str,
    calls: Sequence[Call | tuple[str, dict[str, Any]]] = (),
    answer: str = "",
    *,
    ending: Ending = Ending.ANSWERED,
    results: Sequence[ToolResult] = (),
    step_rewards: dict[int, float] | None = None,
    stateless: bool = False,
    error: str | None = None,
    name: str = "e1",
) -> Trajectory:
    """An episode of these calls, one per step. `results` replace those of the last calls, which are
    then not executed; `step_rewards` are those of the format rules."""
    lease = world.lease()
    steps = []
    for index, call in enumerate(calls):
        tool, arguments = (call.name, call.arguments) if isinstance(call, Call) else call
        replaced = index - len(calls) + len(results)
        result = results[replaced] if replaced >= 0 else lease.call(tool, arguments)
        act = Act((AgentCall(tool, arguments, f"c{index}-0"),))
        reward = (step_rewards or {}).get(index)
        steps.append(StepTaken(Reply(f"Step {index}"), act, (result,), reward=reward))
    scenario = world.scenario
    started = EpisodeStarted(
        scenario=scenario.name,
        task=task,
        instruction="",
        group="g",
        member=0,
        group_size=1,
        seed=0,
        policy="test",
        dialect="native",
        history="full",
        fingerprint="",
        scenario_digest=scenario.digest,
        start_digest=world.start_digest,
    )
    state = None if stateless else lease.state()
    ended = EpisodeEnded(ending, answer, len(steps), state, error)
    return Trajectory(name, 1, started, tuple(steps), ended)


def oracle(world: HostedScenario, task_id: str, **changed: Any) -> Trajectory:
    """The oracle's episode, with some arguments of `episode` changed."""
    task = world.scenario.task(task_id)
    arguments = {"calls": task.oracle, "answer": task.answer, **changed}
    return episode(world, task_id, **arguments)


def records(trajectory: Trajectory) -> list[Record]:
    """The records of an episode, as a run makes them."""
    assert trajectory.ended is not None
    events: list[Event] = [trajectory.started, *trajectory.steps, trajectory.ended]
    return [
        Record(trajectory.episode, trajectory.attempt, seq, 1000.0 + seq, event)
        for seq, event in enumerate(events)
    ]
