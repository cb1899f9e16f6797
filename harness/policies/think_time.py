"""A policy that takes its time, for rehearsing slow models without one."""

from hashlib import blake2b

import anyio

from harness.core.messages import Reply, Window
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
        key = f"think {self._seed} {assignment.seed} {assignment.episode} ".encode()
        return _ThinkingAgent(self._inner.agent(assignment), self._low, self._high, key)


class _ThinkingAgent:
    """Draws by hashing instead of from a `Random`, which would be 2.5 KB an episode."""

    __slots__ = ("_high", "_inner", "_key", "_low", "_num_replies")

    def __init__(self, inner: Agent, low: float, high: float, key: bytes) -> None:
        self._inner = inner
        self._low = low
        self._high = high
        self._key = key
        self._num_replies = 0

    async def reply(self, window: Window) -> Reply:
        await anyio.sleep(self._low + (self._high - self._low) * self._share())
        return await self._inner.reply(window)

    def _share(self) -> float:
        """The next number, uniform in [0, 1)."""
        drawn = blake2b(self._key + b"%d" % self._num_replies, digest_size=6).digest()
        self._num_replies += 1
        return int.from_bytes(drawn) / 2**48
