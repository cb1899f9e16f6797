"""python -m tests.judge.statistics.verdict_campaign [COMPARISONS]: verdicts on few tasks.

Equal agents on 1 to 10 tasks: how many comparisons call one of them better, and how many gates
(`completed`, `regression`) fail or pass where the truth is at their border. Then agents that differ
by what `compare size` was asked for: how many comparisons find it. The tries are drawn here, by
chances that the statistics never see. 20,000 comparisons of each kind take about ten minutes.
"""

import sys
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from scipy import stats

from rehearsal_room.judge.promotion.decision import decide
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.judge.statistics.planning import plan
from tests.judge.promotion.drawn import criteria_of, facts_of

SIZES = range(1, 11)
COMPARISONS = 20_000
_LEVEL = 0.05
_MOST_APART = 0.03  # of measured and promised power


class EqualAgents(NamedTuple):
    """Two runs of agents with the same chances: of each task drawn from low to high."""

    low: float
    high: float
    tries: int


class PromisedPower(NamedTuple):
    """Two agents with these chances on every task."""

    first: float
    second: float
    tries: int

    @property
    def detect(self) -> float:
        """The true difference."""
        return self.second - self.first

    @property
    def noise(self) -> float:
        """The variance of a try, as a pilot of both would have it."""
        return (self.first * (1 - self.first) + self.second * (1 - self.second)) / 2


EQUAL = (EqualAgents(0.5, 0.5, 1), EqualAgents(0.1, 0.9, 1), EqualAgents(0.2, 0.8, 4))
PROMISED = (
    PromisedPower(0.05, 0.95, 1),
    PromisedPower(0.2, 0.9, 1),
    PromisedPower(0.3, 0.8, 1),
    PromisedPower(0.6, 0.9, 1),
    PromisedPower(0.7, 0.8, 1),
    PromisedPower(0.3, 0.9, 4),
    PromisedPower(0.2, 0.6, 4),
    PromisedPower(0.4, 0.6, 4),
    PromisedPower(0.75, 0.95, 8),
)


def drawn(random: Random, chances: Sequence[float], tries: int) -> list[Outcome]:
    """A run of tasks with these chances."""
    return [
        Outcome("w", f"t{task}", number, float(random.random() < chance))
        for task, chance in enumerate(chances)
        for number in range(tries)
    ]


def equal_runs(
    agents: EqualAgents, tasks: int, count: int
) -> Iterator[tuple[list[Outcome], list[Outcome]]]:
    """So many pairs of runs."""
    random = Random(f"{agents} {tasks}")
    for _ in range(count):
        chances = [random.uniform(agents.low, agents.high) for _ in range(tasks)]
        yield drawn(random, chances, agents.tries), drawn(random, chances, agents.tries)


def false_verdicts(agents: EqualAgents, tasks: int, count: int) -> int:
    """In how many comparisons of equal agents one is called better."""
    found = 0
    for one, other in equal_runs(agents, tasks, count):
        result = compare(one, other)
        assert result is not None
        is_verdict = result.verdict != "no difference is shown"
        assert is_verdict == (result.p <= _LEVEL), result  # never against its own p
        found += is_verdict
    return found


def false_gates(agents: EqualAgents, tasks: int, count: int) -> int:
    """In how many looks a gate that is exactly reached is decided, either way: each way is wrong in
    half of the level."""
    share = (agents.low + agents.high) / 2
    gate = criteria_of("regression.vs(base) >= 0", f"completed.lower >= {share}")
    found = 0
    for one, other in equal_runs(agents, tasks, count):
        (result,) = decide(gate, facts_of(other), facts_of(one))
        verdicts = [criterion.verdict for criterion in result.criteria]
        found += verdicts[0] != "inconclusive"
    return found


def power_found(pair: PromisedPower, count: int) -> tuple[int, float, float]:
    """The tasks that `compare size` asks for, the power that it promises, and the power found."""
    promised = plan(pair.detect, tries=pair.tries, noise=pair.noise)
    random, found = Random(str(pair)), 0
    for _ in range(count):
        runs = (
            drawn(random, [chance] * promised.tasks, pair.tries)
            for chance in (pair.first, pair.second)
        )
        result = compare(*runs)
        found += result is not None and result.verdict.startswith("B is better")
    return promised.tasks, promised.power, found / count


def most_false(count: int) -> int:
    """The 99.9 % bound of a true 5 %."""
    return int(stats.binom.ppf(0.999, count, _LEVEL))


def main(count: int) -> int:
    """Run the campaign; returns the exit status."""
    wrong = 0
    for agents in EQUAL:
        for what, measure in (("compare", false_verdicts), ("gate", false_gates)):
            shares = [measure(agents, tasks, count) / count for tasks in SIZES]
            wrong += max(shares) > _LEVEL
            listed = " ".join(f"{100 * share:.2f}" for share in shares)
            _say(f"{what}, {agents}: wrong verdicts in % at 1 to 10 tasks: {listed}")
    for pair in PROMISED:
        tasks, promised, found = power_found(pair, max(200, count // 5))
        wrong += abs(found - promised) > _MOST_APART
        _say(f"{pair}: {tasks} tasks, power promised {promised:.3f}, found {found:.3f}")
    return int(wrong > 0)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else COMPARISONS))
