"""How far a training run is, and what its time went into: what checkpoints keep besides weights.

All figures are of the whole run, from its first batch on, however often it was resumed. The seconds
go into

    waiting      for groups: the trainer idles
    training     the updates
    publishing   writing weights, and the policies taking them
    evaluating
    saving       checkpoints
    held         no episode was live and all waited for new weights: the rollouts idle
"""

from collections.abc import Mapping

import msgspec

from learner.data.batch_queue import Taken
from learner.loop.metrics import Value
from learner.trainer.trainer import StepReport

Values = dict[str, float]  # figures by name
_NOTICED = 0.05  # the share of the time from which on somebody is said to wait
_OF_TRAINER = ("waiting", "training", "publishing", "evaluating", "saving")


class Place(msgspec.Struct, frozen=True):
    """How far a run is. Every checkpoint has it."""

    batches: int = 0  # that were trained
    next_group: int = 0  # of the plan, or of the logs; those before were in these batches
    groups: int = 0  # that were trained
    episodes: int = 0  # of those
    set_aside: dict[str, int] = {}  # groups that were not, by reason
    num_trained: int = 0  # tokens
    num_tokens: int = 0  # that were computed
    num_row_tokens: int = 0  # that would have been, were each sample a row of its own
    seconds: Values = {}
    first: Values = {}  # reward and pass rate of the first batch's episodes
    last: Values = {}  # of the last one's
    evaluations: dict[int, Values] = {}  # by the number of batches before
    untold: dict[str, Value] = {}  # the last batch's figures, where its evaluation is not done yet


def after_batch(place: Place, taken: Taken, report: StepReport | None) -> Place:
    """The place behind one more batch; `report` None: it had no group that could be used."""
    told = told_of(taken)
    changed = msgspec.structs.replace(
        place,
        batches=place.batches + 1,
        next_group=taken.end,
        groups=place.groups + len(taken.groups),
        episodes=place.episodes + sum(len(group.rollouts) for group in taken.groups),
        set_aside=_added(place.set_aside, taken.set_aside),
        first=place.first or told,
        last=told or place.last,
    )
    if report is None:
        return changed
    return msgspec.structs.replace(
        changed,
        num_trained=place.num_trained + report.num_trained,
        num_tokens=place.num_tokens + report.num_tokens,
        num_row_tokens=place.num_row_tokens + report.num_row_tokens,
    )


def told_of(taken: Taken) -> Values:
    """How a batch's episodes went; empty where none has a label."""
    if not taken.num_labels:
        return {}
    return {
        "reward": taken.reward / taken.num_labels,
        "pass_rate": taken.num_completed / taken.num_labels,
    }


def told_by(report: StepReport) -> Values:
    """The figures of an update."""
    return {
        "loss": report.loss,
        "grad_norm": report.grad_norm,
        "lr": report.lr,
        "updates": float(report.updates),
        "num_trained": float(report.num_trained),
        "num_tokens": float(report.num_tokens),
        "num_row_tokens": float(report.num_row_tokens),
        "tokens_per_second": report.tokens_per_second,
        "shared": report.shared,
        **report.measures,
    }


def who_waits(seconds: Mapping[str, float]) -> str:
    """Which side waits for the other, in words; empty: neither does, or hardly.

    Example: {"waiting": 30.0, "training": 70.0} -> "the trainer"
    """
    total = sum(seconds.get(name, 0.0) for name in _OF_TRAINER)
    waiting, held = seconds.get("waiting", 0.0), seconds.get("held", 0.0)
    if max(waiting, held) <= _NOTICED * total:
        return ""
    return "the trainer" if waiting >= held else "the rollouts"


def idle_share(seconds: Mapping[str, float]) -> float:
    """The share of the trainer's time in which it waited for groups."""
    total = sum(seconds.get(name, 0.0) for name in _OF_TRAINER)
    return seconds.get("waiting", 0.0) / total if total else 0.0


def since(now: Mapping[str, float], before: Mapping[str, float]) -> Values:
    """The seconds that came since.

    Example: {"training": 5.0} after {"training": 3.0} -> {"training": 2.0}
    """
    return {name: value - before.get(name, 0.0) for name, value in now.items()}


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}
