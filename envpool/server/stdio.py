"""One world over standard input and output: one JSON-RPC message a line.

The first request determines the era of the connection; later messages of the other era are refused.
Requests are answered in their order.
"""

import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from msgspec import UNSET

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.jsonrpc import Era, RpcError
from rehearsal_room.envpool.server.leases import LeaseRefused, Leases
from rehearsal_room.envpool.server.mcp_endpoint import (
    answer_handshake_era,
    batch,
    check_meta,
    is_modern,
    meta_of,
    unsupported,
)
from rehearsal_room.envpool.server.mcp_methods import ExecuteCall, McpMethods

WriteBytes = Callable[[bytes], Awaitable[Any]]


async def serve_stdio(leases: Leases, new: NewWorld) -> None:
    """Serve one world on the standard streams until the input ends. Raises PoolError."""
    try:
        lease = await leases.lease(new, "stdio")
    except LeaseRefused as exc:
        raise PoolError(str(exc)) from exc
    output = anyio.wrap_file(sys.stdout.buffer)

    async def write(line: bytes) -> None:
        await output.write(line)
        await output.flush()

    await converse(_lines(), write, lease.mcp, lease.call)
    await leases.release(lease)


async def converse(
    lines: AsyncIterable[bytes], write: WriteBytes, mcp: McpMethods, execute: ExecuteCall
) -> None:
    """Answer every line until the input ends."""
    era: Era | None = None  # None: no request has come yet
    async for line in lines:
        if not line.strip():
            continue
        if era != "modern" and line.lstrip()[:1] == b"[":
            _, answer = await batch(mcp, execute, line)
        else:
            era, answer = await _answer(line, era, mcp, execute)
        if answer:
            await write(answer + b"\n")


async def _answer(
    line: bytes, era: Era | None, mcp: McpMethods, execute: ExecuteCall
) -> tuple[Era | None, bytes]:
    """The era from now on, and the response to one message; empty for a notification."""
    try:
        message = m.parse_message(line)
    except RpcError as error:
        return era, m.error_response(None, error)
    if message.id is UNSET or message.method is UNSET:
        return era, b""
    meta = meta_of(message)
    modern = is_modern(message, "", meta)
    era = era or ("modern" if modern else "handshake")
    if era == "handshake" and not modern:
        return era, await answer_handshake_era(mcp, execute, line)
    try:
        if era == "handshake":
            raise RpcError(m.INVALID_REQUEST, "This connection began with a handshake.")
        if message.method == "initialize":
            raise unsupported(m.HANDSHAKE[-1])
        if (version := check_meta(meta)) not in m.MODERN:
            raise unsupported(version)
        return era, m.result_response(message.id, await mcp.answer(message, era, execute))
    except RpcError as error:
        return era, m.error_response(message.id, error)


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, each read in a thread that is abandoned at the end."""
    read = partial(anyio.to_thread.run_sync, sys.stdin.buffer.readline, abandon_on_cancel=True)
    while line := await read():
        yield line
