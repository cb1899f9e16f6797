"""functools.lru_cache for hosted code, with readable contents.

A cache is module state: what one world has cached must not be visible to another, and must be there
again in the world's next call. The real cache hides its entries in C.
"""

import functools
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any, NamedTuple


class CacheInfo(NamedTuple):
    """Statistics of a cache, as in functools."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int


class Cached:
    """A function with a cache of its most recently used results, as of functools.lru_cache."""

    def __init__(self, function: Callable[..., Any], maxsize: int | None, typed: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._maxsize = maxsize
        self._typed = typed
        self.entries: dict[Hashable, Any] = {}  # in order of use, the least recent first
        self.counts = [0, 0]  # hits, misses

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key: Any = (args, tuple(kwargs.items()))
        if self._typed:
            key += tuple(map(type, args)), tuple(map(type, kwargs.values()))
        elif len(args) == 1 and not kwargs and type(args[0]) in (int, str):
            key = args[0]  # as in functools: 1 and 1.0 are two keys
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
        """Remove all entries and reset the counts."""
        self.entries.clear()
        self.counts[:] = 0, 0

    def cache_parameters(self) -> dict[str, Any]:
        """The arguments of the decorator."""
        return {"maxsize": self._maxsize, "typed": self._typed}


def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
    """Like functools.lru_cache: a decorator, or the cached function when called with a function."""
    if callable(maxsize) and isinstance(typed, bool):
        return Cached(maxsize, 128, typed)
    if maxsize is not None and not isinstance(maxsize, int):
        raise TypeError("Expected first argument to be an integer, a callable, or None")
    bound = None if maxsize is None else max(0, maxsize)
    return lambda function: Cached(function, bound, typed)
