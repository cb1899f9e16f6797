"""How many tasks and episodes a comparison needs, and which difference a number of tasks can show.

The plan is for the paired comparison of `rehearsal_room.judge.statistics.comparison`: two runs of
the same tasks, `tries` episodes of each task in each run. It is made on a model of the two agents:
each task is completed with one chance by the first and with another by the second (`AgentPair`).
A pilot run gives the noise of a try; how much the tasks' true differences vary is not known before
two agents were compared: it is 0 unless it is given, as if each task gained alike. Only where the
noise leaves no room for that (agents that never vary) some tasks change wholly and others do not.

Power is that of the test that `compare` makes, its exact part included. Where at least 30 tasks are
expected to differ, that is the t test's; where fewer do, it is counted out for one try, and
simulated for several (8,000 comparisons, always the same: an error of 0.5 points).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from scipy import special

from rehearsal_room.judge.statistics.outcomes import Outcome, by_task
from rehearsal_room.judge.statistics.sign_flips import MOST, Numbers, flip_ps, least_tasks

_MOST_TASKS = 10_000_000
# Of one try around its task's share, where no pilot is given: half of the variance of a fair coin.
USUAL_NOISE = 0.125
_MANY = 30  # tasks that differ, from which on the t test alone decides
_DRAWS = 8_000
_SMALLEST = 0.005  # difference that is looked for
_CERTAIN = 8.0  # standard errors beyond the border


class Plan(msgspec.Struct, frozen=True):
    """What `rehearse compare size --json` writes."""

    tasks: int  # that both runs play
    episodes: int  # of each run
    clusters: int  # the units of the comparison: tasks, or worlds
    power: float  # the chance that the difference is found
    detect: float  # the difference, a share
    alpha: float
    tries: int  # episodes of each task in each run
    noise: float  # variance of one try around its task's share
    source: str  # where `noise` is from: `pilot` or `assumed`
    worlds: int | None = None  # None: the task is the unit


class TaskKind(NamedTuple):
    """Tasks with the same chances."""

    weight: float  # share of the tasks
    first: float  # chance that a try of the first agent completes such a task
    second: float


class AgentPair:
    """Two agents that differ by a number of points: the chances of a task's difference."""

    def __init__(self, detect: float, *, noise: float, tries: int, spread: float = 0.0) -> None:
        """`noise` is the variance of a try around its task's share, `spread` the variance of the
        tasks' true differences."""
        self.tries = tries
        around = math.sqrt(spread)
        sides = (detect - around, detect + around) if around else (detect,)
        self.kinds = [
            TaskKind(kind.weight / len(sides), *kind[1:])
            for side in sides
            for kind in _kinds(max(-1.0, min(1.0, side)), noise)
        ]
        self.chances: Numbers = np.sum(
            [kind.weight * _chances(kind, tries) for kind in self.kinds], axis=0
        )
        self.values = np.arange(-tries, tries + 1) / tries

    @property
    def mean(self) -> float:
        """The difference of a task, on average."""
        return float(self.chances @ self.values)

    @property
    def variance(self) -> float:
        """Of a task's difference."""
        return float(self.chances @ self.values**2) - self.mean**2

    @property
    def is_whole(self) -> bool:
        """Whether each task is lost, equal or gained as a whole, as with one try."""
        return float(self.chances[[0, self.tries, -1]].sum()) > 1 - 1e-9

    @property
    def differing(self) -> float:
        """The chance that a task differs."""
        return 1 - float(self.chances[self.tries])


def _kinds(detect: float, noise: float) -> list[TaskKind]:
    """Tasks that gain alike, as far as the noise leaves room: a share of 0.2 that varies by less
    than 0.16 does so because some tasks are always completed and others never."""
    if detect < 0:
        return [TaskKind(weight, b, a) for weight, a, b in _kinds(-detect, noise)]
    low, high = 0.0, detect
    if _has_room(0.0, detect, noise):
        high = 0.0
    for _ in range(50 if high else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if _has_room(middle, detect, noise) else (middle, high)
    if high >= 1:
        return [TaskKind(1.0, 0.0, 1.0)]
    rest, within = (detect - high) / (1 - high), noise / (1 - high)
    product = min(0.25, within + rest**2 / 4)
    middle = max(rest / 2, (1 - math.sqrt(1 - 4 * product)) / 2)
    alike = TaskKind(1 - high, middle - rest / 2, middle + rest / 2)
    return [alike, TaskKind(high, 0.0, 1.0)] if high else [alike]


def _has_room(changed: float, detect: float, noise: float) -> bool:
    """Whether the other tasks can gain alike with this noise, where a share of the tasks changes
    wholly."""
    if changed >= 1:
        return True
    rest = (detect - changed) / (1 - changed)
    return noise / (1 - changed) >= rest * (1 - rest) / 2 - 1e-12


def _chances(kind: TaskKind, tries: int) -> Numbers:
    """The chance of each difference of such a task, from -tries to tries."""
    counts = np.arange(tries + 1)
    ways = special.comb(tries, counts)
    one, other = (ways * p**counts * (1 - p) ** (tries - counts) for p in kind[1:])
    found: Numbers = np.convolve(other, one[::-1])
    return found


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
    pair = AgentPair(detect, noise=within, tries=tries, spread=spread)
    tasks, reached = _smallest(pair, power, alpha)
    return Plan(
        tasks=tasks,
        episodes=tasks * tries,
        clusters=tasks,
        power=reached,
        detect=detect,
        alpha=alpha,
        tries=tries,
        noise=within,
        source="assumed" if noise is None else "pilot",
    )


def plan_worlds(
    detect: float,
    *,
    tasks_each: int,
    world_spread: float,
    power: float = 0.8,
    alpha: float = 0.05,
    tries: int = 1,
    noise: float | None = None,
    spread: float = 0.0,
) -> Plan:
    """The smallest number of worlds of `tasks_each` tasks with which a difference of `detect` is
    found with this power, where the world is the unit. `world_spread` is the variance of the
    worlds' true differences, `spread` that of the tasks' in a world."""
    within = USUAL_NOISE if noise is None else noise
    variance = world_variance(tasks_each, world_spread, tries=tries, noise=within, spread=spread)
    worlds = smallest_number(detect, variance, power=power, alpha=alpha)
    return Plan(
        tasks=worlds * tasks_each,
        episodes=worlds * tasks_each * tries,
        clusters=worlds,
        power=power_of_means(worlds, detect, variance, alpha),
        detect=detect,
        alpha=alpha,
        tries=tries,
        noise=within,
        source="assumed" if noise is None else "pilot",
        worlds=worlds,
    )


def world_variance(
    tasks_each: int, world_spread: float, *, tries: int, noise: float, spread: float
) -> float:
    """The variance of the difference of one world, which is the mean of its tasks'."""
    return world_spread + (2 * noise / tries + spread) / tasks_each


def smallest_number(detect: float, variance: float, *, power: float, alpha: float) -> int:
    """How many units find a difference of `detect` with this power, where those of single units
    have this variance."""
    low, high = least_tasks(alpha), least_tasks(alpha)
    while high < _MOST_TASKS and power_of_means(high, detect, variance, alpha) < power:
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        if power_of_means(middle, detect, variance, alpha) < power:
            low = middle + 1
        else:
            high = middle
    return high


def detectable_by(units: int, variance: float, *, power: float, alpha: float) -> float | None:
    """The smallest difference that so many units show with this power, to half a point, where those
    of single units have this variance; None: they can show none."""
    return _first_found(
        lambda steps: power_of_means(units, steps * _SMALLEST, variance, alpha) >= power
    )


def power_of_means(units: int, detect: float, variance: float, alpha: float) -> float:
    """The chance that `compare` finds a difference, where the differences of units are normal, as
    means over the tasks of a world nearly are. Up to MOST units the exact test is part of it, and
    its power is simulated."""
    if units < least_tasks(alpha):
        return 0.0
    if units > MOST or variance <= 0:
        return power_of(units, detect, variance, alpha)
    drawn = detect + math.sqrt(variance) * special.ndtri(_uniform(units))
    return float(_are_found(drawn, alpha).mean())


def _smallest(pair: AgentPair, power: float, alpha: float) -> tuple[int, float]:
    """The smallest number of tasks with this power, and the power that it has."""
    by_t = _smallest_by_t(pair, power, alpha)
    many = math.ceil(_MANY / max(pair.differing, 1e-9))
    if by_t >= many:
        return by_t, power_of(by_t, pair.mean, pair.variance, alpha)
    tasks = max(least_tasks(alpha), by_t * 3 // 4)
    while tasks < many and (reached := power_of_pair(pair, tasks, alpha)) < power:
        tasks += max(1, tasks // 100)
    return tasks, reached if tasks < many else power_of_pair(pair, tasks, alpha)


def _smallest_by_t(pair: AgentPair, power: float, alpha: float) -> int:
    low, high = 2, 2
    while power_of(high, pair.mean, pair.variance, alpha) < power and high < _MOST_TASKS:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if power_of(middle, pair.mean, pair.variance, alpha) < power:
            low = middle + 1
        else:
            high = middle
    return high


def detectable(
    tasks: int,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    tries: int = 1,
    noise: float | None = None,
    spread: float = 0.0,
) -> float | None:
    """The smallest difference that so many tasks show with this power, to half a point; None: they
    can show none."""
    within = USUAL_NOISE if noise is None else noise

    def is_found(steps: int) -> bool:
        pair = AgentPair(steps * _SMALLEST, noise=within, tries=tries, spread=spread)
        return power_of_pair(pair, tasks, alpha) >= power

    return None if tasks < least_tasks(alpha) else _first_found(is_found)


def _first_found(is_found: Callable[[int], bool]) -> float | None:
    """The smallest difference, counted in steps, that is found; None: none is."""
    low, high = 1, round(1 / _SMALLEST)
    if not is_found(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_found(middle) else (middle + 1, high)
    return high * _SMALLEST


def power_of(tasks: int, detect: float, variance: float, alpha: float) -> float:
    """The chance that a paired t test over so many tasks finds a difference; `variance` is that of
    one task's difference."""
    if variance <= 0:
        return 1.0
    degrees = tasks - 1
    shift = detect * math.sqrt(tasks / variance)
    border = float(special.stdtrit(degrees, 1 - alpha / 2))
    if abs(shift) > border + _CERTAIN:  # where the distribution's own series give up
        return 1.0
    found = 1 - special.nctdtr(degrees, shift, border) + special.nctdtr(degrees, shift, -border)
    return float(found)


def power_of_pair(pair: AgentPair, tasks: int, alpha: float) -> float:
    """The chance that `compare` finds a difference of two such agents over so many tasks."""
    if tasks < least_tasks(alpha):
        return 0.0
    if tasks * pair.differing >= _MANY:
        return power_of(tasks, pair.mean, pair.variance, alpha)
    if pair.is_whole:
        return _power_of_one_try(pair, tasks, alpha)
    return float(_are_found(_drawn(pair, tasks), alpha).mean())


def _power_of_one_try(pair: AgentPair, tasks: int, alpha: float) -> float:
    """The same where each task is lost, equal or gained as a whole, counted out."""
    lost, gained = pair.chances[0], pair.chances[-1]
    expected = tasks * pair.differing
    most = min(tasks, math.ceil(expected + 6 * math.sqrt(expected) + 10))
    grid = np.mgrid[: most + 1, : most + 1].reshape(2, -1)
    down, up = grid[:, grid.sum(axis=0) <= most]
    chance = special.xlogy(down, lost) + special.xlogy(up, gained)
    chance += special.xlogy(tasks - down - up, 1 - lost - gained)
    ways = special.gammaln(tasks + 1) - special.gammaln(down + 1) - special.gammaln(up + 1)
    weights = np.exp(chance + ways - special.gammaln(tasks - down - up + 1))
    rows = np.zeros((len(down), MOST))
    few = down + up <= MOST
    places = np.arange(MOST)[None, :]
    rows[few] = np.where(places < up[few, None], 1.0, 0.0)
    behind = (places >= up[few, None]) & (places < (up + down)[few, None])
    rows[few] = np.where(behind, -1.0, rows[few])
    ps = _t_ps((up - down).astype(float), (up + down).astype(float), tasks)
    ps[few] = np.maximum(ps[few], flip_ps(rows[few]))
    return float(weights @ (ps <= alpha))


def _are_found(
    differences: Numbers, alpha: float
) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """Whether each row of differences [R, tasks] shows one, as `comparison.interval_and_p` says."""
    tasks = differences.shape[1]
    ps = _t_ps(differences.sum(axis=1), (differences**2).sum(axis=1), tasks)
    few = ((differences != 0).sum(axis=1) <= MOST) & (ps <= alpha)
    if few.any():
        order = np.argsort(differences[few] == 0, axis=1, kind="stable")  # those that differ first
        ps[few] = np.maximum(
            ps[few], flip_ps(np.take_along_axis(differences[few], order, axis=1)[:, :MOST])
        )
    return ps <= alpha


def _t_ps(sums: Numbers, squares: Numbers, tasks: int) -> Numbers:
    """The p of a paired t test from the sums of differences and of their squares. Where all
    differences are equal, that of `comparison.paired_t`."""
    means = sums / tasks
    variances = np.maximum(0.0, squares - tasks * means**2) / (tasks - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2 * special.stdtr(tasks - 1, -np.abs(means) / np.sqrt(variances / tasks))
    alike = np.where(np.abs(means) < 1e-9, 1.0, 2.0 ** (1 - tasks))
    result: Numbers = np.where(variances < 1e-12, alike, found)
    return result


def _drawn(pair: AgentPair, tasks: int) -> Numbers:
    """Comparisons of two such agents, the same for the same number of tasks."""
    places = np.searchsorted(np.cumsum(pair.chances), _uniform(tasks))
    found: Numbers = pair.values[np.minimum(places, len(pair.values) - 1)]
    return found


@lru_cache(maxsize=4)
def _uniform(tasks: int) -> Numbers:
    return np.random.default_rng(tasks).random((_DRAWS, tasks))


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
