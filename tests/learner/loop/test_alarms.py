"""Which metrics mean that a run collapses. The series are made up; no model was trained."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from rehearsal_room.learner.loop.alarms import CollapseAlarm
from rehearsal_room.learner.loop.metrics import MetricValue


def signs(series: list[dict[str, MetricValue]]) -> list[tuple[int, str]]:
    """The batch and sign of each warning."""
    alarm = CollapseAlarm()
    with capture_logs() as logs:
        for batch, values in enumerate(series, start=1):
            alarm.watch(batch, values)
    assert {one["event"] for one in logs} <= {"collapse_suspected"}
    return [(one["batch"], one["sign"]) for one in logs]


def groups(equal: int, trained: int) -> dict[str, MetricValue]:
    return {"dropped/equal": equal, "groups": trained, "groups_dropped": equal}


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([{"entropy": 2.0}] * 20, []),
        ([{"entropy": 2.0}] * 5 + [{"entropy": 0.1}] * 5, [(8, "entropy")]),  # once
        (  # single ones
            [{"entropy": 2.0}] * 5 + [{"entropy": 0.1}, {"entropy": 1.0}, {"entropy": 1.0}] * 3,
            [],
        ),
        ([{"entropy": 2.0 - 0.09 * n} for n in range(20)], []),  # it falls, and is not gone
        ([{"entropy": None}, {}] * 10, []),
        ([{"control_tokens": 0.0}] * 5 + [{"control_tokens": 0.2}] * 3, [(8, "control")]),
        ([{"control_tokens": 0.0}] * 5 + [{"control_tokens": 0.005}] * 3, []),
        ([{"control_tokens": 0.3}] * 20, []),  # it always did
        ([groups(8, 0)] * 12, [(10, "equal groups")]),
        ([groups(6, 2)] * 12, []),
        ([groups(8, 0)] * 9, []),
    ],
)
def test_signs(series: list[dict[str, Any]], expected: list[tuple[int, str]]) -> None:
    """Each once, from the median of three batches on."""
    assert signs(series) == expected
