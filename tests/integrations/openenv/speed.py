"""Run with the Python that has `openenv`: speed.py URL

Steps a second of a bundled world on our server, and of a trivial environment on OpenEnv's own
server, by turns, with the same bare WebSocket client. The figures are printed, and nothing hangs on
them: machines are noisy.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from websockets.asyncio.client import connect

STEPS = {1: 600, 32: 60}  # concurrency: steps of each connection
ROUNDS = 3
OURS = {"type": "call_tool", "tool_name": "get_order", "arguments": {"order_id": 4101}}
THEIRS = {"value": 1}


@contextmanager
def official() -> Iterator[str]:
    """OpenEnv's server with a trivial environment."""
    program = str(Path(__file__).with_name("official_server.py"))
    with subprocess.Popen([sys.executable, program, "trivial"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


async def steps_per_second(url: str, action: dict[str, object], concurrency: int) -> float:
    """The steps a second of so many connections together."""
    message = json.dumps({"type": "step", "data": action})
    reset = json.dumps({"type": "reset", "data": {}})
    number = STEPS[concurrency]
    ready = asyncio.Barrier(concurrency)
    address = url.replace("http://", "ws://") + "/ws"
    began: list[float] = []

    async def play() -> None:
        async with connect(address, compression=None) as socket:
            await socket.send(reset)
            await socket.recv()
            await ready.wait()
            began.append(time.perf_counter())
            for _ in range(number):
                await socket.send(message)
                answer = await socket.recv()
            assert '"observation"' in answer, answer

    await asyncio.gather(*(play() for _ in range(concurrency)))
    return number * concurrency / (time.perf_counter() - min(began))


async def main(url: str) -> None:
    with official() as other:
        for concurrency in STEPS:
            found: dict[str, list[float]] = {"ours": [], "official": []}
            for _ in range(ROUNDS):
                found["ours"].append(await steps_per_second(url, OURS, concurrency))
                found["official"].append(await steps_per_second(other, THEIRS, concurrency))
            ours, theirs = (statistics.median(found[name]) for name in ("ours", "official"))
            sys.stdout.write(
                f"steps a second at concurrency {concurrency}: a bundled world {ours:,.0f}, "
                f"the official server's trivial environment {theirs:,.0f}\n"
            )


asyncio.run(main(sys.argv[1]))
