"""Calls a second that a served world answers, against a plain fastmcp server with the same tool.

    python -m benchmarks.served --seconds 5

Each server is a process of its own, on uvicorn with uvloop and httptools, fastmcp in its fastest
configuration (stateless, plain JSON). The client writes the same bytes over and over on 64
connections and looks at lengths only, so that what is measured is the server. Both serve
shop_support's `get_product` on one world over MCP 2026-07-28.
"""

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import anyio
import msgspec
import uvicorn
import uvloop
from fastmcp import FastMCP

from benchmarks.figures import Figure, figure, quiet, tell
from envpool.inprocess.pool import LocalPool
from envpool.inprocess.world import HostedScenario
from envpool.server import jsonrpc as m
from envpool.server.api import NewWorld
from envpool.server.leases import Leases
from envpool.server.serve import serving
from envpool.server.settings import ServeSettings
from scenarios.catalogue import find

SCENARIO, TOOL = "shop_support", "get_product"
ARGUMENTS = {"product_id": 301}
_START_S = 30.0  # within which a server answers its first call
SERVERS = ("rehearse", "fastmcp")


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    connections: int
    seconds: float
    runs: int


def request_of(url: str) -> bytes:
    """The call as it goes over a connection."""
    parts = urlsplit(url)
    meta = {m.VERSION_KEY: m.MODERN[-1], m.CAPABILITIES_KEY: {}}
    params = {"name": TOOL, "arguments": ARGUMENTS, "_meta": meta}
    body = m.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {m.MODERN[-1]}\r\nMcp-Method: tools/call\r\nMcp-Name: {TOOL}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Caller(asyncio.Protocol):
    """One connection that calls again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self.num_answers = 0
        self.first = asyncio.get_running_loop().create_future()  # the first answer, whole
        self._request = request
        self._pending = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Call."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by its type
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Call again, once the answer is whole."""
        data = self._pending + data if self._pending else data
        head = data.find(b"\r\n\r\n")
        place = data.lower().find(b"content-length:", 0, head) if head >= 0 else -1
        if place < 0 or len(data) < head + 4 + int(data[place + 15 : data.find(b"\r\n", place)]):
            self._pending = data
            return
        self._pending = b""
        self.num_answers += 1
        if not self.first.done():
            self.first.set_result(data)
        self._transport.write(self._request)

    def close(self) -> None:
        """Call no more."""
        self._transport.close()


async def calls_per_s(url: str, shape: Shape) -> float:
    """What the server answers, once every connection is warm."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    request = request_of(url)
    callers = []
    for _ in range(shape.connections):
        _, caller = await loop.create_connection(
            lambda: Caller(request), str(parts.hostname), int(parts.port or 80)
        )
        callers.append(caller)
    for caller in callers:
        first = await asyncio.wait_for(caller.first, _START_S)
        if not first.startswith(b"HTTP/1.1 200") or b'"isError":false' not in first:
            raise SystemExit(f"{url} answered {first.decode()}")
    before, began = sum(caller.num_answers for caller in callers), time.perf_counter()
    await asyncio.sleep(shape.seconds)
    answered, took = sum(caller.num_answers for caller in callers), time.perf_counter() - began
    for caller in callers:
        caller.close()
    return (answered - before) / took


@contextlib.contextmanager
def server(name: str) -> Iterator[str]:
    """A server in a process of its own; gives the URL of its MCP endpoint."""
    command = [sys.executable, "-m", "benchmarks.served", "--serve", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            url = process.stdout.readline().decode().strip()
            if not url:
                raise RuntimeError(f"the server {name} did not start")
            yield url
        finally:
            process.stdin.close()


async def serve_rehearse() -> None:
    """A world of ours, until standard input ends."""
    pool = LocalPool()
    settings = ServeSettings(port=0)
    async with Leases(pool, [find(SCENARIO)], settings) as leases, serving(leases) as url:
        lease = await leases.lease(NewWorld(SCENARIO), "benchmark")
        print(f"{url}/worlds/{lease.id}/mcp", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)
    pool.close()


async def serve_fastmcp() -> None:
    """A plain fastmcp server with the same tool, until standard input ends."""
    world = HostedScenario(find(SCENARIO)).lease()
    mcp = FastMCP(SCENARIO)

    @mcp.tool
    async def get_product(product_id: int) -> str:
        """One product with its variants."""
        return world.call(TOOL, {"product_id": product_id}).text

    app = mcp.http_app(stateless_http=True, json_response=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="error", http="httptools", ws="none")
        served = uvicorn.Server(config)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        async with anyio.create_task_group() as group:
            group.start_soon(served.serve, [listener])
            await anyio.to_thread.run_sync(sys.stdin.read)
            served.should_exit = True


def figures(found: dict[str, list[float]]) -> list[Figure]:
    """What was measured: both rates, and how much less of ours a call takes."""
    ratios = [theirs / ours for ours, theirs in zip(*found.values(), strict=True)]
    return [
        *(figure(f"calls over MCP, {name}", "1/s", values) for name, values in found.items()),
        figure("a served call ÷ fastmcp's", "", ratios, reach=1 / 3, aim=1 / 10),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--serve", choices=SERVERS, help="be a server")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    if options.serve:
        uvloop.run(serve_rehearse() if options.serve == "rehearse" else serve_fastmcp())
        return
    shape = Shape(options.connections, options.seconds, options.runs)
    found: dict[str, list[float]] = {name: [] for name in SERVERS}
    for _ in range(shape.runs):
        for name in SERVERS:
            with server(name) as url:
                found[name].append(uvloop.run(calls_per_s(url, shape)))
    tell(figures(found), options.json)


if __name__ == "__main__":
    main()
