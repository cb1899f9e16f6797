"""Adaptive admission of several workers: one limit, divided evenly."""

from collections.abc import Collection
from typing import Any

from rehearsal_room.harness.admission.adaptive import ASKED, REFUSED, REPLIED, AdaptiveAdmission
from rehearsal_room.harness.admission.control import AdmissionControl
from rehearsal_room.harness.fleet.admission import FleetAdmission, RequestLog
from rehearsal_room.harness.fleet.messages import Requests


def fleet(
    num_workers: int, idle: Collection[int] = ()
) -> tuple[FleetAdmission, AdmissionControl, dict[int, int]]:
    """The admission of workers, its control, and the shares that were sent. Those in `idle` want to
    play nothing."""
    control, sent = AdmissionControl(first=16), dict[int, int]()
    adaptive = AdaptiveAdmission(control)
    admission = FleetAdmission(
        adaptive, num_workers, sent.__setitem__, lambda worker: worker not in idle
    )
    return admission, control, sent


def test_the_limit_is_divided_evenly() -> None:
    """The shares add up to the limit and differ by one at most, however it changes."""
    admission, control, sent = fleet(3)
    assert admission.shares == [6, 5, 5]
    storm = [(0.0, kind, 1.0) for _ in range(200) for kind in (ASKED, REFUSED)]
    admission.take(1, Requests(storm, has_free=False))
    assert control.limit < 16
    assert sum(sent.values()) == admission.limit == control.limit
    assert max(sent.values()) - min(sent.values()) <= 1


def test_a_worker_without_episodes_has_no_share() -> None:
    """The others get it: where the limit is below the number of workers, the last episodes would
    else be paused for ever by a worker whose share is 0."""
    idle = {1}
    admission, _, sent = fleet(3, idle)
    assert admission.shares == [8, 0, 8]
    idle |= {0, 1}
    admission.share_out()
    assert (admission.shares, sent) == ([0, 0, 16], {0: 0, 2: 16})
    idle.clear()
    admission.resize(-14)
    assert (admission.shares, sent) == ([1, 1, 0], {0: 1, 1: 1, 2: 0})
    idle |= {0, 1}
    admission.share_out()
    assert admission.shares == [0, 0, 2]


def test_requests_of_a_dead_worker_are_over() -> None:
    """When a worker dies, its requests in flight no longer count, nor do its free slots."""
    admission, control, _ = fleet(2)
    admission.take(0, Requests([(0.1, ASKED, 0.0)] * 5, has_free=True))
    admission.take(1, Requests([(0.1, ASKED, 0.0)] * 3, has_free=False))
    assert (in_flight(control), admission.has_free) == (8, True)
    admission.lose(0)
    assert (in_flight(control), admission.has_free) == (3, False)


def test_requests_are_reported_by_their_age() -> None:
    """A report has each event once, in order, with the seconds since it happened."""
    log = RequestLog()
    assert log.report(has_free=False) is None
    log.asked()
    log.replied(0.5)
    log.asked()
    log.refused(2)
    log.asked()
    log.failed()
    report = log.report(has_free=True)
    assert report is not None
    kinds = [(kind, value) for _, kind, value in report.events]
    assert kinds[:4] == [(ASKED, 0.0), (REPLIED, 0.5), (ASKED, 0.0), (REFUSED, 2)]
    ages = [age for age, _, _ in report.events]
    assert ages == sorted(ages, reverse=True)
    assert min(ages) >= 0
    assert log.report(has_free=True) is None


def in_flight(control: AdmissionControl) -> Any:
    return control._in_flight
