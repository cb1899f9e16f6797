"""Which episodes a study takes."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from harness.core.events import Ending, Label
from harness.log.schema import EpisodeRow
from judge.reliability.sampling import sample_of


def _row(
    episode: str,
    label: Label | None = Label.COMPLETED,
    scenario: str = "shop",
    ending: Ending | None = Ending.ANSWERED,
) -> EpisodeRow:
    return EpisodeRow(
        *(episode, 1, scenario, "t", "g", 0, "p", "d", 0.0, 3), ending=ending, label=label
    )


def test_rare_labels_are_in() -> None:
    """Labels have their share of the sample, and a rare one a place at least."""
    rows = [_row(f"c{n:03}") for n in range(900)]
    rows += [_row(f"a{n:03}", Label.AGENT_ERROR) for n in range(97)]
    rows += [_row("e0", Label.ENVIRONMENT_ERROR), _row("u0", None), _row("u1", None)]
    found = sample_of(rows, 100, seed=1)
    assert Counter(name[0] for name in found) == {"c": 88, "a": 10, "e": 1, "u": 1}
    assert found == [row.episode for row in rows if row.episode in set(found)]


def test_with_little_room_labels_come_before_scenarios() -> None:
    """Three places for two labels in many scenarios: both labels, the largest scenario twice."""
    rows = [_row(f"c{n}", scenario=f"s{n % 10}") for n in range(101)]
    rows += [_row("p0", Label.PARTIALLY_COMPLETED, "s9")]
    found = sample_of(rows, 2, seed=5)
    assert {name[0] for name in found} == {"c", "p"}
    assert {row.scenario for row in rows if row.episode in found} == {"s0", "s9"}


def test_every_scenario_is_in() -> None:
    """A place for each scenario, and the rest by size."""
    rows = [_row(f"{n}", scenario="large") for n in range(90)]
    rows += [_row(f"s{n}", scenario=f"small{n}") for n in range(5)]
    found = sample_of(rows, 10, seed=2)
    by_scenario = Counter(row.scenario for row in rows if row.episode in found)
    assert by_scenario == {"large": 5, **{f"small{n}": 1 for n in range(5)}}


def test_the_seed_alone_decides() -> None:
    """Another order of the rows gives the same episodes, another seed others."""
    rows = [_row(f"e{n:03}") for n in range(200)]
    shuffled = list(rows)
    Random(0).shuffle(shuffled)
    assert set(sample_of(rows, 20, seed=3)) == set(sample_of(shuffled, 20, seed=3))
    assert set(sample_of(rows, 20, seed=3)) != set(sample_of(rows, 20, seed=4))


def test_the_wanted_come_first() -> None:
    """Labelled episodes are in before others, as many as there is room for."""
    rows = [_row(f"e{n:03}") for n in range(50)]
    wanted = {"e007", "e021", "e049", "of another run"}
    for seed in range(5):
        found = sample_of(rows, 40, seed=seed, first=wanted)
        assert len(found) == 40
        assert wanted & set(found) == {"e007", "e021", "e049"}
    assert set(sample_of(rows, 2, first=wanted)) < {"e007", "e021", "e049"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*Label, None]),
            st.sampled_from(["s1", "s2", "s3"]),
            st.sampled_from([Ending.ANSWERED, Ending.STEP_LIMIT, Ending.CANCELLED, None]),
        ),
        max_size=40,
    ),
    st.integers(0, 50),
)
def test_a_sample_has_the_size_that_was_asked(
    facts: list[tuple[Label | None, str, Ending | None]], size: int
) -> None:
    """So many episodes, none twice, none that is not over or was cancelled, every
    label where there is room."""
    rows = [
        _row(f"e{n}", label, scenario, ending) for n, (label, scenario, ending) in enumerate(facts)
    ]
    over = [row for row in rows if row.ending in (Ending.ANSWERED, Ending.STEP_LIMIT)]
    found = sample_of(rows, size)
    assert len(found) == min(size, len(over))
    assert set(found) <= {row.episode for row in over}
    assert len(set(found)) == len(found)
    labels = {row.label for row in over}
    shown = {row.label for row in over if row.episode in found}
    assert len(shown) == len(labels) or len(shown) == size
