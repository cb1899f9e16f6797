"""Importing a library without an optional one that it would import, too."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """Within the block a module counts as not installed, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so Python states that it is missing
    try:
        yield
    finally:
        del sys.modules[name]
