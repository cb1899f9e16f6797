"""rLLM (0.3): an AgentFlow and its Evaluator, for `AgentTrainer(agent_flow=…, evaluator=…)`.

    run = BackgroundRun("runs/rllm", ["shop_support"], RunOptions(judge=ScenarioJudges))
    flow, evaluator = RehearsalFlow(run), RehearsalEvaluator()

Each task has `metadata["task"]` (`shop_support:cancel-duplicate`), or the name as its `id`. rLLM's
gateway captures each request as a step with its own prompt, so rLLM carries every history window.
rLLM itself is imported when an episode is over.
"""

import asyncio
from importlib import import_module
from typing import Any

from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.play import play_episode, required_reward
from rehearsal_room.bridges.trainers.segments import UnjudgedError
from rehearsal_room.harness.core.trajectory import Trajectory


class RehearsalFlow:
    """An AgentFlow: one of our episodes against the gateway's session."""

    name = "rehearsal"

    def __init__(self, run: BackgroundRun, *, types: Any = None, **fields: Any) -> None:
        """`fields` are more OpenAISettings; `types` is the module with Episode and Trajectory
        (None: rLLM's own)."""
        self._run = run
        self._types = types
        self._fields = fields

    async def arun(self, task: Any, config: Any) -> Any:
        """Play the task; return an rLLM Episode, whose steps the gateway fills in. Raises
        UnjudgedError, upon which rLLM tries again or drops the episode."""
        played = await play_episode(
            task_name(task), config.base_url, "EMPTY", config.model, run=self._run, **self._fields
        )
        types = self._types or import_module("rllm.types")
        one = types.Trajectory(name=self.name, task=task, reward=required_reward(played))
        one.signals, one.metadata = signals_of(played), {"episode": played.episode}
        return types.Episode(task=task, trajectories=[one], is_correct=one.signals["completed"] > 0)

    def run(self, task: Any, config: Any) -> Any:
        """The same for a caller without an event loop."""
        return asyncio.run(self.arun(task, config))


class RehearsalEvaluator:
    """An Evaluator: hands on the reward that our judge gave."""

    def __init__(self, *, types: Any = None) -> None:
        """`types` is the module with EvalOutput and Signal (None: rLLM's own)."""
        self._types = types

    def evaluate(self, task: Any, episode: Any) -> Any:
        """An EvalOutput with the reward and the signals of the episode's trajectory."""
        one = episode.trajectories[0]
        if one.reward is None:
            raise UnjudgedError(f"task {task_name(task)!r}: the episode has no reward")
        types = self._types or import_module("rllm.eval.types")
        signals = [types.Signal(name, value) for name, value in one.signals.items()]
        return types.EvalOutput(one.reward, one.signals["completed"] > 0, signals)


def task_name(task: Any) -> str:
    """The name of our task in a task of rLLM, or in a row of its data."""
    metadata = task if isinstance(task, dict) else getattr(task, "metadata", None) or {}
    name = metadata.get("task") or getattr(task, "id", None)
    if not name:
        raise ValueError(
            f"this task of rLLM names none of our tasks (expected 'task'): {task!r:.80}"
        )
    return str(name)


def signals_of(played: Trajectory) -> dict[str, float]:
    """What is known about an episode beside its reward, as numbers."""
    assert played.ended is not None
    label = next((judged.label for judged in reversed(played.judged) if judged.label), None)
    return {
        "completed": float(label == "completed"),
        "steps": float(played.ended.num_steps),
        "truncated": float(played.ended.ending.is_truncation),
    }
