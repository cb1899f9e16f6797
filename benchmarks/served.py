"""Compare the calls per second of a served world with those of a plain fastmcp server.

    python -m benchmarks.served --seconds 5

Each server is a separate process, on uvicorn with uvloop and httptools, fastmcp in its fastest
configuration (stateless, plain JSON). The client writes the same bytes again and again on 64
connections and reads lengths only, so that the server is measured. Both serve shop_support's
`get_product` on one world over MCP 2026-07-28.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

import anyio
import click
import msgspec
import uvicorn
import uvloop
from fastmcp import FastMCP

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.server import jsonrpc as m
from rehearsal_room.envpool.server.api import NewWorld
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.catalogue import find

SCENARIO, TOOL = "shop_support", "get_product"
ARGUMENTS = {"product_id": 301}
_START_S = 30.0  # within which a server answers its first call
SERVERS = ("rehearse", "fastmcp")


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    connections: int
    seconds: float
    runs: int


def request_of(url: str) -> bytes:
    """The bytes of the call's HTTP request."""
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
    """One connection that calls again as soon as the answer has arrived."""

    def __init__(self, request: bytes) -> None:
        self.num_answers = 0
        self.first = asyncio.get_running_loop().create_future()  # the first complete answer
        self._request = request
        self._pending = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make the first call."""
        # uvloop's transport is not an instance of it
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Call again once the answer is complete."""
        data = self._pending + data if self._pending else data
        head = data.find(b"\r\n\r\n")
        start = data.lower().find(b"content-length:", 0, head) if head >= 0 else -1
        if start < 0 or len(data) < head + 4 + int(data[start + 15 : data.find(b"\r\n", start)]):
            self._pending = data
            return
        self._pending = b""
        self.num_answers += 1
        if not self.first.done():
            self.first.set_result(data)
        self._transport.write(self._request)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


async def calls_per_s(url: str, load: Workload) -> float:
    """Calls per second that the server answers once every connection is warm."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    request = request_of(url)
    callers = []
    for _ in range(load.connections):
        _, caller = await loop.create_connection(
            lambda: Caller(request), str(parts.hostname), int(parts.port or 80)
        )
        callers.append(caller)
    for caller in callers:
        first = await asyncio.wait_for(caller.first, _START_S)
        if not first.startswith(b"HTTP/1.1 200") or b'"isError":false' not in first:
            raise SystemExit(f"{url} answered {first.decode()}")
    before, began = sum(caller.num_answers for caller in callers), time.perf_counter()
    await asyncio.sleep(load.seconds)
    answered, took = sum(caller.num_answers for caller in callers), time.perf_counter() - began
    for caller in callers:
        caller.close()
    return (answered - before) / took


@contextlib.contextmanager
def server(name: str) -> Iterator[str]:
    """Run a server in a separate process; yield the URL of its MCP endpoint."""
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
    """Serve a bundled world until standard input ends."""
    pool = LocalPool()
    settings = WorldServerSettings(port=0)
    async with Leases(pool, [find(SCENARIO)], settings) as leases, serving(leases) as url:
        lease = await leases.lease(NewWorld(SCENARIO), "benchmark")
        print(f"{url}/worlds/{lease.id}/mcp", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)
    pool.close()


async def serve_fastmcp() -> None:
    """Run a plain fastmcp server with the same tool until standard input ends."""
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
    """Both rates, and the time of a call on our server divided by that on fastmcp's."""
    ratios = [fastmcp / served for served, fastmcp in zip(*found.values(), strict=True)]
    return [
        *(figure(f"calls over MCP, {name}", "1/s", values) for name, values in found.items()),
        figure("a served call ÷ fastmcp's", "", ratios, reach=1 / 3, aim=1 / 10),
    ]


@benchmark(__doc__)
@count_option("--connections", 64, "Connections of the client.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    help="Duration of each measurement.",
)
@runs_option(3)
@click.option("--serve", type=click.Choice(SERVERS), hidden=True, help="Run as this server.")
def main(connections: int, seconds: float, runs: int, serve: str | None) -> list[Figure] | None:
    """The command line."""
    if serve is not None:
        uvloop.run(serve_rehearse() if serve == "rehearse" else serve_fastmcp())
        return None
    load = Workload(connections, seconds, runs)
    found: dict[str, list[float]] = {name: [] for name in SERVERS}
    for _ in range(load.runs):
        for name in SERVERS:
            with server(name) as url:
                found[name].append(uvloop.run(calls_per_s(url, load)))
    return figures(found)


if __name__ == "__main__":
    main()
