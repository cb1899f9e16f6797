"""Measure what the URL of an episode's model adds to a request of an agent of the user's own.

    python -m benchmarks.agent_gateway --requests 40 --at-once 64

Model server, agents and run are processes of their own; the agents' process has all agents of the
run as one endpoint. Each agent asks its model so often, one request after the other; for
comparison the same client asks the model server itself. With `--grows-by 2000` each request has the
whole conversation, with so many tokens (of 4 bytes) more than the one before.

The agents begin one after the other, within the time that a reply takes. Those that begin together
stay in step, and then wait for each other's processes on the same processors, not for the URL. The
figures:

    adds_p50   ms, how much later half of the replies come through the URL, `--latency` s of model
    cpu        ms of the run's process for each request: URL, policy, client and log together
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import aiohttp
import anyio
import click
from aiohttp import web

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option

_MODEL = (sys.executable, "-m", "benchmarks.model_server", "--calls", "0", "--latency")
_MESSAGE = b'{"role": "user", "content": "%b"}' % (b"How many orders are late? " * 40)
_REPLY = b'{"role": "assistant", "content": "Done."}'
_HEADERS = {"Content-Type": "application/json"}


@contextmanager
def child(*command: str) -> Iterator[str]:
    """A process that prints its URL in its first line and ends with its standard input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


async def ask(
    session: aiohttp.ClientSession, url: str, number: int, grows_by: int, after: float
) -> list[float]:
    """Ask a model so often, one request after the other; `after` seconds pass before the first. The
    seconds of each."""
    took, messages = [], _MESSAGE
    await anyio.sleep(after)
    for turn in range(number):
        body = b'{"model": "instant", "messages": [%b]}' % messages
        began = time.perf_counter()
        async with session.post(f"{url}/chat/completions", data=body, headers=_HEADERS) as answer:
            await answer.read()
        took.append(time.perf_counter() - began)
        if grows_by:
            text = b"%d orders. " % turn + b"late" * grows_by
            messages += b', %b, {"role": "user", "content": "%b"}' % (_REPLY, text)
    return took


async def serve_agents(number: int, grows_by: int, apart: float, file: Path) -> None:
    """Be the endpoint of all agents: each asks its model, `apart` seconds after the one before, and
    says that it is done."""
    took: list[float] = []
    begun = count()

    async def answer(request: web.Request) -> web.Response:
        about = (await request.json())["metadata"]
        url, after = about["rehearse_model_url"], next(begun) * apart
        took.extend(await ask(session, url, number, grows_by, after))
        return web.json_response({"choices": [{"message": {"content": "done"}}]})

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        app = web.Application()
        app.router.add_post("/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        click.echo(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await anyio.to_thread.run_sync(sys.stdin.read)
    await anyio.to_thread.run_sync(file.write_text, json.dumps(took))


async def direct(url: str, number: int, grows_by: int, apart: float, at_once: int) -> list[float]:
    """The same requests to the model server itself."""
    took: list[float] = []

    async def agent(session: aiohttp.ClientSession, after: float) -> None:
        took.extend(await ask(session, url, number, grows_by, after))

    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        anyio.create_task_group() as tasks,
    ):
        for index in range(at_once):
            tasks.start_soon(agent, session, index * apart)
    return took


def run_cpu(model: str, agents: str, at_once: int) -> float:
    """CPU seconds of a run of so many agents at once."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("run", "shop_support", "--agent", agents, "-m", "instant", "--base-url", model)
        more = ("-n", str(at_once), "-c", str(at_once), "-o", f"{folder}/run", "--judge", "none")
        before = os.times()
        command = (sys.executable, "-m", "rehearsal_room", *words, *more)
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
    spent = after.children_user - before.children_user
    return spent + after.children_system - before.children_system


@benchmark(__doc__)
@count_option("--requests", 40, "Requests of each agent.", least=2)
@count_option("--at-once", 64, "Agents at once.")
@count_option("--grows-by", 0, "Tokens that each request has more than the one before.", least=0)
@click.option("--latency", default=0.2, help="Seconds that the model server takes.")
@runs_option(3)
def main(requests: int, at_once: int, grows_by: int, latency: float, runs: int) -> list[Figure]:
    """Measure, and return the figures."""
    adds, cpus, apart = [], [], latency / at_once
    with child(*_MODEL, str(latency)) as model:
        for _ in range(runs):
            cpu = {}
            for number in (1, requests):
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "took.json"
                    itself = (
                        sys.executable,
                        "-m",
                        __spec__.name,
                        "--serve",
                        number,
                        grows_by,
                        apart,
                        file,
                    )
                    with child(*map(str, itself)) as agents:
                        cpu[number] = run_cpu(model, agents, at_once)
                    took = json.loads(file.read_text())
            plain = anyio.run(direct, model, requests, grows_by, apart, at_once)
            adds.append(1000 * (median(took) - median(plain)))
            cpus.append(1000 * (cpu[requests] - cpu[1]) / (at_once * (requests - 1)))
    return [figure("agent_gateway.adds_p50", "ms", adds), figure("agent_gateway.cpu", "ms", cpus)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        number, grows_by, apart, file = sys.argv[2:]
        anyio.run(serve_agents, int(number), int(grows_by), float(apart), Path(file))
    else:
        main()
