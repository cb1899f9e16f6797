"""A limit on open files lowers the number of connections, with one warning."""

import resource

import pytest
from structlog.testing import capture_logs

from rehearsal_room.harness.model_servers import descriptors


@pytest.mark.parametrize(
    ("hard", "wanted", "number"),
    [
        (128, 300, 64),
        (128, 64, 64),
        (65_536, 1024, 1024),
        (1024, 1024, 960),
        (40, 300, 10),
        (40, 8, 8),
        (2, 300, 1),
        (resource.RLIM_INFINITY, 10**6, 10**6),
    ],
)
def test_connections(hard: int, wanted: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some descriptors stay free for everything else; what fits is not lowered."""
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda which: (16, hard))
    descriptors._warn.cache_clear()
    with capture_logs() as logs:
        assert [descriptors.connections_at_most(wanted) for _ in range(2)] == [number] * 2
    assert [log["limit"] for log in logs] == ([hard] if number < wanted else [])
