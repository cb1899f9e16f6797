"""Looking several times: alpha is spent, and no more of it than there is."""

import math
from random import Random
from statistics import NormalDist

import pytest

from rehearsal_room.judge.promotion.criteria import RunFacts
from rehearsal_room.judge.promotion.looks import look_until, next_look
from rehearsal_room.judge.promotion.spending import nominal_alphas
from rehearsal_room.judge.statistics.outcomes import Outcome
from tests.judge.promotion.drawn import criteria_of, facts_of


def test_one_look_spends_all() -> None:
    """And several spend less each, the later the more."""
    assert nominal_alphas([1.0], 0.05) == [pytest.approx(0.05)]
    first, last = nominal_alphas([0.5, 1.0], 0.05)
    assert first == pytest.approx(0.05 * 0.5**3)
    assert first < last < 0.05
    many = nominal_alphas([index / 10 for index in range(1, 11)], 0.05)
    assert many == sorted(many)


@pytest.mark.parametrize("shares", [[0.2, 0.4, 0.6, 0.8, 1.0], [0.05, 0.7, 0.75, 1.0]])
def test_the_chance_of_a_false_verdict(shares: list[float]) -> None:
    """Over all looks it is alpha, where there is no difference."""
    rng, crossed, draws = Random(5), 0, 4000
    borders = [NormalDist().inv_cdf(1 - one / 2) for one in nominal_alphas(shares, 0.05)]
    for _ in range(draws):
        total = before = 0.0
        for share, border in zip(shares, borders, strict=True):
            total += rng.gauss(0, math.sqrt(share - before))
            before = share
            if abs(total) / math.sqrt(share) >= border:
                crossed += 1
                break
    assert 0.04 <= crossed / draws <= 0.06


def test_looks_come_evenly() -> None:
    """About ten of them; the last at the end."""
    assert [next_look(count, 200) for count in (7, 20, 190, 195)] == [20, 40, 200, 200]
    assert next_look(1, 3) == 2


class Runs:
    """A run that grows when it is played on."""

    def __init__(self, rate: float, base_rate: float, most: int) -> None:
        self.asked: list[int] = []
        self._count = most // 10
        rng = Random(f"{rate} {base_rate}")
        self._scores = [
            (float(rng.random() < rate), float(rng.random() < base_rate)) for _ in range(most)
        ]

    def read(self) -> tuple[RunFacts, RunFacts]:
        """The episodes that there are, of the run and of the base."""
        rows = list(enumerate(self._scores[: self._count]))
        return tuple(
            facts_of(Outcome("w", f"t{i % 20}", i, score[which]) for i, score in rows)
            for which in (0, 1)
        )  # type: ignore[return-value]

    def play_on(self, count: int) -> None:
        """Play until there are so many."""
        self.asked.append(count)
        self._count = count


@pytest.mark.parametrize(
    ("rate", "base_rate", "verdict", "early"),
    [(0.9, 0.4, "pass", True), (0.2, 0.7, "fail", True), (0.52, 0.5, "inconclusive", False)],
)
def test_it_stops_at_a_verdict(rate: float, base_rate: float, verdict: str, early: bool) -> None:
    """A clear case needs few looks; an open one ends at the most episodes."""
    runs = Runs(rate, base_rate, 400)
    looked = look_until(criteria_of("regression.vs(base) >= 0.0"), 400, runs.read, runs.play_on)
    assert looked.results[-1].verdict == verdict
    assert (looked.looks[-1].episodes < 400) == early
    assert [look.episodes for look in looked.looks] == [40, *runs.asked]
    assert sum(look.alpha for look in looked.looks[:-1]) < 0.3
