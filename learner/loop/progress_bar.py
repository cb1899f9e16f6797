"""How a training run stands, for someone who watches: a bar on a terminal, lines elsewhere."""

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from learner.loop.metrics import Value

# What is shown of a step's figures, in this order, where the step has it.
_SHOWN = {
    "reward": "reward {:.3f}",  # the mean over the batch's episodes
    "pass_rate": "pass {:.1%}",
    "entropy": "entropy {:.3f}",
    "mismatch_k3": "mismatch {:.1e}",
    "tokens_per_second": "{:,.0f} tokens/s",
    "shared": "{:.0%} shared",  # tokens that were not computed again
    "waits": "waiting: {}",  # the trainer or the rollouts
}


class TrainProgress:
    """Shows each step's figures; a context manager that leaves the terminal as it was."""

    def __init__(self, console: Console, *, total: int, done: int = 0) -> None:
        self._console = console
        self._total = total
        self._progress = Progress(
            TextColumn("steps"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            auto_refresh=False,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("", total=total, completed=done)

    def __enter__(self) -> "TrainProgress":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, step: int, values: Mapping[str, Value]) -> None:
        """Show a step that is done."""
        if self._console.is_terminal:
            said = described(values)
            self._progress.update(self._bar, completed=step, description=said, refresh=True)
        else:
            said = f"step {step} of {self._total}: {described(values)}"
            self._console.print(said, highlight=False, markup=False, soft_wrap=True)


def described(values: Mapping[str, Value]) -> str:
    """A step's figures in words.

    Example: {"reward": 0.53, "waits": "the trainer", "lr": 1e-6}
             -> "reward 0.530, waiting: the trainer"
    """
    return ", ".join(
        words.format(values[name]) for name, words in _SHOWN.items() if values.get(name) is not None
    )
