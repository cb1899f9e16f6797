from pathlib import Path

import anyio
import pytest

from harness.core.messages import Briefing, Message, Reply, Window
from harness.policies.base import Agent, Assignment
from harness.policies.latency import LatencyPolicy
from scenarios.api import User
from scenarios.format import Scenario, Task

WINDOW = Window((Message("user", "Hello"),))
TASK = Task("t", "Do it.", "simple", "change", "Done.")
SCENARIO = Scenario(
    "s", "S", "1", "A world.", "2026-01-01T00:00:00Z", User("u", "U", "clerk"), "", "", "",
    (TASK,), Path("s"), "0" * 32,
)  # fmt: skip


class Echo:
    """Answers with what it is shown, at once."""

    name = "echo"

    def agent(self, assignment: Assignment) -> Agent:
        return self

    async def reply(self, window: Window) -> Reply:
        return Reply(window.messages[-1].content)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time here."""
    taken: list[float] = []

    async def nap(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr(anyio, "sleep", nap)
    return taken


async def waits(naps: list[float], *, seed: int = 0, episode: str = "e1") -> list[float]:
    naps.clear()
    agent = LatencyPolicy(Echo(), 1.0, 5.0, seed).agent(
        Assignment(episode, SCENARIO, TASK, 7, Briefing("", "", (), "", ""))
    )
    for _ in range(200):
        assert await agent.reply(WINDOW) == Reply("Hello")
    return list(naps)


async def test_every_reply_takes_its_time(naps: list[float]) -> None:
    """The waits fill the range and never leave it."""
    taken = await waits(naps)
    assert len(taken) == 200
    assert 1.0 <= min(taken) < 1.3
    assert 4.7 < max(taken) <= 5.0
    assert 2.6 < sum(taken) / 200 < 3.4


async def test_waits_follow_from_the_seed(naps: list[float]) -> None:
    """A second run waits alike; another seed or episode does not."""
    first = await waits(naps)
    assert await waits(naps) == first
    assert await waits(naps, seed=1) != first
    assert await waits(naps, episode="e2") != first


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0)])
def test_a_range_that_is_none_is_refused(low: float, high: float) -> None:
    """Bounds must be ordered and not negative."""
    with pytest.raises(ValueError, match="is not a range"):
        LatencyPolicy(Echo(), low, high)
