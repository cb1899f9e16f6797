"""Compare AWM's generated code, hosted in workers, with the stack that it was written for.

    python -m benchmarks.awm_hosting --concurrency 64 --runs 3
    python -m benchmarks.awm_hosting FOLDER --scenario e_commerce_33      # AWM's eight files

FOLDER has AWM's eight files; without it, the test fixture is used. The genuine side is
benchmarks.genuine: a uvicorn process and an MCP session for each episode, all alive at once. Both
sides run the same episodes of ten calls, taken from `oracle.jsonl` in FOLDER, `--concurrency` of
them at once, in turns, in one run. What is compared:

    a call      CPU seconds of the servers for each call. Genuine: of their processes. Hosted: of
                the workers and this process, that is the pool and the loop that makes the calls
    a world     Genuine: from the start of the process to its tool list; its database exists
                already. Hosted: a lease, which has the tool list
    memory      of a world that was used for ten calls. Genuine: the proportional set of its
                process, which counts shared pages in part. Hosted: what each of many worlds added
                to the resident memory of this process and the workers

A server's first calls cost more than its later ones, because the code warms up in every process
again. The contract's ratio is that of warm servers; the ratio for new worlds is a separate figure.
"""

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
import click
import msgspec
import psutil

from benchmarks.figures import Figure, figure
from benchmarks.genuine import Call, GenuineServer, baseline_python
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import AwmRecord, Scenario

FIXTURE = Path(__file__).parent.parent / "tests" / "fixtures" / "awm"
NUM_CALLS = 10
Episode = tuple[Call, ...]
Caller = Callable[[str, dict[str, Any]], Awaitable[bool]]  # returns whether the call failed

_HANGS = """
@app.get("/hang_for_ever", operation_id="hang_for_ever", summary="Never answer")
async def hang_for_ever():
    while True:
        pass


"""
_MAIN = 'if __name__ == "__main__"'


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    concurrency: int = 64
    runs: int = 3
    episodes: int = 1024
    live: int = 10_000
    workers: int = 2
    rounds: int = 5  # episodes that a warm world runs in a turn


class Side(msgspec.Struct):
    """The measurements of one side, one value for each run."""

    cold_ms: list[float] = []  # CPU of a call in the first episode of a world
    warm_ms: list[float] = []  # CPU of a call in later episodes
    calls_per_s: list[float] = []  # by the wall clock, in later episodes
    start_s: list[float] = []
    memory_kb: list[float] = []
    resident_kb: list[float] = []
    failed: list[list[bool]] = []  # for each call of the first episodes


def episodes_of(folder: Path, num: int) -> list[Episode]:
    """`num` episodes of ten calls. Each episode concatenates the solutions of the tasks, starting
    with another task."""
    solutions: list[list[Call]] = []
    for line in (folder / "oracle.jsonl").read_text().splitlines():
        record = msgspec.json.decode(line)
        calls = (record.get("oracle") or record.get("attempt") or {}).get("calls", ())
        solutions.append([(call["tool"], call["arguments"]) for call in calls])
    episodes = []
    for first in range(num):
        calls = [c for n in range(len(solutions)) for c in solutions[(first + n) % len(solutions)]]
        episodes.append(tuple(calls[:NUM_CALLS]))
    return episodes


async def play(callers: Sequence[Caller], episodes: Sequence[Episode]) -> list[list[bool]]:
    """Run an episode with each caller, all at once; return which calls failed."""
    failed: list[list[bool]] = [[] for _ in callers]

    async def one(number: int) -> None:
        for name, arguments in episodes[number]:
            failed[number].append(await callers[number](name, arguments))

    async with anyio.create_task_group() as group:
        for number in range(len(callers)):
            group.start_soon(one, number)
    return failed


async def measure_turn(
    side: Side, callers: Sequence[Caller], cpu_s: Callable[[], float], load: Workload, folder: Path
) -> None:
    """Run episodes in every world and add what they took to the side's measurements.

    One episode when the worlds are new, several afterwards: a sample large enough that disturbances
    by other processes matter little.
    """
    rounds = load.rounds if side.failed else 1
    episodes = episodes_of(folder, len(callers))
    began, cpu = time.perf_counter(), cpu_s()
    for _ in range(rounds):
        failed = await play(callers, episodes)
    num_calls = len(callers) * NUM_CALLS * rounds
    spent, seconds = cpu_s() - cpu, time.perf_counter() - began
    if not side.failed:
        side.failed = failed
        side.cold_ms.append(spent / num_calls * 1000)
        return
    side.warm_ms.append(spent / num_calls * 1000)
    side.calls_per_s.append(num_calls / seconds)


def genuine_caller(server: GenuineServer) -> Caller:
    async def call(name: str, arguments: dict[str, Any]) -> bool:
        return (await server.call(name, arguments))[1]

    return call


def hosted_caller(env: Env) -> Caller:
    numbers = iter(range(1 << 30))

    async def call(name: str, arguments: dict[str, Any]) -> bool:
        return (await env.call(name, arguments, f"b{next(numbers)}")).is_error

    return call


async def compare(scenario: Scenario, folder: Path, load: Workload) -> tuple[Side, Side]:
    """The measurements of the genuine and the hosted side, taken in turns."""
    assert scenario.awm is not None
    genuine, hosted = Side(), Side()
    async with AsyncExitStack() as stack:
        # uvicorn closes connections that were idle for five seconds: it could do so just before a
        # request.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        servers = await start_servers(stack, http, scenario.awm, load, genuine)
        pool = await stack.enter_async_context(WorkerPool(WorkerSettings(workers=load.workers)))
        envs = await lease_worlds(stack, pool, scenario, load, hosted)
        sides = (
            (genuine, [genuine_caller(server) for server in servers], cpu_of(servers)),
            (hosted, [hosted_caller(env) for env in envs], cpu_of([pool])),
        )
        for _ in range(load.runs + 1):
            for side, callers, cpu_s in sides:
                await measure_turn(side, callers, cpu_s, load, folder)
        for resident, proportional in (server.memory() for server in servers):
            genuine.memory_kb.append(proportional / 1024)
            genuine.resident_kb.append(resident / 1024)
    if genuine.failed != hosted.failed:
        raise SystemExit(
            "the calls that fail are not the same on both sides, so nothing is compared"
        )
    return genuine, hosted


async def start_servers(
    stack: AsyncExitStack,
    http: aiohttp.ClientSession,
    record: AwmRecord,
    load: Workload,
    side: Side,
) -> list[GenuineServer]:
    """Start the genuine servers one after the other, so that none slows the start of another."""
    python = await anyio.to_thread.run_sync(baseline_python)
    servers = []
    for _ in range(load.concurrency):
        servers.append(await stack.enter_async_context(GenuineServer(python, record, http)))
        side.start_s.append(servers[-1].start_s)
    return servers


async def lease_worlds(
    stack: AsyncExitStack, pool: WorkerPool, scenario: Scenario, load: Workload, side: Side
) -> list[Env]:
    """Lease worlds of the pool; note the time of a lease, taken from many that are released."""
    await pool.host(scenario)
    for _ in range(1000):
        began = time.perf_counter()
        async with pool.lease(scenario):
            side.start_s.append(time.perf_counter() - began)
    return [await stack.enter_async_context(pool.lease(scenario)) for _ in range(load.concurrency)]


def cpu_of(servers: Sequence[GenuineServer | WorkerPool]) -> Callable[[], float]:
    """A function that gives the servers' CPU seconds; a pool also works in this process."""

    def cpu_s() -> float:
        num_pools = sum(isinstance(server, WorkerPool) for server in servers)
        return sum(server.cpu_s() for server in servers) + num_pools * time.process_time()

    return cpu_s


async def many_episodes(scenario: Scenario, folder: Path, load: Workload) -> float:
    """CPU seconds of `load.episodes` episodes of ten calls, all live at once."""
    episodes = episodes_of(folder, load.episodes)
    async with WorkerPool(WorkerSettings(workers=load.workers)) as pool:
        await pool.host(scenario)
        cpu_s = cpu_of([pool])
        began = cpu_s()

        async def one(episode: Episode) -> None:
            async with pool.lease(scenario) as env:
                await play([hosted_caller(env)], [episode])

        async with anyio.create_task_group() as group:
            for episode in episodes:
                group.start_soon(one, episode)
        return cpu_s() - began


async def many_worlds(scenario: Scenario, folder: Path, load: Workload) -> tuple[float, float]:
    """Resident MB of this process and the workers with `load.live` live worlds after ten calls
    each, and the KB that each world added."""
    process = psutil.Process()
    episodes = episodes_of(folder, load.live)
    async with WorkerPool(WorkerSettings(workers=load.workers)) as pool, AsyncExitStack() as stack:
        await pool.host(scenario)
        async with pool.lease(scenario) as env:
            await play([hosted_caller(env)], episodes[:1])
        gc.collect()
        before = process.memory_info().rss + pool.rss()
        envs = [await stack.enter_async_context(pool.lease(scenario)) for _ in range(load.live)]
        for first in range(0, load.live, load.concurrency):
            some = slice(first, first + load.concurrency)
            await play([hosted_caller(env) for env in envs[some]], episodes[some])
        rss = process.memory_info().rss + pool.rss()
    return rss / 2**20, (rss - before) / load.live / 1024


async def beside_a_hang(scenario: Scenario, folder: Path, load: Workload) -> tuple[float, int]:
    """The longest wait of another episode for one of its calls beside a call that hangs, in
    seconds, and how many episodes were lost besides the one with the call that hangs."""
    deadline = 1.0
    gaps: list[float] = []
    lost = 0
    settings = WorkerSettings(workers=1, call_deadline=deadline)
    async with WorkerPool(settings) as pool:
        hanging = with_hanging_tool(scenario)
        await pool.host(hanging)
        over = anyio.Event()

        async def neighbour(episode: Episode) -> None:
            nonlocal lost
            async with pool.lease(hanging) as env:
                call = hosted_caller(env)
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
            for episode in episodes_of(folder, load.concurrency):
                group.start_soon(neighbour, episode)
            await anyio.wait_all_tasks_blocked()
            try:
                async with pool.lease(hanging) as env:
                    await env.call("hang_for_ever", {}, "h0")
                raise SystemExit("the call that should hang was answered")
            except WorldError:
                over.set()
    return max(gaps), lost


def with_hanging_tool(scenario: Scenario) -> Scenario:
    """The scenario with an additional tool, which never answers."""
    assert scenario.awm is not None
    before, main, after = scenario.awm.code.partition(_MAIN)
    code = before + _HANGS + main + after
    return msgspec.structs.replace(
        scenario,
        digest=hashlib.blake2b(code.encode(), digest_size=16).hexdigest(),
        awm=msgspec.structs.replace(scenario.awm, code=code),
    )


def figures(scenario: Scenario, folder: Path, load: Workload) -> list[Figure]:
    """All figures, with the bounds of the contract."""

    def run(function: Callable[[Scenario, Path, Workload], Awaitable[Any]]) -> Any:
        return anyio.run(function, scenario, folder, load, backend_options={"use_uvloop": True})

    genuine, hosted = run(compare)
    worlds = [run(many_worlds)]
    cpu = [run(many_episodes) for _ in range(load.runs)]
    hangs = [run(beside_a_hang) for _ in range(load.runs)]
    used = [kb for _, kb in worlds]
    start, memory = median(genuine.start_s), median(genuine.memory_kb)
    warm = zip(hosted.warm_ms, genuine.warm_ms, strict=True)
    cold = zip(hosted.cold_ms, genuine.cold_ms, strict=True)
    size = f"{load.episodes:,} episodes of {NUM_CALLS} calls"
    return [
        figure("CPU of a call, hosted ÷ genuine", "", (a / b for a, b in warm), reach=0.2, aim=0.1),
        figure("CPU of a call in new worlds, hosted ÷ genuine", "", (a / b for a, b in cold)),
        figure("new world, hosted ÷ genuine", "", [median(hosted.start_s) / start],
               reach=1 / 1000, aim=1 / 5000),
        figure("memory of a used world, hosted ÷ genuine", "", [kb / memory for kb in used],
               reach=1 / 200),
        figure("CPU of a call, genuine", "ms", genuine.warm_ms),
        figure("CPU of a call, hosted", "ms", hosted.warm_ms),
        figure("CPU of a call in a new world, genuine", "ms", genuine.cold_ms),
        figure("CPU of a call in a new world, hosted", "ms", hosted.cold_ms),
        figure("calls per second, genuine", "", genuine.calls_per_s),
        figure("calls per second, hosted", "", hosted.calls_per_s),
        figure("new world, genuine", "s", genuine.start_s),
        figure("new world, hosted", "µs", (seconds * 1e6 for seconds in hosted.start_s)),
        figure("used world, genuine", "KB", genuine.memory_kb),
        figure("used world, genuine, resident", "KB", genuine.resident_kb),
        figure("used world, hosted", "KB", used),
        figure(f"{load.live:,} live worlds", "MB", (mb for mb, _ in worlds), reach=3072),
        figure(f"CPU of {size}", "s", cpu, reach=12 * load.episodes / 1024),
        figure("longest wait beside a hanging call", "s", (gap for gap, _ in hangs), reach=2),
        figure("episodes lost beside it", "", (lost for _, lost in hangs), reach=0),
    ]  # fmt: skip


@benchmark(__doc__)
@click.argument(
    "folder", default=FIXTURE, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--scenario", metavar="NAME", help="Scenario to host; default: the folder's first.")
@count_option("--concurrency", 64, "Genuine servers, and hosted worlds beside them, at once.")
@runs_option(3)
@count_option("--episodes", 1024, "Episodes for the figure of many episodes.")
@count_option("--live", 10_000, "Worlds for the figure of memory.")
@count_option("--workers", 2, "Worker processes of the pool.")
def main(
    folder: Path,
    scenario: str | None,
    concurrency: int,
    runs: int,
    episodes: int,
    live: int,
    workers: int,
) -> list[Figure]:
    """The command line."""
    records = AwmFolder(folder)
    chosen = records.find(scenario or records.names()[0])
    return figures(chosen, folder, Workload(concurrency, runs, episodes, live, workers))


if __name__ == "__main__":
    main()
