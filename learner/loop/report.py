"""The result of a training run, as report.json and as text."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.learner.core.errors import CheckpointError
from rehearsal_room.learner.data.remedies import format_counts, remedy
from rehearsal_room.learner.loop.progress_state import (
    ProgressValues,
    TrainProgress,
    best_evaluation,
    trainer_idle_share,
    waiting_side,
)

REPORT_NAME = "report.json"


class TrainReport(msgspec.Struct, frozen=True):
    """The contents of report.json and of `rehearse train --json`, for the whole run."""

    steps: int  # batches trained
    published: str  # the folder of the newest weights
    groups: int  # trained
    episodes: int  # in the trained groups
    dropped: dict[str, int]  # groups that were not trained, by reason
    first: ProgressValues  # reward and pass rate of the first batch's episodes
    last: ProgressValues  # the same of the last batch
    evaluations: dict[int, ProgressValues]  # by the number of batches before
    best: int | None  # the batches before the best evaluation; its weights are in versions/best
    seconds: ProgressValues  # how the time was spent (learner.loop.progress_state)
    trainer_idle: float  # the share of the trainer's time in which it waited for groups
    waits: str  # the side that waits for the other one; empty: neither waits noticeably
    num_trained: int  # trained tokens
    num_tokens: int  # computed tokens
    num_row_tokens: int  # tokens that would be computed if each sample were a separate row
    shared: float  # the share of the rows' tokens that was not computed
    warning: str  # why nothing was trained, and the remedy; empty: tokens were trained


def report_of(progress: TrainProgress, *, published: Path) -> TrainReport:
    """The report of a run with this progress; `published` is the folder of its newest weights."""
    rows = progress.num_row_tokens
    return TrainReport(
        steps=progress.batches,
        published=str(published),
        groups=progress.groups,
        episodes=progress.episodes,
        dropped=progress.dropped,
        first=progress.first,
        last=progress.last,
        evaluations=progress.evaluations,
        best=best_evaluation(progress.evaluations),
        seconds=progress.seconds,
        trainer_idle=trainer_idle_share(progress.seconds),
        waits=waiting_side(progress.seconds),
        num_trained=progress.num_trained,
        num_tokens=progress.num_tokens,
        num_row_tokens=rows,
        shared=1.0 - progress.num_tokens / rows if rows else 0.0,
        warning=_warning(progress),
    )


def _warning(progress: TrainProgress) -> str:
    """Why nothing was trained and what to change, as a sentence; empty: tokens were trained.

    Example: 0 tokens, {"equal": 6} -> "nothing was trained: all 6 groups were dropped (equal 6): …"
    """
    if progress.num_trained:
        return ""
    if not progress.dropped:
        return "nothing was trained: there were no groups"
    total = sum(progress.dropped.values())
    reasons = format_counts(progress.dropped)
    return (
        f"nothing was trained: all {total:,} groups were dropped ({reasons}):"
        f" {remedy(progress.dropped)}"
    )


def write_report(folder: Path, report: TrainReport) -> None:
    """Write report.json. Raises CheckpointError."""
    data = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    try:
        write_atomically(folder / REPORT_NAME, data)
    except OSError as exc:
        raise CheckpointError(f"{folder / REPORT_NAME}: cannot be written: {exc}") from exc


def render(report: TrainReport, console: Console) -> None:
    """Print the report."""
    for line in lines_of(report):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def lines_of(report: TrainReport) -> Sequence[str]:
    """The report as lines of text."""
    lines = [
        f"{report.steps} steps on {report.groups:,} groups ({report.episodes:,} episodes), "
        f"{report.num_trained:,} tokens trained"
    ]
    if report.dropped:
        lines.append(f"groups dropped: {format_counts(report.dropped)}")
    if report.first and report.last:
        lines.append(
            "first to last batch: "
            f"reward {report.first['reward']:.3f} to {report.last['reward']:.3f}, "
            f"pass rate {report.first['pass_rate']:.1%} to {report.last['pass_rate']:.1%}"
        )
    for batch, values in report.evaluations.items():
        measured = ", ".join(
            f"{name} {value:.3f}" for name, value in values.items() if "/" not in name
        )
        best = " (the best; its weights are in versions/best)" if batch == report.best else ""
        lines.append(f"evaluation after {batch} steps: {measured}{best}")
    lines.append(
        f"shared prefixes saved {report.shared:.0%} of the tokens of per-step rows; "
        f"trainer idle {report.trainer_idle:.0%}, waiting: {report.waits or 'neither side'}"
    )
    lines.append(f"weights in {report.published}")
    if report.warning:
        lines.append(f"WARNING {report.warning}")
    return lines
