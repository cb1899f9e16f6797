"""Run coroutines that never wait, such as calls of the pool in this process, without a loop."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits. AssertionError when it does."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"{work!r} waits")
