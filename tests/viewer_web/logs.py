"""Logs that are written directly: hostile texts, and 100,000 episodes."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import anyio


def in_thread(function: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Run an asynchronous function in a thread: Playwright has a loop of its own in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, function, *arguments).result()
