"""On which event loop worlds go over HTTP: asyncio's, since uvicorn and aiohttp know no other."""

import asyncio

from envpool.core.errors import PoolError


def need_asyncio() -> None:
    """Raise PoolError where another event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise PoolError("worlds go over HTTP on asyncio only, and another loop runs") from None
