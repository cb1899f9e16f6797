"""How many requests may be in flight, by the outcomes of earlier ones."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.harness.model_servers.in_flight import InFlightLimit


def rounds(limit: InFlightLimit, number: int, *, share: float, seed: int = 0) -> list[int]:
    """The limit after each round, in which the server refuses that share of the requests."""
    rng, after = Random(seed), []
    for _ in range(number):
        generations = [limit.begin() for _ in range(limit.limit)]
        for generation in generations:
            limit.end()
            if rng.random() < share:
                limit.refused(generation)
            else:
                limit.answered()
        after.append(limit.limit)
    return after


@pytest.mark.parametrize("most", [8, 64, 256, 1024])
def test_a_few_refusals_cost_nothing(most: int) -> None:
    """Refusals that come at any load, as 3 % of all requests, leave the limit where it is."""
    limit = InFlightLimit(most)
    assert min(rounds(limit, 200, share=0.03)) >= 0.7 * most
    mean = sum(rounds(limit, 200, share=0.03, seed=1)) / 200
    assert mean > 0.97 * most


def test_refusals_that_come_before_any_answer_may_be_chance() -> None:
    """A tenth of 128 requests is 13 on average; up to 19 refusals leave the limit where it is."""
    limit = InFlightLimit(128)
    generations = [limit.begin() for _ in range(128)]
    assert not any(limit.refused(generation) for generation in generations[:19])
    assert limit.limit == 128
    assert limit.refused(generations[19])
    assert limit.limit == 89


@pytest.mark.parametrize("capacity", [1, 5, 40, 300])
def test_the_limit_finds_what_the_server_takes(capacity: int) -> None:
    """With a server that refuses all requests beyond its capacity, the limit falls to about it
    within a few rounds and stays there."""
    limit, after = InFlightLimit(1000), []
    for _ in range(200):
        generations = [limit.begin() for _ in range(limit.limit)]
        for index, generation in enumerate(generations):
            limit.end()
            if index < capacity:
                limit.answered()
            else:
                limit.refused(generation)
        after.append(limit.limit)
    late = after[100:]
    assert max(late) <= 1.5 * capacity + 4
    assert min(late) >= max(1, int(0.6 * capacity))


def test_the_limit_recovers() -> None:
    """After an overload the limit rises to its most again."""
    limit = InFlightLimit(256)
    rounds(limit, 40, share=1.0)
    assert (limit.limit, limit.lowest) == (1, 1)
    assert rounds(limit, 120, share=0.0)[-1] == 256
    assert limit.limit == limit.most


def test_requests_of_one_moment_lower_the_limit_once() -> None:
    """Refusals of requests that were sent before a cut do not cause a second one."""
    limit = InFlightLimit(100)
    generations = [limit.begin() for _ in range(100)]
    assert sum(limit.refused(generation) for generation in generations) == 1
    assert limit.limit == 70


@given(st.integers(1, 50), st.lists(st.integers(0, 2)))
def test_the_limit_stays_in_its_bounds(most: int, moves: list[int]) -> None:
    """Whatever happens, the limit is between 1 and its most, and as many requests are in flight as
    were begun and not ended."""
    limit, begun = InFlightLimit(most), list[int]()
    for move in moves:
        if move == 0 and not limit.is_full:
            begun.append(limit.begin())
        elif begun:
            generation = begun.pop()
            limit.end()
            limit.refused(generation) if move == 1 else limit.answered()
        assert 1 <= limit.limit <= most
        assert limit.num_in_flight == len(begun)
