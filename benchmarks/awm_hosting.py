"""AWM's generated code, hosted in workers, against the stack it was written for.

    python -m benchmarks.awm_hosting --concurrency 64 --runs 3
    python -m benchmarks.awm_hosting FOLDER --scenario e_commerce_33      # AWM's eight files

The genuine side is benchmarks.genuine: a uvicorn process and an MCP session for each episode, all
alive at once. Both sides play the same episodes of ten calls, taken from `oracle.jsonl` beside the
scenario, so many at once, in turns, in one run. What is compared:

    a call      CPU seconds of the servers for each call: their processes there; here the workers
                and this process, that is the pool and the loop that plays
    a world     there from the start of the process to its tool list, its database being there
                already; here a lease, which has the tool list
    memory      of a world that was used for ten calls: there the proportional set of its process,
                which counts shared pages in part; here what each of many worlds added to the
                resident memory of this process and the workers

A server's first calls cost more than its later ones, as the code warms up in every process anew.
The ratio of the contract is that of warm servers; that of whole episodes stands beside it.
"""

import argparse
import gc
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import msgspec
import psutil

from benchmarks.figures import Figure, figure, quiet, tell
from benchmarks.genuine import Call, Genuine, interpreter
from envpool.core.errors import WorldError
from envpool.core.types import Env
from envpool.workers.pool import WorkerPool, WorkerSettings
from scenarios.awm.folder import AwmFolder
from scenarios.format import AwmRecord, Scenario

FIXTURE = Path(__file__).parent.parent / "tests" / "fixtures" / "awm"
NUM_CALLS = 10
Episode = tuple[Call, ...]
Calls = Callable[[str, dict[str, Any]], Awaitable[bool]]  # gives whether the call failed

_HANGS = """
@app.get("/hang_for_ever", operation_id="hang_for_ever", summary="Never answer")
async def hang_for_ever():
    while True:
        pass


"""
_MAIN = 'if __name__ == "__main__"'


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    concurrency: int = 64
    runs: int = 3
    episodes: int = 1024
    live: int = 10_000
    workers: int = 2
    rounds: int = 5  # episodes that a warm world plays in a turn


class Side(msgspec.Struct):
    """What one side was measured at; a value a run."""

    cold_ms: list[float] = []  # CPU of a call in the first episode of a world
    warm_ms: list[float] = []  # in later ones
    calls_per_s: list[float] = []  # wall clock, warm
    start_s: list[float] = []
    memory_kb: list[float] = []
    resident_kb: list[float] = []
    failed: list[list[bool]] = []  # call by call, of the first episodes


def episodes_of(folder: Path, num: int) -> list[Episode]:
    """So many episodes of ten calls: solutions of the tasks one after the other, each episode
    from another task on."""
    solutions: list[list[Call]] = []
    for line in (folder / "oracle.jsonl").read_text().splitlines():
        told = msgspec.json.decode(line)
        calls = (told.get("oracle") or told.get("attempt") or {}).get("calls", ())
        solutions.append([(call["tool"], call["arguments"]) for call in calls])
    played = []
    for first in range(num):
        calls = [c for n in range(len(solutions)) for c in solutions[(first + n) % len(solutions)]]
        played.append(tuple(calls[:NUM_CALLS]))
    return played


async def play(calls: Sequence[Calls], episodes: Sequence[Episode]) -> list[list[bool]]:
    """Play an episode with each, all at once; gives which calls failed."""
    failed: list[list[bool]] = [[] for _ in calls]

    async def one(number: int) -> None:
        for name, arguments in episodes[number]:
            failed[number].append(await calls[number](name, arguments))

    async with anyio.create_task_group() as group:
        for number in range(len(calls)):
            group.start_soon(one, number)
    return failed


async def note_turn(
    side: Side, calls: Sequence[Calls], cpu_s: Callable[[], float], shape: Shape, folder: Path
) -> None:
    """Play episodes in every world and note what they took: one when the worlds are new, then
    several, for a sample that is large beside what disturbs it."""
    rounds = shape.rounds if side.failed else 1
    episodes = episodes_of(folder, len(calls))
    began, cpu = time.perf_counter(), cpu_s()
    for _ in range(rounds):
        failed = await play(calls, episodes)
    num_calls = len(calls) * NUM_CALLS * rounds
    spent, seconds = cpu_s() - cpu, time.perf_counter() - began
    if not side.failed:
        side.failed = failed
        side.cold_ms.append(spent / num_calls * 1000)
        return
    side.warm_ms.append(spent / num_calls * 1000)
    side.calls_per_s.append(num_calls / seconds)


def genuine_calls(server: Genuine) -> Calls:
    async def call(name: str, arguments: dict[str, Any]) -> bool:
        return (await server.call(name, arguments))[1]

    return call


def hosted_calls(env: Env) -> Calls:
    numbers = iter(range(1 << 30))

    async def call(name: str, arguments: dict[str, Any]) -> bool:
        return (await env.call(name, arguments, f"b{next(numbers)}")).is_error

    return call


async def compare(scenario: Scenario, folder: Path, shape: Shape) -> tuple[Side, Side]:
    """The genuine and the hosted side, measured in turns."""
    assert scenario.awm is not None
    genuine, hosted = Side(), Side()
    async with AsyncExitStack() as stack:
        # uvicorn hangs up on idle connections after five seconds, and would just before a request.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        servers = await started(stack, http, scenario.awm, shape, genuine)
        pool = await stack.enter_async_context(WorkerPool(WorkerSettings(workers=shape.workers)))
        envs = await leased(stack, pool, scenario, shape, hosted)
        sides = (
            (genuine, [genuine_calls(server) for server in servers], cpu_of(servers)),
            (hosted, [hosted_calls(env) for env in envs], cpu_of([pool])),
        )
        for _ in range(shape.runs + 1):
            for side, calls, cpu_s in sides:
                await note_turn(side, calls, cpu_s, shape, folder)
        for resident, proportional in (server.memory() for server in servers):
            genuine.memory_kb.append(proportional / 1024)
            genuine.resident_kb.append(resident / 1024)
    if genuine.failed != hosted.failed:
        raise SystemExit("the two sides disagree about which calls fail: nothing is compared")
    return genuine, hosted


async def started(
    stack: AsyncExitStack,
    http: aiohttp.ClientSession,
    record: AwmRecord,
    shape: Shape,
    side: Side,
) -> list[Genuine]:
    """The genuine servers, one after the other: each starts as fast as it can."""
    python = await anyio.to_thread.run_sync(interpreter)
    servers = []
    for _ in range(shape.concurrency):
        servers.append(await stack.enter_async_context(Genuine(python, record, http)))
        side.start_s.append(servers[-1].start_s)
    return servers


async def leased(
    stack: AsyncExitStack, pool: WorkerPool, scenario: Scenario, shape: Shape, side: Side
) -> list[Env]:
    """Worlds of the pool. The time of a lease is the median over many that are given back."""
    await pool.host(scenario)
    for _ in range(1000):
        began = time.perf_counter()
        async with pool.lease(scenario):
            side.start_s.append(time.perf_counter() - began)
    return [await stack.enter_async_context(pool.lease(scenario)) for _ in range(shape.concurrency)]


def cpu_of(servers: Sequence[Genuine | WorkerPool]) -> Callable[[], float]:
    """CPU seconds of servers; a pool's with this process, in which it works too."""

    def cpu_s() -> float:
        ours = sum(isinstance(server, WorkerPool) for server in servers)
        return sum(server.cpu_s() for server in servers) + ours * time.process_time()

    return cpu_s


async def many_episodes(scenario: Scenario, folder: Path, shape: Shape) -> float:
    """CPU seconds of so many episodes of ten calls, all live at once."""
    episodes = episodes_of(folder, shape.episodes)
    async with WorkerPool(WorkerSettings(workers=shape.workers)) as pool:
        await pool.host(scenario)
        cpu_s = cpu_of([pool])
        began = cpu_s()

        async def one(episode: Episode) -> None:
            async with pool.lease(scenario) as env:
                await play([hosted_calls(env)], [episode])

        async with anyio.create_task_group() as group:
            for episode in episodes:
                group.start_soon(one, episode)
        return cpu_s() - began


async def many_worlds(scenario: Scenario, folder: Path, shape: Shape) -> tuple[float, float]:
    """Resident MB of this process and the workers with so many worlds live after ten calls each,
    and the KB that each added."""
    process = psutil.Process()
    episodes = episodes_of(folder, shape.live)
    async with WorkerPool(WorkerSettings(workers=shape.workers)) as pool, AsyncExitStack() as stack:
        await pool.host(scenario)
        async with pool.lease(scenario) as env:
            await play([hosted_calls(env)], episodes[:1])
        gc.collect()
        before = process.memory_info().rss + pool.rss()
        envs = [await stack.enter_async_context(pool.lease(scenario)) for _ in range(shape.live)]
        for first in range(0, shape.live, shape.concurrency):
            some = slice(first, first + shape.concurrency)
            await play([hosted_calls(env) for env in envs[some]], episodes[some])
        rss = process.memory_info().rss + pool.rss()
    return rss / 2**20, (rss - before) / shape.live / 1024


async def after_a_hang(scenario: Scenario, folder: Path, shape: Shape) -> tuple[float, int]:
    """The longest time that an episode beside a hanging call had to wait for a call of its own,
    in seconds, and how many episodes were lost beside the one that hung."""
    deadline = 1.0
    gaps: list[float] = []
    lost = 0
    settings = WorkerSettings(workers=1, call_deadline=deadline)
    async with WorkerPool(settings) as pool:
        hanging = with_a_hang(scenario)
        await pool.host(hanging)
        over = anyio.Event()

        async def neighbour(episode: Episode) -> None:
            nonlocal lost
            async with pool.lease(hanging) as env:
                call = hosted_calls(env)
                while not over.is_set():
                    for name, arguments in episode:
                        began = time.perf_counter()
                        try:
                            await call(name, arguments)
                        except WorldError:
                            lost += 1
                            return
                        gaps.append(time.perf_counter() - began)

        async with anyio.create_task_group() as group:
            for episode in episodes_of(folder, shape.concurrency):
                group.start_soon(neighbour, episode)
            await anyio.wait_all_tasks_blocked()
            try:
                async with pool.lease(hanging) as env:
                    await env.call("hang_for_ever", {}, "h0")
                raise SystemExit("the call that hangs was answered")
            except WorldError:
                over.set()
    return max(gaps), lost


def with_a_hang(scenario: Scenario) -> Scenario:
    """The scenario with one tool more, which never answers."""
    assert scenario.awm is not None
    before, main, after = scenario.awm.code.partition(_MAIN)
    code = before + _HANGS + main + after
    return msgspec.structs.replace(
        scenario,
        digest=hashlib.blake2b(code.encode(), digest_size=16).hexdigest(),
        awm=msgspec.structs.replace(scenario.awm, code=code),
    )


def figures(scenario: Scenario, folder: Path, shape: Shape) -> list[Figure]:
    """What was measured, held against the contract."""

    def run(function: Callable[[Scenario, Path, Shape], Awaitable[Any]]) -> Any:
        return anyio.run(function, scenario, folder, shape, backend_options={"use_uvloop": True})

    genuine, hosted = run(compare)
    worlds = [run(many_worlds)]
    cpu = [run(many_episodes) for _ in range(shape.runs)]
    hangs = [run(after_a_hang) for _ in range(shape.runs)]
    used = [kb for _, kb in worlds]
    start, memory = median(genuine.start_s), median(genuine.memory_kb)
    warm = zip(hosted.warm_ms, genuine.warm_ms, strict=True)
    cold = zip(hosted.cold_ms, genuine.cold_ms, strict=True)
    size = f"{shape.episodes:,} episodes of {NUM_CALLS} calls"
    return [
        figure("CPU a call, hosted ÷ genuine", "", (a / b for a, b in warm), reach=0.2, aim=0.1),
        figure("CPU a call in new worlds, hosted ÷ genuine", "", (a / b for a, b in cold)),
        figure("new world, hosted ÷ genuine", "", [median(hosted.start_s) / start],
               reach=1 / 1000, aim=1 / 5000),
        figure("memory of a used world, hosted ÷ genuine", "", [kb / memory for kb in used],
               reach=1 / 200),
        figure("CPU a call, genuine", "ms", genuine.warm_ms),
        figure("CPU a call, hosted", "ms", hosted.warm_ms),
        figure("CPU a call in a new world, genuine", "ms", genuine.cold_ms),
        figure("CPU a call in a new world, hosted", "ms", hosted.cold_ms),
        figure("calls a second, genuine", "", genuine.calls_per_s),
        figure("calls a second, hosted", "", hosted.calls_per_s),
        figure("new world, genuine", "s", genuine.start_s),
        figure("new world, hosted", "µs", (seconds * 1e6 for seconds in hosted.start_s)),
        figure("used world, genuine", "KB", genuine.memory_kb),
        figure("used world, genuine, resident", "KB", genuine.resident_kb),
        figure("used world, hosted", "KB", used),
        figure(f"{shape.live:,} live worlds", "MB", (mb for mb, _ in worlds), reach=3072),
        figure(f"CPU of {size}", "s", cpu, reach=12 * shape.episodes / 1024),
        figure("longest wait beside a hanging call", "s", (gap for gap, _ in hangs), reach=2),
        figure("episodes lost beside it", "", (lost for _, lost in hangs), reach=0),
    ]  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FIXTURE)
    parser.add_argument("--scenario", help="the folder's first unless given")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--live", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    records = AwmFolder(options.folder)
    scenario = records.find(options.scenario or records.names()[0])
    shape = Shape(
        options.concurrency, options.runs, options.episodes, options.live, options.workers
    )
    tell(figures(scenario, options.folder, shape), options.json)


if __name__ == "__main__":
    main()
