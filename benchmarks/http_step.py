"""CPU of a step against an instant model server over HTTP, and of its parts.

    python -m benchmarks.http_step --episodes 2048 --concurrency 1024

The server is a process of its own and is not counted. Every episode of shop_support makes ten
reading calls and answers: eleven replies. Printed is CPU in ms for each reply, the median of
several runs, which measure all of these in turns:

    aiohttp   the same request bodies sent with a bare aiohttp session, answers read and dropped
    policy    harness.policies.openai alone: windows to bodies, answers to replies
    package   the same through the openai package (only with --package: it takes long)
    rehearse  the whole harness, `rehearse bench`, with worlds, windows, log, bus and code judge
"""

import argparse
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import uvloop

from benchmarks.figures import Figure, figure, tell
from benchmarks.model_server import Oracle, Part, PlayedCall
from envpool.inprocess.world import HostedScenario
from harness.chat.retry import Failure
from harness.chat.wire import RequestWriter, read_completion
from harness.core.events import StepTaken
from harness.core.messages import Act, Briefing, Window
from harness.dialects.native import Native
from harness.history.last_turns import Full
from harness.history.windows import HistoryFold
from harness.policies.base import Assignment
from harness.policies.openai import OpenAIPolicy, OpenAISettings
from scenarios.catalogue import find
from scenarios.format import Scenario, Task

SCENARIO = "shop_support"
NUM_CALLS = 10
_READING = ("get_", "list_", "search_", "find_", "check_", "track_")


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int
    concurrency: int
    runs: int


def script_of(scenario: Scenario) -> list[Part]:
    """For each task that has reading calls in its oracle: these, over and over, then its answer."""
    parts = []
    for task in scenario.tasks:
        reads = [call for call in task.oracle if call.name.startswith(_READING)]
        if reads:
            played = [PlayedCall(c.name, c.arguments) for c in islice(cycle(reads), NUM_CALLS)]
            parts.append(Part(task.instruction, tuple(played), task.answer))
    parts.append(Part())  # tasks without: answered at once
    return parts


def windows_of_episode(scenario: Scenario, task: Task, oracle: Oracle) -> list[Window]:
    """What the model is shown in one episode, turn by turn."""
    world = HostedScenario(scenario)
    lease = world.lease()
    dialect = Native()
    briefing = Briefing(task.instruction, scenario.rules, world.tools, "agent", scenario.clock)
    fold = HistoryFold(Full(), dialect, briefing)
    writer = RequestWriter({"model": "instant"})
    windows = []
    while True:
        windows.append(fold.window())
        reply = read_completion(oracle.answer(writer.body(windows[-1])))
        assert not isinstance(reply, Failure)
        decision = dialect.read(reply, turn=len(windows) - 1)
        if not isinstance(decision, Act):
            world.close()
            return windows
        results = tuple(lease.call(call.name, call.arguments, call.id) for call in decision.calls)
        fold.apply(StepTaken(reply, decision, results))


async def cpu_of(episode: Callable[[], Coroutine[Any, Any, None]], shape: Shape) -> float:
    """CPU seconds of so many episodes, so many at once, once as many as run at once are through
    and have their connections."""
    left = iter(range(shape.episodes))

    async def worker() -> None:
        for _ in left:
            await episode()

    async with anyio.create_task_group() as group:
        for _ in range(shape.concurrency):
            group.start_soon(episode)
    began = time.process_time()
    async with anyio.create_task_group() as group:
        for _ in range(shape.concurrency):
            group.start_soon(worker)
    return time.process_time() - began


async def aiohttp_cpu(url: str, windows: list[Window], shape: Shape) -> float:
    """The floor: bodies that are there already, answers that nobody decodes."""
    writer = RequestWriter({"model": "instant"})
    bodies = [writer.body(window) for window in windows]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"Content-Type": "application/json"},
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:

        async def episode() -> None:
            for body in bodies:
                async with session.post(url + "/chat/completions", data=body) as response:
                    await response.read()

        return await cpu_of(episode, shape)


async def policy_cpu(
    url: str, windows: list[Window], shape: Shape, settings: OpenAISettings, assignment: Assignment
) -> float:
    """The policy, asked as the episode loop asks it."""
    async with OpenAIPolicy(settings) as policy:

        async def episode() -> None:
            agent = policy.agent(assignment)
            for window in windows:
                await agent.reply(window)

        return await cpu_of(episode, shape)


def rehearse_cpu(url: str, shape: Shape) -> tuple[float, int]:
    """CPU seconds and steps of `rehearse bench`."""
    command = [
        *(sys.executable, "-m", "harness.cli", "bench", SCENARIO, "-p", "openai", "-m", "instant"),
        *("--base-url", url, "-n", str(shape.episodes), "-c", str(shape.concurrency)),
        *("--json", "-"),
    ]
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        said = done.stderr.decode()
        raise SystemExit(f"{said}\n{' '.join(command)} ended with {done.returncode}")
    report = msgspec.json.decode(done.stdout)
    return report["cpu_s"], report["steps"]


@contextlib.contextmanager
def model_server(script: list[Part]) -> Iterator[str]:
    """An instant model server in a process of its own; gives its base URL."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.jsonl"
        path.write_bytes(b"\n".join(msgspec.json.encode(part) for part in script))
        command = [sys.executable, "-m", "benchmarks.model_server", "--script", str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdin is not None and server.stdout is not None
            try:
                url = server.stdout.readline().decode().strip()
                if not url:
                    raise RuntimeError("the model server did not start")
                yield url
            finally:
                server.stdin.close()


def raise_file_limit() -> None:
    """Raise this process's limit of open files to what it may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(shape: Shape, *, package: bool, whole: bool) -> dict[str, list[float]]:
    """CPU in ms for each reply, a value a run."""
    scenario = find(SCENARIO)
    script = script_of(scenario)
    task = next(task for task in scenario.tasks if task.instruction == script[0].when)
    windows = windows_of_episode(scenario, task, Oracle(tuple(script), NUM_CALLS))
    briefing = Briefing(task.instruction, scenario.rules, (), "agent", scenario.clock)
    assignment = Assignment("e1", scenario, task, 0, briefing)
    found: dict[str, list[float]] = {}

    def note(name: str, seconds: float, replies: int) -> None:
        found.setdefault(name, []).append(seconds / replies * 1000)

    with model_server(script) as url:
        for _ in range(shape.runs):
            replies = shape.episodes * len(windows)
            note("aiohttp", uvloop.run(aiohttp_cpu(url, windows, shape)), replies)
            for client in ("lean", "package") if package else ("lean",):
                settings = OpenAISettings("instant", base_url=url, api_key="none", client=client)
                cpu = uvloop.run(policy_cpu(url, windows, shape, settings, assignment))
                note("policy" if client == "lean" else client, cpu, replies)
            if whole:
                note("rehearse", *rehearse_cpu(url, shape))
    return found


def figures(found: dict[str, list[float]]) -> list[Figure]:
    """What was measured, the whole harness against the contract."""
    per_reply = []
    for name, values in found.items():
        if name == "rehearse":
            per_reply.append(figure("CPU a step over HTTP", "ms", values, reach=1.0, aim=0.5))
        else:
            per_reply.append(figure(f"CPU a reply, {name}", "ms", values))
    return per_reply


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=2048)
    parser.add_argument("--concurrency", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--package", action="store_true", help="the openai package too")
    parser.add_argument("--client-only", action="store_true", help="without the whole harness")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    raise_file_limit()
    shape = Shape(options.episodes, options.concurrency, options.runs)
    found = measure(shape, package=options.package, whole=not options.client_only)
    tell(figures(found), options.json)


if __name__ == "__main__":
    main()
