"""How many replies come per second, and how sure that is."""

import math
from typing import NamedTuple


class Rate(NamedTuple):
    """So many replies in so many seconds."""

    replies: float
    seconds: float

    @property
    def per_s(self) -> float:
        """Replies per second."""
        return self.replies / self.seconds

    def expected_by(self, known: "Rate") -> float:
        """The replies that would have come in the same time at a known rate."""
        return known.per_s * self.seconds

    def change(self, known: "Rate") -> float:
        """By how much it is above a known rate, as a share of that."""
        return self.per_s / known.per_s - 1.0

    def error(self, known: "Rate") -> float:
        """The standard error of `change`, if both rates are the same: replies that come by chance
        (Poisson) vary by the root of their number."""
        return math.sqrt(1.0 / max(1.0, self.expected_by(known)) + 1.0 / max(1.0, known.replies))

    def joined(self, later: "Rate", *, most: float) -> "Rate":
        """Both together; of this one, `most` replies count."""
        kept = min(1.0, most / self.replies)
        return Rate(kept * self.replies + later.replies, kept * self.seconds + later.seconds)


class ThroughputWindow:
    """The replies and refusals since a moment at which a reply came."""

    __slots__ = ("_began", "refused", "repeated", "replies")

    def __init__(self, now: float) -> None:
        self._began = now
        self.replies = 0
        self.refused = 0
        self.repeated = 0  # refusals of requests that had been refused several times

    def rate(self, now: float) -> Rate:
        """The rate up to now, the moment of a reply."""
        return Rate(self.replies, max(1e-9, now - self._began))

    @property
    def refused_share(self) -> float:
        """The share of the requests that was refused."""
        return self.refused / max(1, self.refused + self.replies)
