"""A policy that takes its time, for rehearsing slow models without one."""

from random import Random

import anyio

from harness.messages import Reply, Window
from harness.policies.base import Agent, Assignment, Policy


class ThinkPolicy:
    """Answers as `inner` does, each reply after a wait uniform in [low, high] seconds.

    The waits follow from `seed` and the episode's own seed. `inner` stays its owner's to close.
    Raises ValueError for bounds that are no range.
    """

    def __init__(self, inner: Policy, low: float, high: float, seed: int = 0) -> None:
        if not 0.0 <= low <= high:
            raise ValueError(f"think time from {low} to {high} seconds is no range")
        self._inner = inner
        self._low = low
        self._high = high
        self._seed = seed

    @property
    def name(self) -> str:
        """The inner policy's."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, slowed."""
        rng = Random(f"think {self._seed} {assignment.seed} {assignment.episode}")
        return _ThinkingAgent(self._inner.agent(assignment), self._low, self._high, rng)


class _ThinkingAgent:
    __slots__ = ("_high", "_inner", "_low", "_rng")

    def __init__(self, inner: Agent, low: float, high: float, rng: Random) -> None:
        self._inner = inner
        self._low = low
        self._high = high
        self._rng = rng

    async def reply(self, window: Window) -> Reply:
        await anyio.sleep(self._rng.uniform(self._low, self._high))
        return await self._inner.reply(window)
