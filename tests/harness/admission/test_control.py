"""The admission control: a pure state machine, fed with events and their times."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.admission_cases import Case, bucket, cliff, frozen, queue, read, refusing, zeros
from benchmarks.admission_simulation import FixedLimit, Outcome, simulate
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.admission.signals import ServerMetrics
from tests.support.budgets import examples

EVENTS = st.lists(
    st.tuples(
        st.floats(0, 3),  # seconds since the event before
        st.one_of(
            st.tuples(st.just("replied"), st.floats(0, 100)),
            st.tuples(st.just("refused"), st.integers(1, 9)),
            st.tuples(st.just("failed")),
            st.tuples(st.just("underused")),
            st.tuples(
                st.just("metrics"),
                st.none()
                | st.builds(
                    ServerMetrics,
                    st.integers(0, 2000),
                    st.integers(0, 2000),
                    st.none() | st.floats(0, 1),
                    st.integers(0, 100),
                ),
            ),
        ),
        st.integers(1, 50),  # how often
    ),
    max_size=60,
)


@given(first=st.integers(1, 2000), most=st.integers(1, 2000), events=EVENTS)
@settings(max_examples=examples(200))
def test_the_limit_stays_in_its_bounds(first: int, most: int, events: list[Any]) -> None:
    """Whatever a server does: the limit is between 1 and the most, there is a reason for it, and
    the same events give the same limits again."""

    def limits() -> list[int]:
        control, now, found = AdmissionControl(first=first, most=most), 0.0, []
        for seconds, (name, *arguments), times in events:
            for _ in range(times):
                now += seconds
                if name in ("replied", "refused", "failed"):
                    control.asked(now)
                getattr(control, name)(now, *arguments)
                found.append(control.limit)
        assert control.reason
        return found

    found = limits()
    assert all(1 <= limit <= most for limit in found)
    assert limits() == found


@given(share=st.floats(0.3, 1.0), seed=st.integers(0, 99))
@settings(max_examples=examples(20))
def test_a_server_that_refuses_much_gets_less(share: float, seed: int) -> None:
    """Refusals cut the limit again and again, down to one episode where nothing else helps; the
    reason names the share."""
    control, rng, now = AdmissionControl(first=64), Random(seed), 0.0
    for _ in range(3000):
        now += 0.01
        control.asked(now)
        if rng.random() < share:
            control.refused(now, 1)
        else:
            control.replied(now, 0.01)
    assert control.limit <= 4
    assert control.reason.startswith("the server refused ")


def test_nothing_is_learned_from_a_run_that_needs_less() -> None:
    """While fewer episodes run than are allowed, as at the end of a run, the limit stays."""
    control = AdmissionControl(first=64)
    for number in range(1000):
        control.asked(number)
        control.underused(number)
        control.replied(number, 1.0)
    assert control.limit == 64
    assert control.reason == "too few replies came to try more than 64 at once"


@pytest.mark.parametrize("cache", [0.5, None])
def test_metrics_show_how_much_fits(cache: float | None) -> None:
    """The limit follows the queue of a server that has 40 places, within a few readings."""
    control, now = AdmissionControl(first=16), 0.0
    for _ in range(60):
        now += 1.0
        there = control.limit
        for _ in range(there):
            control.asked(now)
        for _ in range(there):
            control.replied(now, 1.0)
        for _ in range(there):
            control.asked(now)
        used = None if cache is None else cache * min(there, 40) / 40
        control.metrics(now, ServerMetrics(min(there, 40), max(0, there - 40), used, 0))
        for _ in range(there):
            control.failed(now)
    assert 40 <= control.limit <= 46
    assert control.reason.startswith("requests wait at the server")


def share_of(case: Case, fixed: int, *, after_step: bool = False) -> float:
    """The replies with adaptive admission, as a share of those with a fixed limit."""

    def value(outcome: Outcome) -> float:
        if not after_step or case.step_at is None:
            return outcome.value
        return outcome.rate(case.step_at + 3 * case.turnover_s, case.step_at + 8 * case.turnover_s)

    seeds = (11, 12)
    ours = sum(value(simulate(case, AdmissionControl(), seed)) for seed in seeds)
    return ours / sum(value(simulate(case, FixedLimit(fixed), seed)) for seed in seeds)


@pytest.mark.parametrize(
    ("case", "best"),
    [
        (queue(32, 2), 40),
        (bucket(20, 1, burst=20, names_wait=False), 21),
        (cliff(64, 1, reads=lambda at: read, what=", metrics"), 63),
        (cliff(64, 1, what=", no metrics"), 62),
        (cliff(64, 1, reads=lambda at: zeros, what=", metrics all zero"), 62),
        (refusing(32, 2, 8, retry_after=1.0), 38),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_few_replies_are_missed(case: Case, best: int) -> None:
    """On a simulated server, the slow start included, at least 88 % of the replies come that the
    best fixed limit gets (`just perf admission` has all servers)."""
    assert share_of(case, best) > 0.88


@pytest.mark.parametrize(
    ("case", "best"),
    [
        (queue(64, 2, then=128), 150),
        (cliff(64, 1, then=128, reads=lambda at: read, what=", metrics"), 126),
        (cliff(96, 1, then=48, reads=frozen, what=", metrics freeze"), 47),
        (bucket(20, 1, burst=20, then=60), 61),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_a_step_is_followed(case: Case, best: int) -> None:
    """Three turnovers after the capacity changed, at least 80 % of the replies come that the best
    limit for the new capacity gets."""
    assert share_of(case, best, after_step=True) > 0.8
