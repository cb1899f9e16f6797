"""How many tasks and episodes a comparison needs.

The plan is for the paired comparison of `rehearsal_room.judge.statistics.comparison`: two runs of
the same tasks, `tries` episodes of each task in each run. The difference of one task has the
variance 2 w / tries + e, where w is the variance of one try around its task's share (the larger
the more a task's tries differ) and e the variance of the tasks' true differences. A pilot run
gives w; e is not known before two agents were compared: it is 0 unless it is given, as if each
task gained alike.
"""

import math
from collections.abc import Sequence

import msgspec
from scipy import special

from rehearsal_room.judge.statistics.outcomes import Outcome, by_task

_MOST_TASKS = 10_000_000
# Of one try around its task's share, where no pilot is given: half of the variance of a fair coin.
USUAL_NOISE = 0.125


class Plan(msgspec.Struct, frozen=True):
    """What `rehearse compare size --json` writes."""

    tasks: int  # that both runs play
    episodes: int  # of each run
    clusters: int  # equal to `tasks`: the units of the comparison
    power: float  # the chance that the difference is found
    detect: float  # the difference, a share
    alpha: float
    tries: int  # episodes of each task in each run
    noise: float  # variance of one try around its task's share
    source: str  # where `noise` is from: `pilot` or `assumed`


def plan(
    detect: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    tries: int = 1,
    noise: float | None = None,
    spread: float = 0.0,
) -> Plan:
    """The smallest number of tasks with which a difference of `detect` is found with this power, at
    a two-sided level `alpha`. `noise` None: it is assumed. `spread`: variance of the tasks' true
    differences."""
    within = USUAL_NOISE if noise is None else noise
    variance = 2 * within / tries + spread
    low, high = 2, 2
    while power_of(high, detect, variance, alpha) < power and high < _MOST_TASKS:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if power_of(middle, detect, variance, alpha) < power:
            low = middle + 1
        else:
            high = middle
    return Plan(
        tasks=high,
        episodes=high * tries,
        clusters=high,
        power=power_of(high, detect, variance, alpha),
        detect=detect,
        alpha=alpha,
        tries=tries,
        noise=within,
        source="assumed" if noise is None else "pilot",
    )


def power_of(tasks: int, detect: float, variance: float, alpha: float) -> float:
    """The chance that a paired t test over so many tasks finds a difference; `variance` is that of
    one task's difference."""
    if variance <= 0:
        return 1.0
    degrees = tasks - 1
    shift = detect * math.sqrt(tasks / variance)
    border = float(special.stdtrit(degrees, 1 - alpha / 2))
    found = 1 - special.nctdtr(degrees, shift, border) + special.nctdtr(degrees, shift, -border)
    return float(found)


def noise_of(outcomes: Sequence[Outcome]) -> float | None:
    """The variance of one try around its task's share, pooled over the tasks that were tried
    several times. None: no task was."""
    squares, degrees = 0.0, 0
    for tries in by_task(outcomes).values():
        scores = [one.score or 0.0 for one in tries]
        mean = sum(scores) / len(scores)
        squares += sum((score - mean) ** 2 for score in scores)
        degrees += len(scores) - 1
    return squares / degrees if degrees else None
