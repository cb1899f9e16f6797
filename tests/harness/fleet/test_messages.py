"""Messages between coordinator and processes: frames, exceptions, statistics."""

import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.harness.core.errors import LogError, ModelOutageError
from rehearsal_room.harness.fleet.faults import WorkerTraceback, exception_of, failed_of
from rehearsal_room.harness.fleet.messages import (
    FleetFrames,
    FromWorker,
    Heartbeat,
    RecordBatch,
    frame_of,
    from_worker,
)
from rehearsal_room.harness.fleet.session import summed


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
def test_frames_are_found_however_they_are_cut(size: int) -> None:
    """A message arrives whole, and once, whatever pieces the socket gives."""
    sent: list[FromWorker] = [
        RecordBatch(
            1, [("e1", 1, 0, "started", 1.5, b"\x80", None), ("e1", 1, 1, "ended", 2.0, b"", b"s")]
        ),
        Heartbeat(0.5, "tool x"),
        RecordBatch(2, []),
    ]
    data = b"".join(frame_of(one) for one in sent)
    frames = FleetFrames()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [from_worker(one) for piece in pieces for one in frames.feed(piece)] == sent


@pytest.mark.parametrize("exc", [LogError("l"), ModelOutageError("gone"), WorldError("w")])
def test_an_expected_failure_keeps_type_and_message(exc: Exception) -> None:
    """What a command catches by its type is of that type here, too."""
    found = exception_of(failed_of(exc))
    assert (type(found), str(found), found.__cause__) == (type(exc), str(exc), None)


class _Odd(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


@pytest.mark.parametrize(
    ("exc", "kind", "text"),
    [
        (ZeroDivisionError("no"), ZeroDivisionError, "no"),
        (KeyError("k"), RuntimeError, "KeyError: 'k'"),
        (_Odd(1, 2), RuntimeError, "_Odd: 1 and 2"),
    ],
)
def test_a_bug_has_the_traceback_of_its_process(
    exc: Exception, kind: type[Exception], text: str
) -> None:
    """The cause of a bug shows where in the process it occurred."""
    try:
        raise exc
    except Exception as raised:
        found = exception_of(failed_of(raised))
    assert (type(found), str(found)) == (kind, text)
    assert isinstance(found.__cause__, WorkerTraceback)
    assert "test_a_bug_has_the_traceback_of_its_process" in str(found.__cause__)


def test_statistics_are_one_policys() -> None:
    """Counts are added, of latencies the worst is taken, of limits the lowest."""
    parts = [
        {"requests": 3, "latency_max_s": 2.0, "lowest_limit": 4},
        {"requests": 4, "latency_max_s": 1.0, "lowest_limit": 9},
    ]
    assert summed(parts) == {"requests": 7, "latency_max_s": 2.0, "lowest_limit": 4}
    assert summed([]) == {}
