"""A policy with added latency, to rehearse with slow models without having one."""

from hashlib import blake2b

import anyio

from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy


class LatencyPolicy:
    """Replies as `inner` does, each reply after a wait uniform in [low, high] seconds.

    The waits follow from `seed`, the episode's id and the episode's own seed. The owner of `inner`
    closes it. Raises ValueError where `low` and `high` are not a range.
    """

    def __init__(self, inner: Policy, low: float, high: float, seed: int = 0) -> None:
        if not 0.0 <= low <= high:
            raise ValueError(f"latency from {low} to {high} seconds is not a range")
        self._inner = inner
        self._low = low
        self._high = high
        self._seed = seed

    @property
    def name(self) -> str:
        """The inner policy's name."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, with the latency."""
        key = f"think {self._seed} {assignment.seed} {assignment.episode} ".encode()
        inner, first = self._inner.agent(assignment), len(assignment.kept)
        return _LatencyAgent(inner, self._low, self._high, key, first)


class _LatencyAgent:
    """Draws its waits by hashing: a `Random` would take 2.5 KB per episode."""

    __slots__ = ("_high", "_inner", "_key", "_low", "_num_replies")

    def __init__(self, inner: Agent, low: float, high: float, key: bytes, first: int) -> None:
        self._inner = inner
        self._low = low
        self._high = high
        self._key = key
        self._num_replies = first

    async def reply(self, window: Window) -> Reply:
        await anyio.sleep(self._low + (self._high - self._low) * self._draw())
        return await self._inner.reply(window)

    def _draw(self) -> float:
        """The next random number, uniform in [0, 1)."""
        drawn = blake2b(self._key + b"%d" % self._num_replies, digest_size=6).digest()
        self._num_replies += 1
        return int.from_bytes(drawn) / 2**48
