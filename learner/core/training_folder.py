"""The layout of a training run's folder. Light to import, so that other commands can read it.

train.toml        the settings, resolved
metrics.jsonl     the metrics of every batch
rollouts/         the run that is learned from, as `rehearse run` writes it
evaluations/      runs that are only measured: b000010 after ten batches
versions/         published weights
checkpoints/      for --resume
report.json       the result
"""

from pathlib import Path

from harness.log.schema import LOG_NAME

SETTINGS_NAME = "train.toml"
METRICS_NAME = "metrics.jsonl"
ROLLOUTS = "rollouts"
EVALUATIONS = "evaluations"
VERSIONS = "versions"
CHECKPOINTS = "checkpoints"


def is_training_folder(folder: Path) -> bool:
    """Whether a training run was started in the folder."""
    return (folder / SETTINGS_NAME).is_file()


def runs_in(folder: Path) -> list[Path]:
    """The run folders of a training run that have a log: the rollouts first, then the evaluations
    by batch. A run that trains on logs has no rollouts.

    Example: runs/mine -> [runs/mine/rollouts, runs/mine/evaluations/b000000]
    """
    evaluations = sorted((folder / EVALUATIONS).glob("b*"))
    return [run for run in (folder / ROLLOUTS, *evaluations) if (run / LOG_NAME).is_file()]


def evaluation_name(batches: int) -> str:
    """The name of the evaluation's folder after this many batches.

    Example: 10 -> "b000010"
    """
    return f"b{batches:06d}"
