"""python -m tests.judge.statistics.coverage [DRAWS]: how often intervals hold the truth.

Shares by task and by world, differences of two runs by world (of equal agents and of differing
ones), what `compare size` promises for worlds, and scores by a leaderboard's formula. With 4,000
draws of each design it takes about ten minutes.

An interval that leaves out at most 5 % on each side cannot hold the truth in 93 to 97 % of
evaluations where few of them are possible: ten tasks of which nearly all are solved have three
likely results. Such designs are named.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np
from scipy import stats

from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.judge.statistics.planning import plan_worlds
from rehearsal_room.judge.suites.scores import ScoreRange, bfcl_groups, weighed
from rehearsal_room.scenarios.suites import bfcl_entries as bfcl
from tests.judge.statistics.designs import (
    DESIGNS,
    HARD,
    OF_WORLDS,
    Design,
    WorldDesign,
    samples,
)

DRAWS = 4_000
_AIM, _AIM_OF_FEW_WORLDS = (93.0, 97.0), (90.0, 98.0)
_MOST_APART = 0.03  # of measured and promised power


class Pair(NamedTuple):
    """Two agents on the same worlds. Each world suits one of them more."""

    worlds: int
    tasks: int
    tries: int
    likeness: float  # intraclass correlation of the tasks of a world, for each agent
    gain: float  # the share of the first agent's failures that the second one completes

    def draw(self, random: Random) -> tuple[list[Outcome], list[Outcome]]:
        """The runs of both."""
        found: tuple[list[Outcome], list[Outcome]] = ([], [])
        size = (1 - self.likeness) / self.likeness
        for world in range(self.worlds):
            for outcomes, gain in zip(found, (0.0, self.gain), strict=True):
                own = random.betavariate(size / 2, size / 2)
                own += (1 - own) * gain
                outcomes += [
                    Outcome(f"w{world}", f"t{task}", number, float(random.random() < own))
                    for task in range(self.tasks)
                    for number in range(self.tries)
                ]
        return found

    @property
    def truth(self) -> float:
        """The mean difference over worlds."""
        return self.gain / 2


PAIRS = tuple(
    Pair(*size, likeness, gain)
    for size in ((8, 10, 1), (10, 10, 4), (20, 10, 1), (40, 10, 1))
    for likeness in (0.1, 0.2)
    for gain in (0.0, 0.3)
)


class PromisedWorlds(NamedTuple):
    """What `compare size` was asked for."""

    detect: float
    tasks_each: int
    spread: float  # standard deviation of the worlds' true differences
    tries: int


PROMISED = (
    PromisedWorlds(0.1, 10, 0.1, 1),
    PromisedWorlds(0.05, 20, 0.05, 4),
    PromisedWorlds(0.2, 10, 0.1, 1),
    PromisedWorlds(0.25, 10, 0.15, 4),
)


def coverage_of(design: Design | WorldDesign, draws: int) -> float:
    """In how many of a hundred evaluations the interval holds the design's share."""
    bounds: dict[tuple[tuple[float, int], ...], Interval[float] | None] = {}
    held = 0
    for sample in samples(design, draws):
        counts = tuple(sorted((sum(one), len(one)) for one in sample.values()))
        if counts not in bounds:
            bounds[counts] = share_interval(sample)
        found = bounds[counts]
        held += found is not None and found.lower <= design.share <= found.upper
    return 100 * held / draws


def can_be_held(design: Design | WorldDesign) -> bool:
    """Whether some interval that goes by the number of successes, and leaves out at most 5 % on
    each side, holds the share in 93 to 97 % of evaluations."""
    if isinstance(design, WorldDesign) or len(design.tries) > 1:
        return True
    (tries,) = design.tries
    if design.likeness and tries > 1:
        size = (1 - design.likeness) / design.likeness
        chances = stats.betabinom(tries, design.share * size, (1 - design.share) * size)
    else:
        chances = stats.binom(tries, design.share)
    one, total = chances.pmf(np.arange(tries + 1)), np.ones(1)
    for _ in range(design.tasks):
        total = np.convolve(total, one)
    below = np.concatenate(([0.0], np.cumsum(total)))
    low, high = below[below <= 0.05], below[below >= 0.95]
    held = 100 * (high[:, None] - low[None, :])
    return bool(((held >= _AIM[0]) & (held <= _AIM[1])).any())


def shares(draws: int) -> Iterator[bool]:
    """Whether each design's interval holds what it promises."""
    error = 200 * (0.95 * 0.05 / draws) ** 0.5  # two standard errors of so many draws
    for design in (*DESIGNS, *HARD, *OF_WORLDS):
        found = coverage_of(design, draws)
        is_small = isinstance(design, WorldDesign) and design.worlds < 8
        lowest, highest = _AIM_OF_FEW_WORLDS if is_small else _AIM
        is_held = lowest - error <= found <= highest + error
        can_be = can_be_held(design)
        note = "" if is_held else "  outside" if can_be else "  cannot be inside"
        _say(f"coverage {found:5.1f} %  {design}{note}")
        yield is_held or not can_be


def differences(draws: int) -> Iterator[bool]:
    """Whether intervals of differences by world hold the truth, and equal agents seldom differ."""
    most = 100 * stats.binom.ppf(0.999, draws, 0.05) / draws
    for pair in PAIRS:
        random, held, wrong = Random(str(pair)), 0, 0
        for _ in range(draws):
            found = compare(*pair.draw(random), unit="world")
            assert found is not None
            held += found.interval[0] <= pair.truth <= found.interval[1]
            wrong += found.verdict != "no difference is shown"
        missed = 100 * (1 - held / draws)
        verdicts = f"differences shown {100 * wrong / draws:5.1f} %"
        _say(f"difference by world held {100 - missed:5.1f} %, {verdicts}  {pair}")
        yield missed <= most


def promises(draws: int) -> Iterator[bool]:
    """Whether comparisons by world have the power that `compare size` promises."""
    for asked in PROMISED:
        drawn = np.random.default_rng(1)
        noise = 0.25 - (asked.detect / 2) ** 2 - asked.spread**2 / 2
        promised = plan_worlds(
            asked.detect,
            tasks_each=asked.tasks_each,
            world_spread=asked.spread**2,
            tries=asked.tries,
            noise=noise,
        )
        number, found = asked.tasks_each * asked.tries, 0
        for _ in range(draws):
            runs: list[list[Outcome]] = []
            gains = drawn.normal(asked.detect, asked.spread, promised.clusters)
            for side in (-0.5, 0.5):
                hits = drawn.binomial(number, np.clip(0.5 + side * gains, 0, 1))
                runs.append(list(_outcomes(hits, number)))
            result = compare(*runs, unit="world")
            found += result is not None and result.verdict.startswith("B is better")
        reached = found / draws
        _say(
            f"power {reached:.3f}, promised {promised.power:.3f}: {asked}, "
            f"{promised.clusters} worlds"
        )
        yield abs(reached - promised.power) <= _MOST_APART


def _outcomes(
    hits: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", size: int
) -> Iterator[Outcome]:
    """A world's tries as those of so many tasks."""
    for world, completed in enumerate(hits):
        for task in range(size):
            yield Outcome(f"w{world}", f"t{task}", 0, float(task < completed))


def formulas(draws: int) -> Iterator[bool]:
    """Whether the interval of a leaderboard's score holds the true one: its whole, and a tenth."""
    sizes = {"live_simple": 258, "live_multiple": 1053, "live_parallel": 16}
    sizes |= {"live_parallel_multiple": 24, "live_irrelevance": 884, "live_relevance": 18}
    sizes |= {"simple_python": 400, "simple_java": 100, "simple_javascript": 50}
    whole = dict.fromkeys(bfcl.CATEGORIES, 200) | sizes
    for part in (1, 10):
        for low, high in ((0.4, 0.9), (0.9, 1.0)):
            random = Random(f"{part} {low}")
            counts = {name: max(2, size // part) for name, size in whole.items()}
            truth = {name: random.uniform(low, high) for name in counts}
            held = sum(_holds(truth, counts, random) for _ in range(draws))
            found = 100 * held / draws
            _say(
                f"coverage {found:5.1f} %  BFCL's formula, 1/{part} of its entries, {low} to {high}"
            )
            yield found >= 93.0  # on the safe side where categories are small


def _holds(truth: dict[str, float], sizes: dict[str, int], random: Random) -> bool:
    scores, ranges = {}, {}
    for name, size in sizes.items():
        hits = sum(random.random() < truth[name] for _ in range(size))
        scores[name] = hits / size
        ranges[name] = _range_of(hits, size)
    weights = {
        name: _overall({other: float(other == name) for other in sizes}, sizes) for name in sizes
    }
    lower, upper = weighed(scores, ranges, weights)
    return lower <= _overall(truth, sizes) <= upper


@lru_cache(maxsize=100_000)
def _range_of(hits: int, size: int) -> ScoreRange:
    found = share_interval({task: [float(task < hits)] for task in range(size)})
    assert found is not None
    return ScoreRange(found.lower, found.upper, found.value, found.value)


def _overall(scores: dict[str, float], sizes: dict[str, int]) -> float:
    groups = bfcl_groups(scores, sizes)
    return (groups["non_live"] + groups["live"] + groups["multi_turn"]) / 3


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; returns the exit status."""
    draws = int(arguments[0]) if arguments else DRAWS
    parts = (shares, differences, promises, formulas)
    results = [is_right for part in parts for is_right in part(draws)]  # each part runs to its end
    return int(not all(results))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
