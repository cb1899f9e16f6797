"""The result of a training run, and how a person reads it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from harness.log.schema import write_atomically
from learner.core.errors import CheckpointError
from learner.loop.progress_state import Place, Values, idle_share, who_waits

REPORT_NAME = "report.json"


class TrainReport(msgspec.Struct, frozen=True):
    """What `rehearse train --json` says and report.json holds, of the whole run."""

    steps: int  # batches that were trained
    published: str  # the folder of the newest weights
    groups: int  # that were trained
    episodes: int  # of those
    set_aside: dict[str, int]  # groups that were not, by reason
    first: Values  # reward and pass rate of the first batch's episodes
    last: Values  # of the last one's
    evaluations: dict[int, Values]  # by the number of batches before
    seconds: Values  # what the time went into (learner.loop.progress_state)
    trainer_idle: float  # the share of the trainer's time in which it waited for groups
    waits: str  # which side waits for the other; empty: neither does, or hardly
    num_trained: int  # tokens
    num_tokens: int  # that were computed
    num_row_tokens: int  # that would have been, were each sample a row of its own
    shared: float  # the share of the rows' tokens that was not computed


def report_of(place: Place, *, published: Path) -> TrainReport:
    """The report on a run that has come so far."""
    rows = place.num_row_tokens
    return TrainReport(
        steps=place.batches,
        published=str(published),
        groups=place.groups,
        episodes=place.episodes,
        set_aside=place.set_aside,
        first=place.first,
        last=place.last,
        evaluations=place.evaluations,
        seconds=place.seconds,
        trainer_idle=idle_share(place.seconds),
        waits=who_waits(place.seconds),
        num_trained=place.num_trained,
        num_tokens=place.num_tokens,
        num_row_tokens=rows,
        shared=1.0 - place.num_tokens / rows if rows else 0.0,
    )


def write_report(folder: Path, report: TrainReport) -> None:
    """Write report.json. Raises CheckpointError."""
    data = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    try:
        write_atomically(folder / REPORT_NAME, data)
    except OSError as exc:
        raise CheckpointError(f"{folder / REPORT_NAME}: it cannot be written: {exc}") from exc


def render(report: TrainReport, console: Console) -> None:
    """Show the report."""
    for line in lines_of(report):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def lines_of(report: TrainReport) -> Sequence[str]:
    """The report in words."""
    lines = [
        f"{report.steps} steps on {report.groups:,} groups ({report.episodes:,} episodes), "
        f"{report.num_trained:,} tokens trained"
    ]
    if report.set_aside:
        reasons = ", ".join(f"{name} {count:,}" for name, count in report.set_aside.items())
        lines.append(f"groups set aside: {reasons}")
    if report.first and report.last:
        lines.append(
            "first to last batch: "
            f"reward {report.first['reward']:.3f} to {report.last['reward']:.3f}, "
            f"pass rate {report.first['pass_rate']:.1%} to {report.last['pass_rate']:.1%}"
        )
    for batch, values in report.evaluations.items():
        told = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        lines.append(f"evaluation after {batch} steps: {told}")
    lines.append(
        f"shared prefixes saved {report.shared:.0%} of the tokens of per-step rows; "
        f"trainer idle {report.trainer_idle:.0%}, waiting: {report.waits or 'neither side'}"
    )
    lines.append(f"weights in {report.published}")
    return lines
