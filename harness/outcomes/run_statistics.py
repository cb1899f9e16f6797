"""The statistics of a run: what its report says beside the counts.
`rehearsal_room.judge.statistics` computes them, from the log alone."""

from collections.abc import Iterator

import msgspec

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.units import Unit

STRATA = ("simple", "medium", "hard")
_MAX_TAGS = 12  # in a line


class TagCount(msgspec.Struct, frozen=True):
    """The tasks with one tag."""

    tasks: int
    episodes: int  # with a score
    completed: Interval[float]
    share: Interval[float] | None = None  # mean share of a task; None: all are all or nothing


class VarianceSplit(msgspec.Struct, frozen=True):
    """How much of the variance of an episode's score comes from where: shares that add up to 1."""

    world: float
    task: float  # within a world
    rollout: float  # between the tries at one task


class RunStatistics(msgspec.Struct, frozen=True):
    """Shares and chances of a run, with their 95 % intervals. Episodes whose world failed and those
    without a label are in none."""

    completed: Interval[float] | None = None  # None: no episode has a score
    bounds: tuple[float, float] = (0.0, 1.0)  # of the share, whatever the others had been
    without_score: int = 0  # those others
    pass_at_k: dict[str, Interval[float]] = {}  # by k: at least one of k tries succeeds
    pass_hat_k: dict[str, Interval[float]] = {}  # by k: all of k tries succeed
    tags: dict[str, TagCount] = {}  # difficulties first
    variance: VarianceSplit | None = None  # None: too few tasks or tries to tell
    unit: Unit = "task"  # of all intervals
    about: str = ""  # what they are about, so that the unit can be understood
    share: Interval[float] | None = None  # mean share of a task; None: all are all or nothing
    share_bounds: tuple[float, float] = (0.0, 1.0)  # of it, whatever those without a score had done


def statistics_lines(found: RunStatistics) -> Iterator[str]:
    """The statistics in a few lines of text."""
    if found.completed is None:
        return
    yield f"completed {_text(found.completed)} (95 % interval)"
    if found.about:
        yield found.about
    if found.share is not None:
        low, high = found.share_bounds
        others = f"; with those without a score {low:.1%} to {high:.1%}" * bool(found.without_score)
        yield f"mean share of a task {_text(found.share)}{others}"
    if found.without_score:
        low, high = found.bounds
        yield (
            f"{found.without_score:,} without a score; whatever they had been, between "
            f"{low:.1%} and {high:.1%} are completed"
        )
    for name, estimates in (("pass@", found.pass_at_k), ("pass^", found.pass_hat_k)):
        texts = [f"{name}{k} {_text(one)}" for k, one in estimates.items() if k != "1"]
        if texts:
            yield ", ".join(texts)
    shown = [f"{tag} {_text(one.completed)}{_and_share(one)}" for tag, one in found.tags.items()]
    if len(shown) > 1:
        more = f" and {len(shown) - _MAX_TAGS} more" if len(shown) > _MAX_TAGS else ""
        yield "; ".join(shown[:_MAX_TAGS]) + more
    if (split := found.variance) is not None:
        yield (
            f"variance: {split.world:.0%} between worlds, {split.task:.0%} between tasks, "
            f"{split.rollout:.0%} between tries"
        )


def _and_share(one: TagCount) -> str:
    return "" if one.share is None else f", share {_text(one.share)}"


def _text(one: Interval[float]) -> str:
    """Example: 75.0% (62.1 to 84.6)"""
    return f"{one.value:.1%} ({100 * one.lower:.1f} to {100 * one.upper:.1f})"
