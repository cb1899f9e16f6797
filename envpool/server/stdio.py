"""One world over standard input and output: a JSON-RPC message a line.

The first request decides the era of the connection; messages of the other era are refused from
then on. Requests are answered in their order.
"""

import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from msgspec import UNSET

from envpool.core.errors import PoolError
from envpool.server import jsonrpc as m
from envpool.server.api import NewWorld
from envpool.server.jsonrpc import Era, Fault
from envpool.server.leases import Leases, Refused
from envpool.server.mcp import Calls, Face
from envpool.server.mcp_endpoint import (
    batch,
    check_meta,
    handshake,
    is_modern,
    meta_of,
    unsupported,
)

Write = Callable[[bytes], Awaitable[Any]]


async def serve_stdio(leases: Leases, new: NewWorld) -> None:
    """Serve one world on this process's standard streams until the input ends. Raises PoolError."""
    try:
        lease = await leases.lease(new, "stdio")
    except Refused as exc:
        raise PoolError(str(exc)) from exc
    output = anyio.wrap_file(sys.stdout.buffer)

    async def write(line: bytes) -> None:
        await output.write(line)
        await output.flush()

    await converse(_lines(), write, lease.face, lease.call)
    await leases.release(lease)


async def converse(lines: AsyncIterable[bytes], write: Write, face: Face, call: Calls) -> None:
    """Answer every line, until there are no more."""
    era: Era | None = None  # None: no request has come yet
    async for line in lines:
        if not line.strip():
            continue
        if era != "modern" and line.lstrip()[:1] == b"[":
            _, answered = await batch(face, call, line)
        else:
            era, answered = await _answered(line, era, face, call)
        if answered:
            await write(answered + b"\n")


async def _answered(
    line: bytes, era: Era | None, face: Face, call: Calls
) -> tuple[Era | None, bytes]:
    """The era from here on, and the response to one message; empty where it wants none."""
    try:
        message = m.message_of(line)
    except Fault as fault:
        return era, m.refusal(None, fault)
    if message.id is UNSET or message.method is UNSET:
        return era, b""
    meta = meta_of(message)
    modern = is_modern(message, "", meta)
    era = era or ("modern" if modern else "handshake")
    if era == "handshake" and not modern:
        return era, await handshake(face, call, line)
    try:
        if era == "handshake":
            raise Fault(m.INVALID_REQUEST, "This connection began with a handshake.")
        if message.method == "initialize":
            raise unsupported(m.HANDSHAKE[-1])
        if (version := check_meta(meta)) not in m.MODERN:
            raise unsupported(version)
        return era, m.reply(message.id, await face.answer(message, era, call))
    except Fault as fault:
        return era, m.refusal(message.id, fault)


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input, each read in a thread that nobody waits for at the end."""
    read = partial(anyio.to_thread.run_sync, sys.stdin.buffer.readline, abandon_on_cancel=True)
    while line := await read():
        yield line
