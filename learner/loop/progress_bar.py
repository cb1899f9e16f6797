"""The progress of a training run: a bar on a terminal, a line for each step elsewhere."""

from collections.abc import Mapping

from rich.console import Console

from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.learner.loop.metrics import MetricValue

# The metrics of a step that are shown, in this order, where the step has them.
_SHOWN = {
    "reward": "reward {:.3f}",  # the mean over the batch's episodes
    "pass_rate": "pass {:.1%}",
    "entropy": "entropy {:.3f}",
    "mismatch_k3": "mismatch {:.1e}",
    "tokens_per_second": "{:,.0f} tokens/s",
    "shared": "{:.0%} shared",  # tokens that were not computed again
    "waits": "waiting: {}",  # the trainer or the rollouts
}


class StepDisplay(ProgressDisplay):
    """Shows the metrics of each step; a context manager that leaves the terminal as it was."""

    def __init__(self, console: Console, *, total: int, done: int = 0) -> None:
        super().__init__("steps", total=total, done=done, console=console, every=0.0)

    def show_step(self, step: int, values: Mapping[str, MetricValue]) -> None:
        """Show that a step is done, with its metrics."""
        self.show(step, note=describe(values))


def describe(values: Mapping[str, MetricValue]) -> str:
    """The metrics of a step as a text.

    Example: {"reward": 0.53, "waits": "the trainer", "lr": 1e-6}
             -> "reward 0.530, waiting: the trainer"
    """
    return ", ".join(
        words.format(values[name]) for name, words in _SHOWN.items() if values.get(name) is not None
    )
