"""Measure the CPU of a step with an instant model server over HTTP, and of its components.

    python -m benchmarks.http_step --episodes 2048 --concurrency 1024

The server is a separate process and is not counted. Every episode of shop_support makes ten
reading calls and answers: eleven replies. The figures are CPU in ms for each reply, the median of
several runs, which measure all of these in turns:

    aiohttp   the same request bodies sent with a bare aiohttp session, responses read and dropped
    policy    harness.policies.openai alone: windows to request bodies, responses to replies
    package   the same through the openai package (only with --package: it takes long)
    rehearse  the whole harness, `rehearse bench`, with worlds, windows, log, bus and code judge
"""

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
import click
import msgspec
import uvloop

from benchmarks.figures import Figure, figure
from benchmarks.model_server import Oracle, Script, ScriptedCall
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, Briefing, Window
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.last_turns import FullWindow
from rehearsal_room.harness.history.windows import HistoryFold
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario, Task

SCENARIO = "shop_support"
NUM_CALLS = 10
_READING = ("get_", "list_", "search_", "find_", "check_", "track_")


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int
    concurrency: int
    runs: int


def scripts_of(scenario: Scenario) -> list[Script]:
    """For each task whose oracle makes reading calls: these calls in a cycle, then its answer."""
    scripts = []
    for task in scenario.tasks:
        reads = [call for call in task.oracle if call.name.startswith(_READING)]
        if reads:
            calls = [ScriptedCall(c.name, c.arguments) for c in islice(cycle(reads), NUM_CALLS)]
            scripts.append(Script(task.instruction, tuple(calls), task.answer))
    scripts.append(Script())  # for tasks without reading calls: an answer at once
    return scripts


def windows_of_episode(scenario: Scenario, task: Task, oracle: Oracle) -> list[Window]:
    """The windows that the model is shown in one episode, one for each turn."""
    world = HostedScenario(scenario)
    lease = world.lease()
    dialect = Native()
    briefing = Briefing(task.instruction, scenario.rules, world.tools, "agent", scenario.clock)
    fold = HistoryFold(FullWindow(), dialect, briefing)
    writer = RequestWriter({"model": "instant"})
    windows = []
    while True:
        windows.append(fold.window())
        reply = read_completion(oracle.answer(writer.body(windows[-1])))
        assert not isinstance(reply, AttemptFailure)
        decision = dialect.read(reply, turn=len(windows) - 1)
        if not isinstance(decision, Act):
            world.close()
            return windows
        results = tuple(lease.call(call.name, call.arguments, call.id) for call in decision.calls)
        fold.apply(StepTaken(reply, decision, results))


async def cpu_of(episode: Callable[[], Coroutine[Any, Any, None]], load: Workload) -> float:
    """CPU seconds of `load.episodes` episodes, `load.concurrency` at once.

    Before the measurement one round of episodes opens all connections.
    """
    left = iter(range(load.episodes))

    async def worker() -> None:
        for _ in left:
            await episode()

    async with anyio.create_task_group() as group:
        for _ in range(load.concurrency):
            group.start_soon(episode)
    began = time.process_time()
    async with anyio.create_task_group() as group:
        for _ in range(load.concurrency):
            group.start_soon(worker)
    return time.process_time() - began


async def aiohttp_cpu(url: str, windows: list[Window], load: Workload) -> float:
    """CPU seconds of the minimum: bodies encoded beforehand, responses not decoded."""
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

        return await cpu_of(episode, load)


async def policy_cpu(
    url: str,
    windows: list[Window],
    load: Workload,
    settings: OpenAISettings,
    assignment: Assignment,
) -> float:
    """CPU seconds of the policy, called as the episode loop calls it."""
    async with OpenAIPolicy(settings) as policy:

        async def episode() -> None:
            agent = policy.agent(assignment)
            for window in windows:
                await agent.reply(window)

        return await cpu_of(episode, load)


def rehearse_cpu(url: str, load: Workload) -> tuple[float, int]:
    """CPU seconds and steps of `rehearse bench`."""
    command = [
        *(
            sys.executable,
            "-m",
            "rehearsal_room.cli.main",
            "bench",
            SCENARIO,
            "-p",
            "openai",
            "-m",
            "instant",
        ),
        *("--base-url", url, "-n", str(load.episodes), "-c", str(load.concurrency)),
        *("--json", "-"),
    ]
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        stderr = done.stderr.decode()
        raise SystemExit(f"{stderr}\n{' '.join(command)} failed with exit status {done.returncode}")
    report = msgspec.json.decode(done.stdout)
    return report["cpu_s"], report["steps"]


@contextlib.contextmanager
def model_server(scripts: list[Script], *options: str) -> Iterator[str]:
    """Run an instant model server in a separate process; yield its base URL. `options` are more of
    its command line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.jsonl"
        path.write_bytes(b"\n".join(msgspec.json.encode(script) for script in scripts))
        command = [sys.executable, "-m", "benchmarks.model_server", "--script", str(path), *options]
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
    """Raise this process's limit of open files as far as the system permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(load: Workload, *, package: bool, whole: bool) -> dict[str, list[float]]:
    """CPU in ms for each reply: name of the measurement -> one value for each run."""
    scenario = find(SCENARIO)
    scripts = scripts_of(scenario)
    task = next(task for task in scenario.tasks if task.instruction == scripts[0].when)
    windows = windows_of_episode(scenario, task, Oracle(tuple(scripts), NUM_CALLS))
    briefing = Briefing(task.instruction, scenario.rules, (), "agent", scenario.clock)
    assignment = Assignment("e1", scenario, task, 0, briefing)
    found: dict[str, list[float]] = {}

    def note(name: str, seconds: float, replies: int) -> None:
        found.setdefault(name, []).append(seconds / replies * 1000)

    with model_server(scripts) as url:
        for _ in range(load.runs):
            replies = load.episodes * len(windows)
            note("aiohttp", uvloop.run(aiohttp_cpu(url, windows, load)), replies)
            for client in ("lean", "package") if package else ("lean",):
                settings = OpenAISettings("instant", base_url=url, api_key="none", client=client)
                cpu = uvloop.run(policy_cpu(url, windows, load, settings, assignment))
                note("policy" if client == "lean" else client, cpu, replies)
            if whole:
                note("rehearse", *rehearse_cpu(url, load))
    return found


def figures(found: dict[str, list[float]]) -> list[Figure]:
    """All figures; that of the whole harness has the bounds of the contract."""
    per_reply = []
    for name, values in found.items():
        if name == "rehearse":
            per_reply.append(figure("CPU of a step over HTTP", "ms", values, reach=1.0, aim=0.5))
        else:
            per_reply.append(figure(f"CPU of a reply, {name}", "ms", values))
    return per_reply


@benchmark(__doc__)
@count_option("--episodes", 2048, "Episodes of each measurement.")
@count_option("--concurrency", 1024, "Episodes live at once.")
@runs_option(3)
@click.option("--package", is_flag=True, help="Measure the openai package, too.")
@click.option("--client-only", is_flag=True, help="Do not measure the whole harness.")
def main(
    episodes: int, concurrency: int, runs: int, package: bool, client_only: bool
) -> list[Figure]:
    """The command line."""
    raise_file_limit()
    load = Workload(episodes, concurrency, runs)
    return figures(measure(load, package=package, whole=not client_only))


if __name__ == "__main__":
    main()
