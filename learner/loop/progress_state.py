"""The progress of a training run and how its time was spent; checkpoints store it with the weights.

All values are of the whole run, from its first batch on, however often it was resumed. The seconds
are counted as

    waiting      for groups: the trainer is idle
    training     the updates
    publishing   writing weights, and loading them into the policies
    evaluating
    saving       checkpoints
    throttled    no episode was live because all waited for new weights: the rollouts are idle
"""

from collections.abc import Mapping

import msgspec

from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.loop.metrics import MetricValue
from rehearsal_room.learner.trainer.trainer import StepReport

ProgressValues = dict[str, float]  # by name
_NOTICEABLE = 0.05  # a smaller share of the time does not count as waiting
_OF_TRAINER = ("waiting", "training", "publishing", "evaluating", "saving")


class TrainProgress(msgspec.Struct, frozen=True):
    """The progress of a run. Every checkpoint stores it."""

    batches: int = 0  # trained
    next_group: int = 0  # of the plan or the logs; earlier groups were in these batches
    groups: int = 0  # trained
    episodes: int = 0  # in the trained groups
    dropped: dict[str, int] = {}  # groups that were not trained, by reason
    num_trained: int = 0  # trained tokens
    num_tokens: int = 0  # computed tokens
    num_row_tokens: int = 0  # tokens that would be computed if each sample were a separate row
    seconds: ProgressValues = {}
    first: ProgressValues = {}  # reward and pass rate of the first batch's episodes
    last: ProgressValues = {}  # the same of the last batch
    evaluations: dict[int, ProgressValues] = {}  # by the number of batches before
    unreported: dict[
        str, MetricValue
    ] = {}  # the last batch's metrics, until its evaluation is done


def after_batch(
    progress: TrainProgress, batch: TakenBatch, report: StepReport | None
) -> TrainProgress:
    """The progress after one more batch; `report` None: the batch had no usable group."""
    metrics = metrics_of_batch(batch)
    changed = msgspec.structs.replace(
        progress,
        batches=progress.batches + 1,
        next_group=batch.end,
        groups=progress.groups + len(batch.groups),
        episodes=progress.episodes + sum(len(group.rollouts) for group in batch.groups),
        dropped=_add_counts(progress.dropped, batch.dropped),
        first=progress.first or metrics,
        last=metrics or progress.last,
    )
    if report is None:
        return changed
    return msgspec.structs.replace(
        changed,
        num_trained=progress.num_trained + report.num_trained,
        num_tokens=progress.num_tokens + report.num_tokens,
        num_row_tokens=progress.num_row_tokens + report.num_row_tokens,
    )


def best_evaluation(evaluations: Mapping[int, ProgressValues]) -> int | None:
    """The number of batches before the evaluation with the highest pass rate, then the highest
    reward, then the first; None: there is none, or nothing was ever passed."""
    passed = {batch: one for batch, one in evaluations.items() if one.get("pass_rate")}
    if not passed:
        return None
    return max(passed, key=lambda batch: (*map(passed[batch].get, ("pass_rate", "reward")), -batch))


def metrics_of_batch(batch: TakenBatch) -> ProgressValues:
    """Reward and pass rate of a batch's episodes; empty if none has a label."""
    if not batch.num_labels:
        return {}
    return {
        "reward": batch.reward / batch.num_labels,
        "pass_rate": batch.num_completed / batch.num_labels,
    }


def metrics_of_update(report: StepReport) -> ProgressValues:
    """The metrics of a batch's updates."""
    numbers = {"loss": report.loss, "grad_norm": report.grad_norm, "lr": report.lr}
    return {
        **{name: value for name, value in numbers.items() if value is not None},
        "updates": float(report.updates),
        "num_trained": float(report.num_trained),
        "num_tokens": float(report.num_tokens),
        "num_row_tokens": float(report.num_row_tokens),
        "tokens_per_second": report.tokens_per_second,
        "shared": report.shared,
        **report.measures,
    }


def waiting_side(seconds: Mapping[str, float]) -> str:
    """The side that waits for the other one, in words; empty: neither waits noticeably.

    Example: {"waiting": 30.0, "training": 70.0} -> "the trainer"
    """
    total = sum(seconds.get(name, 0.0) for name in _OF_TRAINER)
    waiting, throttled = seconds.get("waiting", 0.0), seconds.get("throttled", 0.0)
    if max(waiting, throttled) <= _NOTICEABLE * total:
        return ""
    return "the trainer" if waiting >= throttled else "the rollouts"


def trainer_idle_share(seconds: Mapping[str, float]) -> float:
    """The share of the trainer's time in which it waited for groups."""
    total = sum(seconds.get(name, 0.0) for name in _OF_TRAINER)
    return seconds.get("waiting", 0.0) / total if total else 0.0


def seconds_since(now: Mapping[str, float], before: Mapping[str, float]) -> ProgressValues:
    """The seconds spent since `before`, by name.

    Example: {"training": 5.0} after {"training": 3.0} -> {"training": 2.0}
    """
    return {name: value - before.get(name, 0.0) for name, value in now.items()}


def _add_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}
