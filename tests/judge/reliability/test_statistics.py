"""The statistics of agreement: worked examples, and comparisons with naive computations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.outcomes.bootstrap import Bootstrap, Figure
from rehearsal_room.judge.reliability.statistics import (
    Unit,
    agreement,
    alpha,
    binary,
    confusion,
    flip_probability,
    flip_rate,
    kappa,
    pairwise_agreement,
    units_of,
)

C, P, A, E = Label
RATINGS = st.lists(st.lists(st.sampled_from([C, P, A, None]), max_size=5), max_size=8)
PAIRS = st.lists(st.tuples(st.sampled_from([C, P, A]), st.sampled_from([C, P, A])), max_size=12)


def _columns(*raters: str) -> list[list[str | None]]:
    """Ratings by unit, from a line for each rater with a dot for a missing value."""
    rows = [[None if value == "." else value for value in line.split()] for line in raters]
    return [list(unit) for unit in zip(*rows, strict=True)]


def test_failed_judgings_are_missing() -> None:
    """Failed judgings do not count, and an episode that was judged once shows no agreement."""
    ratings = [[C, None, C], [A, C, C], [C], [None, None], [A, A]]
    assert units_of(ratings) == {(C, C): 1, (A, C, C): 1, (A, A): 1}


def test_agreement_by_hand() -> None:
    """Two thirds of one episode's pairs differ and none of the other's; every episode has the same
    weight."""
    units = units_of([[C, C, A], [A, A], [C, C]])
    assert pairwise_agreement(units) == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert flip_rate(units) == pytest.approx(1 / 3)


def test_the_scale_of_two() -> None:
    """All labels other than `completed` are equal on it."""
    units = units_of([[A, P, E], [C, C, P]])
    assert binary(pairwise_agreement)(units) == pytest.approx((1 + 1 / 3) / 2)
    assert pairwise_agreement(units) == pytest.approx((0 + 1 / 3) / 2)
    assert binary(agreement)({((A, P), (C, C)): 1, ((C, P),): 2}) == 0.5


@pytest.mark.parametrize(
    ("raters", "expected"),
    [
        (("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0"), 0.095),
        (("a a b b d c c c e d d a", "b a b b b c c c e d d d"), 0.692),
        (
            (
                "1 2 3 3 2 1 4 1 2 . . .",
                "1 2 3 3 2 2 4 1 2 5 . 3",
                ". 3 3 3 2 3 4 2 2 5 1 .",
                "1 2 3 3 2 4 4 1 2 5 1 .",
            ),
            0.743,
        ),
    ],
)
def test_alpha_of_the_published_examples(raters: Sequence[str], expected: float) -> None:
    """Krippendorff (2011), examples A, B and C: binary, nominal, and with missing values."""
    assert alpha(units_of(_columns(*raters))) == pytest.approx(expected, abs=0.0005)


def test_kappa_of_a_textbook_example() -> None:
    """50 proposals, two readers: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no give 0.4."""
    units = Counter({((C, C),): 20, ((C, A),): 5, ((A, C),): 10, ((A, A),): 15})
    assert kappa(units) == pytest.approx(0.4)
    assert agreement(units) == 0.7


def test_a_confusion_matrix_has_every_label() -> None:
    """Rows are reference labels, columns judgings, and labels that do not occur are zeros."""
    nothing = dict.fromkeys(Label, 0)
    assert confusion({((C, C), (C, A)): 2, ((E, A),): 1}) == {
        C: {**nothing, C: 2, A: 2},
        P: nothing,
        A: nothing,
        E: {**nothing, A: 1},
    }


@pytest.mark.parametrize(
    ("agreed", "expected"), [(1.0, 0.0), (0.58, 0.3), (0.5, 0.5), (0.3, 0.5), (None, None)]
)
def test_flip_probability_by_hand(agreed: float | None, expected: float | None) -> None:
    """Disagreement 2p(1 - p) gives p; more than a coin's gives a half."""
    assert flip_probability(agreed) == (None if expected is None else pytest.approx(expected))


def test_nothing_is_divided_by_zero() -> None:
    """Undefined values are None: without episodes, and where nothing varies."""
    for statistic in (pairwise_agreement, flip_rate, alpha, agreement, kappa):
        assert statistic({}) is None
        assert Bootstrap(Counter()).of(statistic) == Figure(None, None, None)
    assert alpha(units_of([[C, C], [C, C, C]])) is None
    assert kappa({((C, C),): 7}) is None


@given(RATINGS)
def test_agreement_equals_counting_pairs(ratings: list[list[Label | None]]) -> None:
    """Shares by episode, pair by pair."""
    rows = [[one for one in row if one is not None] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    shares = [
        sum(x == y for x, y in combinations(row, 2)) / len(list(combinations(row, 2)))
        for row in rows
    ]
    found = pairwise_agreement(units_of(ratings))
    assert found == (pytest.approx(sum(shares) / len(shares)) if rows else None)
    flips = [len(set(row)) > 1 for row in rows]
    assert flip_rate(units_of(ratings)) == (sum(flips) / len(flips) if rows else None)


@given(RATINGS)
def test_alpha_is_observed_against_expected_disagreement(
    ratings: list[list[Label | None]],
) -> None:
    """1 - D_o / D_e: within units, each pair weighed by 1 / (m - 1), against all pairs."""
    rows = [[one for one in row if one is not None] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    everything = [value for row in rows for value in row]
    num = len(everything)
    observed = sum(
        (row[i] != row[j]) / (len(row) - 1)
        for row in rows
        for i in range(len(row))
        for j in range(len(row))
        if i != j
    )
    expected = sum(everything[i] != everything[j] for i in range(num) for j in range(num) if i != j)
    found = alpha(units_of(ratings))
    if expected == 0:
        assert found is None
    else:
        assert found == pytest.approx(1 - (observed / num) / (expected / (num * (num - 1))))


@given(PAIRS)
def test_kappa_is_agreement_beyond_chance(pairs: list[tuple[Label, Label]]) -> None:
    """(p_o - p_e) / (1 - p_e), with each side's own share of a label."""
    num = len(pairs)
    found = kappa(Counter([tuple(sorted(pairs))]) if pairs else {})
    if not pairs:
        assert found is None
        return
    observed = sum(x == y for x, y in pairs) / num
    by_chance = sum(
        sum(x == label for x, _ in pairs) * sum(y == label for _, y in pairs) for label in Label
    ) / (num * num)
    if by_chance == 1:
        assert found is None
    else:
        assert found == pytest.approx((observed - by_chance) / (1 - by_chance))


@pytest.mark.slow
def test_a_bootstrap_equals_drawing_episodes() -> None:
    """The interval equals that of drawing whole episodes one at a time; the seed decides it."""
    ratings = [[C, C, A]] * 30 + [[A, A, A]] * 60 + [[C, A, P]] * 10
    sample = Bootstrap(units_of(ratings), seed=3)
    found = sample.of(pairwise_agreement)
    assert found == Bootstrap(units_of(ratings), seed=3).of(pairwise_agreement)
    assert found != Bootstrap(units_of(ratings), seed=4).of(pairwise_agreement)

    draw = Random(1)
    means = sorted(
        pairwise_agreement(units_of([draw.choice(ratings) for _ in ratings])) or 0.0
        for _ in range(2_000)
    )
    assert found.value == pytest.approx(0.7)
    assert found.lower == pytest.approx(means[50], abs=0.02)
    assert found.upper == pytest.approx(means[-50], abs=0.02)


def test_resamples_without_a_value_are_left_out() -> None:
    """An interval of alpha uses the resamples in which something varies."""
    found = Bootstrap(units_of([[C, A], [C, C], [C, C]]), seed=1).of(alpha)
    assert found == Figure(0.0, pytest.approx(-2 / 3), 0.0)


@pytest.mark.parametrize("ratings", [[[C, C], [C, C], [A, A]], [[C, A]] * 3], ids=["all", "none"])
def test_an_interval_without_width_is_none(ratings: list[list[Label]]) -> None:
    """Three episodes that all agree, or all disagree, do not make alpha certain."""
    found = Bootstrap(units_of(ratings), seed=1).of(alpha)
    assert (found.value is not None, found.lower, found.upper) == (True, None, None)


@pytest.mark.parametrize(
    ("num", "low"), [(1, 0.025), (100, 0.9638)], ids=["one episode", "a hundred"]
)
def test_a_share_that_never_varied_is_not_certain(num: int, low: float) -> None:
    """Where all values are 0 or all are 1, the interval is exact, which resampling cannot give."""
    agreeing = Bootstrap(units_of([[C, C]] * num), num_resamples=50).share(pairwise_agreement)
    assert agreeing == Figure(1.0, pytest.approx(low, abs=1e-4), 1.0)
    flips = Bootstrap(units_of([[C, C]] * num), num_resamples=50).share(flip_rate)
    assert flips == Figure(0.0, 0.0, pytest.approx(1 - low, abs=1e-4))


@pytest.mark.slow
def test_known_flips_are_found() -> None:
    """Of 40 seeded judges that flip with probability 0.3, the 95 % interval holds 0.3 for 34 at
    least (fewer by chance once in 20,000)."""
    held = 0
    for seed in range(40):
        draw = Random(seed)
        ratings = [[A if draw.random() < 0.3 else C for _ in range(5)] for _ in range(100)]
        found = Bootstrap(units_of(ratings), seed=seed, num_resamples=400).share(
            binary(pairwise_agreement)
        )
        low, high = flip_probability(found.upper), flip_probability(found.lower)
        assert low is not None and high is not None
        held += low <= 0.3 <= high
    assert held >= 34


def test_a_resample_is_as_large_as_the_sample() -> None:
    """Every resample has as many episodes as the sample."""
    seen: list[int] = []

    def size(units: Mapping[Unit, int]) -> float:
        seen.append(sum(units.values()))
        return 0.0

    Bootstrap(units_of([[C, A]] * 600 + [[C, C]] * 400), num_resamples=20).of(size)
    assert seen == [1_000] * 21
