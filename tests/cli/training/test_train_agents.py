"""`rehearse train` on what agents of the user's own do with the model that is trained."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.loop.metrics import read_metrics
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY
from tests.support.tiny_model import write_model_for

OWN = "tests.harness.agents.own:"
STEPS, GROUP = 2, 4


def trained(
    rehearse: Rehearse, folder: Path, agent: str, history: str = "full"
) -> tuple[list[dict[str, Any]], list[Trajectory]]:
    """The metrics of a training run with this agent, and its episodes."""
    start = write_model_for(LIBRARY, folder / "start", hidden=16, layers=1)
    task = [f"{LIBRARY}:pay-fine"]
    rollouts = {"scenarios": task, "group_size": GROUP, "agent": OWN + agent, "history": history}
    table = {
        "model": str(start),
        "steps": STEPS,
        "rollouts": {**rollouts, "max_tokens": 4},
        "evaluation": {"scenarios": task},
        "loop": {"evaluate_every": 1},
        "data": {"groups": 1, "keep_equal": True},
        "loss": {"entropy": 0.1},  # where rewards are equal, this moves the weights
        "optimizer": {"lr": 0.01},
        "metrics": {"tensorboard": False},
    }
    path = folder / "train.toml"
    path.write_text(tomli_w.dumps(table))
    status, _, err = rehearse("train", path, "-o", folder / "run")
    assert status == 0, err
    with open_reader(folder / "run" / "rollouts") as reader:
        return list(read_metrics(folder / "run")), list(reader.trajectories())


@pytest.mark.parametrize("history", ["full", "last:1"])
@pytest.mark.slow(reason="two batches are sampled, trained and published")
def test_train_on_branches(rehearse: Rehearse, tmp_path: Path, history: str) -> None:
    """Every token that was sampled for helpers, forks and a second way is trained once, and the
    trainer computes the log-probabilities with which it was sampled. Later episodes are sampled
    with newer weights."""
    metrics, episodes = trained(rehearse, tmp_path, "two_helpers", history)
    replies = [one.reply for episode in episodes for one in episode.asked if one.reply]
    assert len(replies) == STEPS * GROUP * 7
    sampled = sum(len(decode_ids(reply.token_ids)) for reply in replies)
    steps = [one for one in metrics if one["step"]]
    assert sum(one["num_trained"] for one in steps) == sampled
    assert steps[0]["mismatch_max"] < 1e-4
    assert [one["pass_rate"] for one in steps] == [1.0] * STEPS
    assert {reply.weights for reply in replies} >= {"v0"}


@pytest.mark.slow(reason="two batches are sampled, trained and published")
def test_train_on_agents_that_fail(rehearse: Rehearse, tmp_path: Path) -> None:
    """Of a group, the episodes with a reply are compared: one that solved the task, and one that
    failed after its reply. Those without a reply train nothing and stop nothing."""
    metrics, episodes = trained(rehearse, tmp_path, "uneven")
    steps = [one for one in metrics if one["step"]]
    assert [(one["episodes"], one["reward"]) for one in steps] == [(2, 0.5)] * STEPS
    replies = [one.reply for episode in episodes for one in episode.asked if one.reply]
    sampled = sum(len(decode_ids(reply.token_ids)) for reply in replies)
    assert sum(one["num_trained"] for one in steps) == sampled
