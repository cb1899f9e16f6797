"""When a model server counts as gone."""

from rehearsal_room.harness.model_servers.outage import OutageDetector


def test_failures_in_a_row_are_an_outage() -> None:
    """So many failures in a row are an outage, and a response begins a new row."""
    detector = OutageDetector(3)
    assert [detector.failed(now) for now in (1.0, 2.0)] == [False, False]
    detector.answered()
    assert [detector.failed(now) for now in (3.0, 4.0, 5.0)] == [False, False, True]


def test_the_failures_of_one_moment_count_once() -> None:
    """A server that restarts cuts a thousand connections; its short outage stops no run."""
    detector = OutageDetector(20)
    assert not any(detector.failed(index * 0.009) for index in range(1000))
    assert detector.num_failures == 18


def test_without_a_limit_nothing_is_an_outage() -> None:
    """None means that the run never stops."""
    detector = OutageDetector(None)
    assert not any(detector.failed(float(index)) for index in range(1000))
