"""Training that follows a run which other processes play and judge: its file, and what it made."""

from pathlib import Path
from typing import Any

import tomli_w

from rehearsal_room.learner.core.training_folder import METRICS_NAME
from rehearsal_room.learner.loop.metrics import read_metrics

SIZE = 2  # episodes of a group
FLAGS = ("--history", "last:1", "--dialect", "hermes", "--max-steps", 2, "--max-tokens", 4)
_COMPARED = ("step", "reward", "groups", "episodes", "loss", "entropy", "grad_norm", "num_trained")


def training_file(path: Path, model: Path, logs: str, *, steps: int, groups: int) -> Path:
    """A training file for so many batches of groups of a run that is played elsewhere."""
    table = {
        "model": str(model),
        "steps": steps,
        "rollouts": {"history": "last:1", "dialect": "hermes", "group_size": SIZE},
        "data": {"groups": groups, "keep_equal": True, "logs": [logs]},
        "loss": {"entropy": 0.1},  # rewards are all 0 here: this moves the weights
        "optimizer": {"lr": 0.01},
        "save": {"every": 1},
        "metrics": {"tensorboard": False},
    }
    path.write_text(tomli_w.dumps(table))
    return path


def metrics_of(out: Path) -> list[dict[str, Any]]:
    """What the batches so far have in common with those of the same training elsewhere."""
    if not (out / METRICS_NAME).exists():
        return []
    return [{name: one[name] for name in _COMPARED} for one in read_metrics(out) if one["step"]]
