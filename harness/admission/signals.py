"""What an admission control is fed with, besides the times of replies."""

from typing import NamedTuple


class ServerMetrics(NamedTuple):
    """A model server's own metrics at one moment."""

    running: int  # requests that it works on
    waiting: int  # requests in its queue
    cache_used: float | None  # share of the key-value cache, 0 to 1; None: not said
    preemptions: int  # so far, since the server's start
