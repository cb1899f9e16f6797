"""When a fault comes: pure decisions, from a seed and what would be hit, or from the time."""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count

from rehearsal_room.harness.chaos.settings import Fault


def draw(seed: int, *key: object) -> float:
    """A number in [0, 1) that follows from the seed and the key alone.

    Example: draw(7, "tools.error", "e000003", 1, "c2-0") -> always the same number
    """
    text = " ".join(map(str, (seed, *key)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64


def times_of(fault: Fault) -> Iterator[float]:
    """The seconds after the start at which a fault comes, in order; empty: it has a share."""
    if fault.every is not None:
        every, most = fault.every, fault.most
        numbers = count(1) if most is None else range(1, most + 1)
        return (number * every for number in numbers)
    return iter(sorted(fault.at))


class Trigger:
    """Decides for one kind of fault what it hits."""

    def __init__(self, name: str, fault: Fault, seed: int, *, lasts: float = 0.0) -> None:
        """`lasts`: seconds for which everything is hit from one of its times on; 0: only what comes
        next."""
        self.name = name
        self._share = fault.share
        self._seed = seed
        self._lasts = lasts
        self._times = times_of(fault)
        self._next = next(self._times, None)  # the next time; None: there is none any more
        self._until = 0.0  # the end of the present window

    def hits(self, now: float, *key: object) -> bool:
        """Whether the fault hits what the key names, `now` seconds after the start."""
        if self._share is not None:
            return draw(self._seed, self.name, *key) < self._share
        is_due = False
        while self._next is not None and self._next <= now:
            is_due, self._until = True, self._next + self._lasts
            self._next = next(self._times, None)
        return is_due or now < self._until
