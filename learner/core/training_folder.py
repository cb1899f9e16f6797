"""The layout of a training run's folder. Light to import, so that other commands can read it.

train.toml        the settings, resolved
writer.lock       held by the process that trains
metrics.jsonl     the metrics of every batch
rollouts/         the run that is learned from, as `rehearse run` writes it
copy/             a copy of the run that is learned from, where it is played on another machine
evaluations/      runs that are only measured: b000010 after ten batches
versions/         published weights
checkpoints/      for --resume
report.json       the result
vllm.log          what the vLLM server said that the run started ([vllm] python)
"""

from pathlib import Path

SETTINGS_NAME = "train.toml"
METRICS_NAME = "metrics.jsonl"
ROLLOUTS = "rollouts"
COPY = "copy"
EVALUATIONS = "evaluations"
VERSIONS = "versions"
CHECKPOINTS = "checkpoints"
SERVER_LOG = "vllm.log"
# What a run writes after its settings.
OF_A_RUN = (CHECKPOINTS, VERSIONS, EVALUATIONS, ROLLOUTS, METRICS_NAME)


def evaluation_name(batches: int) -> str:
    """The name of the evaluation's folder after this many batches.

    Example: 10 -> "b000010"
    """
    return f"b{batches:06d}"


def is_of_a_run(settings: Path) -> bool:
    """Whether a file of settings is that of a training run's folder."""
    return settings.name == SETTINGS_NAME and any(
        (settings.parent / name).exists() for name in OF_A_RUN
    )
