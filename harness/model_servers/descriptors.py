"""How many connections this process can have: each takes a file descriptor."""

import resource
from functools import lru_cache

import structlog

_KEPT = 64  # descriptors for the log, libraries, workers and everything else of a run
_log = structlog.get_logger(__name__)


def connections_at_most(wanted: int) -> int:
    """The number of connections that the process may have at once, up to `wanted`; where it is
    lower, one warning names the limit. A run raises its soft limit, so the hard one counts.

    Example: 300 wanted, `ulimit -n 128` -> 64
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or wanted <= hard - _KEPT:
        return wanted
    number = max(hard - _KEPT, hard // 4, 1)
    if number >= wanted:
        return wanted
    _warn(hard, number)
    return number


@lru_cache(8)  # one warning for each number
def _warn(limit: int, number: int) -> None:
    _log.warning(
        "few_file_descriptors",
        limit=limit,
        requests_at_once=number,
        advice=f"raise the limit (ulimit -n), or pass -c {number}",
    )
