"""`rehearse train` on groups that branch: a real model of a few thousand weights, a real world."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from safetensors.numpy import load_file, save_file

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.cli import Rehearse, json_of
from tests.support.tiny_model import write_model_for


def write_brief_model(world: Path, folder: Path) -> Path:
    """A random model whose replies end after a few tokens. All embeddings have a large first
    component, which is then the same in all hidden states; to it the end token's logit listens."""
    write_model_for(world, folder, hidden=16, layers=1, tied=False)
    weights = load_file(folder / "model.safetensors")
    [end] = ChatTokenizer.open(folder).end_ids
    weights["model.embed_tokens.weight"][:, 0] = 5.0
    weights["lm_head.weight"][end, 0] = 1.2
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.slow  # three training runs of a real model
def test_a_model_trains_on_branches(rehearse: Rehearse, tmp_path: Path) -> None:
    """Sampler and trainer agree about each token of a branch, whose prompts are made of its
    source's turns; and what is trained is what was sampled, each token once."""
    [world] = write_microworlds(tmp_path / "worlds", seed=3, count=1, split="train")
    start = write_brief_model(world, tmp_path / "start")
    rollouts = {"scenarios": [str(world)], "group_size": 6, "history": "last:1"}
    rollouts |= {"dialect": "hermes", "max_steps": 3, "max_tokens": 40}
    # A reply without a thought is malformed, which ends nothing: so random replies are turns.
    rollouts |= {"format_rules": "awm", "format_stop": False}
    rollouts |= {"branch_roots": 2, "branch_width": 2, "branch_by": "entropy"}
    table: dict[str, Any] = {
        "model": str(start),
        "steps": 2,
        "rollouts": rollouts,
        "data": {"groups": 2, "keep_equal": True},
        "optimizer": {"lr": 0.01},
        "save": {"every": 1},
        "metrics": {"tensorboard": False},
    }
    for advantage in ("tree", "vine", "gigpo"):
        loss = {"advantage": advantage, "entropy": 0.1}  # all fail: this moves the weights
        config, out = tmp_path / f"{advantage}.toml", tmp_path / advantage
        config.write_text(tomli_w.dumps(table | {"loss": loss}))
        report = json_of(rehearse, "train", config, "-o", out)
        assert (report["steps"], report["groups"], report["episodes"]) == (2, 4, 24)
        figures = read_metrics(out)
        assert figures[1]["mismatch_max"] < 1e-4
        with open_reader(out / "rollouts") as reader:
            episodes = list(reader.trajectories())
        branches = [one for one in episodes if one.started.is_branch]
        assert (len(episodes), len(branches)) == (24, 16)
        sampled = sum(
            len(step.reply.token_ids) // 4
            for one in episodes
            for step in one.steps[one.first_own_turn :]
        )
        assert report["num_trained"] == sampled
