"""Policies with added latency."""

import anyio
import pytest

from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.latency import LatencyPolicy
from tests.support.assignments import WINDOW, assignment


class Echo:
    """Replies with the last message, at once."""

    name = "echo"

    def agent(self, assignment: Assignment) -> Agent:
        return self

    async def reply(self, window: Window) -> Reply:
        return Reply(window.messages[-1].content)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time in these tests."""
    waits: list[float] = []

    async def nap(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(anyio, "sleep", nap)
    return waits


async def waits(naps: list[float], *, seed: int = 0, episode: str = "e1") -> list[float]:
    naps.clear()
    agent = LatencyPolicy(Echo(), 1.0, 5.0, seed).agent(assignment(seed=7, episode=episode))
    for _ in range(200):
        assert await agent.reply(WINDOW) == Reply(WINDOW.messages[-1].content)
    return list(naps)


async def test_every_reply_has_a_latency(naps: list[float]) -> None:
    """The waits fill the range and never leave it."""
    seconds = await waits(naps)
    assert len(seconds) == 200
    assert 1.0 <= min(seconds) < 1.3
    assert 4.7 < max(seconds) <= 5.0
    assert 2.6 < sum(seconds) / 200 < 3.4


async def test_waits_follow_from_the_seed(naps: list[float]) -> None:
    """A second run has the same waits; another seed or episode has others."""
    first = await waits(naps)
    assert await waits(naps) == first
    assert await waits(naps, seed=1) != first
    assert await waits(naps, episode="e2") != first


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0)])
def test_an_invalid_range_is_refused(low: float, high: float) -> None:
    """Bounds must be ordered and not negative."""
    with pytest.raises(ValueError, match="is not a range"):
        LatencyPolicy(Echo(), low, high)
