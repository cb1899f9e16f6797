"""functools.lru_cache for hosted code, with contents that can be looked into.

A cache is state of the module: what one world has cached must not be seen by another, and must be
there again when the world goes on. The real one hides its entries in C.
"""

import functools
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any, NamedTuple


class CacheInfo(NamedTuple):
    """As functools tells it."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int


class Cached:
    """A function with its least recently used results, as functools.lru_cache makes it."""

    def __init__(self, function: Callable[..., Any], maxsize: int | None, typed: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._maxsize = maxsize
        self._typed = typed
        self.entries: dict[Hashable, Any] = {}  # the least recently used comes first
        self.counts = [0, 0]  # hits, misses

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key: Any = (args, tuple(kwargs.items()))
        if self._typed:
            key += tuple(map(type, args)), tuple(map(type, kwargs.values()))
        elif len(args) == 1 and not kwargs and type(args[0]) in (int, str):
            key = args[0]  # as there: 1 and 1.0 are two keys
        entries = self.entries
        if key in entries:
            self.counts[0] += 1
            entries[key] = value = entries.pop(key)
            return value
        self.counts[1] += 1
        value = self.function(*args, **kwargs)
        if self._maxsize != 0:
            entries[key] = value
            if self._maxsize is not None and len(entries) > self._maxsize:
                del entries[next(iter(entries))]
        return value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def cache_info(self) -> CacheInfo:
        """Hits, misses, the bound and the number of entries."""
        hits, misses = self.counts
        return CacheInfo(hits, misses, self._maxsize, len(self.entries))

    def cache_clear(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self.counts[:] = 0, 0

    def cache_parameters(self) -> dict[str, Any]:
        """What it was made with."""
        return {"maxsize": self._maxsize, "typed": self._typed}


def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
    """As functools.lru_cache: a decorator, or a function's cached form when given one."""
    if callable(maxsize) and isinstance(typed, bool):
        return Cached(maxsize, 128, typed)
    if maxsize is not None and not isinstance(maxsize, int):
        raise TypeError("Expected first argument to be an integer, a callable, or None")
    bound = None if maxsize is None else max(0, maxsize)
    return lambda function: Cached(function, bound, typed)
