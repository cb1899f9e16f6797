"""How many requests may be in flight, from the outcomes of earlier ones: pure decisions.

A server that refuses some requests (429, 503) at any load has no use for fewer of them, one that is
overloaded has. So the limit falls only where more than every tenth request is refused: each refusal
takes a token from a bucket, each answer gives a tenth back (gRPC's retry throttling, gRFC A6), and
an empty bucket cuts the limit to 0.7 of it (CUBIC's factor, RFC 9438). A refusal comes sooner than
an answer, so the bucket holds what a tenth of all requests in flight may be by chance: its mean and
two standard deviations. Requests that were sent before a cut do not cause a second one. The limit
rises again with each answer, by a sixteenth in the time in which all requests in flight are
answered once.

Nothing waits here: `ChatClient` asks `is_full` and wakes its waiting requests.
"""

import math

_ANSWERS_PER_TOKEN = 10.0
_SMALLEST_BUCKET = 4.0  # tokens; for limits below 15
_DEVIATIONS = 2.0
_CUT = 0.7
_ROUNDS_TO_DOUBLE = 16.0


class InFlightLimit:
    """The limit of one endpoint, between 1 and `most`; it begins at `most`.

    Example: most 100; of 100 requests 30 are refused -> 70; of the next 70 none -> about 74
    """

    __slots__ = ("_limit", "_tokens", "generation", "lowest", "most", "num_in_flight")

    def __init__(self, most: int) -> None:
        self.most = most
        self.num_in_flight = 0
        self.generation = 0  # number of cuts so far; a request remembers it from `begin`
        self.lowest = most  # the lowest limit so far
        self._limit = float(most)
        self._tokens = self._bucket

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return int(self._limit)

    @property
    def is_full(self) -> bool:
        """Whether a further request must wait."""
        return self.num_in_flight >= int(self._limit)

    def begin(self) -> int:
        """Count a request as in flight; return the generation for `refused`."""
        self.num_in_flight += 1
        return self.generation

    def end(self) -> None:
        """Count a request as over, whatever its outcome."""
        self.num_in_flight -= 1

    def answered(self) -> None:
        """The server has answered a request."""
        bucket = self._bucket
        if self._tokens < bucket:
            self._tokens = min(bucket, self._tokens + 1.0 / _ANSWERS_PER_TOKEN)
        if self._limit < self.most:
            step = max(1.0 / self._limit, 1.0 / _ROUNDS_TO_DOUBLE)
            self._limit = min(float(self.most), self._limit + step)

    def refused(self, generation: int) -> bool:
        """The server has refused a request of this generation because of its load; return whether
        that lowers the limit."""
        if generation != self.generation:
            return False
        self._tokens -= 1.0
        if self._tokens > 0.0:
            return False
        self.generation += 1
        self._limit = max(1.0, self._limit * _CUT)
        self._tokens = self._bucket
        self.lowest = min(self.lowest, int(self._limit))
        return True

    @property
    def _bucket(self) -> float:
        """Tokens of a full bucket: the refusals that one round of requests may have."""
        expected = self._limit / _ANSWERS_PER_TOKEN
        return max(_SMALLEST_BUCKET, expected + _DEVIATIONS * math.sqrt(expected))
