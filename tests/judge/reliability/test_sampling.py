"""The sample of a study."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.judge.reliability.sampling import sample_of


def _row(
    episode: str,
    label: Label | None = Label.COMPLETED,
    scenario: str = "shop",
    ending: Ending | None = Ending.ANSWERED,
) -> EpisodeRow:
    return EpisodeRow(
        episode=episode,
        attempt=1,
        scenario=scenario,
        task="t",
        group="g",
        member=0,
        policy="p",
        scenario_digest="d",
        started_at=0.0,
        num_steps=3,
        ending=ending,
        label=label,
    )


def test_rare_labels_are_in_the_sample() -> None:
    """Labels have their share of the sample, and a rare one at least one episode."""
    rows = [_row(f"c{n:03}") for n in range(900)]
    rows += [_row(f"a{n:03}", Label.AGENT_ERROR) for n in range(97)]
    rows += [_row("e0", Label.ENVIRONMENT_ERROR), _row("u0", None), _row("u1", None)]
    found = sample_of(rows, 100, seed=1)
    assert Counter(name[0] for name in found) == {"c": 88, "a": 10, "e": 1, "u": 1}
    assert found == [row.episode for row in rows if row.episode in set(found)]


def test_in_a_small_sample_labels_come_before_scenarios() -> None:
    """Three episodes of two labels and many scenarios: both labels, the largest scenario twice."""
    rows = [_row(f"c{n}", scenario=f"s{n % 10}") for n in range(101)]
    rows += [_row("p0", Label.PARTIALLY_COMPLETED, "s9")]
    found = sample_of(rows, 2, seed=5)
    assert {name[0] for name in found} == {"c", "p"}
    assert {row.scenario for row in rows if row.episode in found} == {"s0", "s9"}


def test_every_scenario_is_in_the_sample() -> None:
    """One episode of each scenario, and the others by size."""
    rows = [_row(f"{n}", scenario="large") for n in range(90)]
    rows += [_row(f"s{n}", scenario=f"small{n}") for n in range(5)]
    found = sample_of(rows, 10, seed=2)
    by_scenario = Counter(row.scenario for row in rows if row.episode in found)
    assert by_scenario == {"large": 5, **{f"small{n}": 1 for n in range(5)}}


def test_only_the_seed_decides() -> None:
    """Another order of the rows gives the same sample, another seed another one."""
    rows = [_row(f"e{n:03}") for n in range(200)]
    shuffled = list(rows)
    Random(0).shuffle(shuffled)
    assert set(sample_of(rows, 20, seed=3)) == set(sample_of(shuffled, 20, seed=3))
    assert set(sample_of(rows, 20, seed=3)) != set(sample_of(rows, 20, seed=4))


def test_labelled_episodes_come_first() -> None:
    """They are chosen before others, as many as the size allows."""
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
def test_a_sample_has_the_requested_size(
    facts: list[tuple[Label | None, str, Ending | None]], size: int
) -> None:
    """It has no episode twice, none that is live or was cancelled, and every label where the size
    allows."""
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
