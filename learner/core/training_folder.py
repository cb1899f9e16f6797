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

SETTINGS_NAME = "train.toml"
METRICS_NAME = "metrics.jsonl"
ROLLOUTS = "rollouts"
COPY = "copy"
EVALUATIONS = "evaluations"
VERSIONS = "versions"
CHECKPOINTS = "checkpoints"
SERVER_LOG = "vllm.log"


def evaluation_name(batches: int) -> str:
    """The name of the evaluation's folder after this many batches.

    Example: 10 -> "b000010"
    """
    return f"b{batches:06d}"
