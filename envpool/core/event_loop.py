"""The event loop for worlds over HTTP: asyncio, since uvicorn and aiohttp support no other."""

import asyncio

from rehearsal_room.envpool.core.errors import PoolError


def require_asyncio() -> None:
    """Raise PoolError on another event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise PoolError("worlds over HTTP need asyncio, but another event loop runs") from None
