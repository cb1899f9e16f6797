"""What is decided of claims, and how often wrongly."""

import pytest

from rehearsal_room.judge.promotion.criteria import RunFacts
from rehearsal_room.judge.statistics.outcomes import Outcome
from rehearsal_room.testing.claims import Claim
from rehearsal_room.testing.decisions import SharedAlpha, decide
from tests.judge.promotion.drawn import facts_of
from tests.judge.statistics.verdict_campaign import PROMISED, PromisedPower
from tests.support.budgets import repeats
from tests.testing.aa_campaign import MOST_APART, is_red, most_red, power_found

ALONE, AMONG_TEN = SharedAlpha(0.05, 1), SharedAlpha(0.05, 10)


def scored(*scores: float | None, tasks: int = 1) -> RunFacts:
    """Episodes with these scores, of so many tasks in turn."""
    return facts_of(
        Outcome("w", f"t{index % tasks}", index // tasks, score)
        for index, score in enumerate(scores)
    )


@pytest.mark.parametrize(
    ("completed", "alpha", "line"),
    [
        (20, ALONE, "holds: 20 of 20 episodes completed, 95 % interval 83.2 to 100.0 %; "
         "alpha 0.05"),
        (15, ALONE, "is inconclusive: 15 of 20 episodes completed, 95 % interval 50.9 to 91.3 %; "
         "alpha 0.05"),
        (11, ALONE, "fails: 11 of 20 episodes completed, 95 % interval 31.5 to 76.9 %; alpha 0.05"),
        (11, AMONG_TEN, "is inconclusive: 11 of 20 episodes completed, 99.5 % interval 23.7 to "
         "83.6 %; alpha 0.005 (0.05 shared by 10 claims)"),
        (20, AMONG_TEN, "holds: 20 of 20 episodes completed, 95 % interval 83.2 to 100.0 %; "
         "alpha 0.05"),
    ],
)  # fmt: skip
def test_a_share(completed: int, alpha: SharedAlpha, line: str) -> None:
    """One task is enough. The claims share alpha for failing, and none needs to for holding. The
    intervals are those of scipy.stats.binomtest."""
    facts = scored(*[1.0] * completed, *[0.0] * (20 - completed))
    assert decide(Claim(at_least=0.8), facts, None, alpha).lines == (f"at_least=0.8 {line}",)


def test_episodes_without_a_verdict() -> None:
    """They count where they hurt, and more than 2 % of them leave a claim undecided."""
    found = decide(Claim(at_least=0.5), scored(*[1.0] * 20, None), None, ALONE)
    assert found.verdict == "inconclusive"
    assert "20 of 20 episodes completed" in found.lines[0]
    assert "; 1 episode without a verdict; " in found.lines[0]


def test_a_base() -> None:
    """A drop fails; a margin may hold; few tasks show nothing, and the line says how many could."""
    claim = Claim(no_worse_than="base", margin=0.1)
    good, worse = scored(*[1.0] * 40, tasks=40), scored(*[1.0] * 20, *[0.0] * 20, tasks=40)
    assert decide(claim, good, good, ALONE).verdict == "pass"
    assert decide(claim, worse, good, ALONE).lines == (
        "no_worse_than='base', margin=0.1 fails: -50.0 points over 40 tasks, 95 % interval -66.2 "
        "to -33.8; alpha 0.05",
    )
    one = decide(Claim(no_worse_than="base"), scored(0.0, 0.0), scored(1.0, 1.0), ALONE)
    assert one.verdict == "inconclusive"
    assert "; 6 tasks are the fewest that can show a drop; " in one.lines[0]
    other = facts_of([Outcome("other", "t", 0, 1.0)])
    assert "shares no task that has a verdict" in decide(claim, good, other, ALONE).lines[0]


def test_sessions_of_true_claims_are_seldom_red() -> None:
    """1 to 32 claims that are just reached, and equal agents compared: at most alpha of the
    sessions are red, as bounded for so many. `python -m tests.testing.aa_campaign` has the whole,
    with sessions of pytest."""
    sessions = repeats(short=200, long=2_000)
    assert sum(map(is_red, range(sessions))) <= most_red(sessions)


@pytest.mark.parametrize("pair", [PROMISED[3], PROMISED[7]], ids=str)
def test_a_true_drop_is_found(pair: PromisedPower) -> None:
    """As often as `rehearse compare size` promises, within the error of so few drawings."""
    count = repeats(short=400, long=4_000)
    _, promised, found = power_found(pair, 4, count)
    assert found == pytest.approx(promised, abs=MOST_APART + 3 * (0.16 / count) ** 0.5)
