"""What a world costs: to lease, to hold, to reset, to fork, and to switch to for a call.

    python -m benchmarks.world_store --worlds 10000 --live 1024 --runs 5

A call that switches is timed as thousands of live episodes make it: the oracle's calls of the
bundled worlds, interleaved in a seeded order, through `Lease.call`, with its changes, digest and
transaction. It is held against the same calls on one warm connection for each scenario
(envpool.inprocess.dedicated_connection), episode after episode, with nothing around them. Both are
CPU time, in turns, in one process, and the ratio is taken run by run.
"""

import argparse
import gc
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import msgspec
import psutil

from benchmarks.figures import Figure, figure, tell
from benchmarks.worlds import Call, hosted, in_order, interleaved, leases
from envpool.inprocess.dedicated_connection import DedicatedConnection
from envpool.inprocess.pool import LocalPool
from envpool.inprocess.world import HostedScenario, Lease

Worlds = dict[str, HostedScenario]
Times = dict[str, list[float]]  # tool -> seconds of each call


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    worlds: int = 10_000  # held at once when memory is measured
    live: int = 1024  # held at once when calls are measured
    runs: int = 5


def memory(worlds: Worlds, count: int) -> list[Figure]:
    """Bytes of one more live world, as the process's resident memory shows them: the slope from
    the first tenth of the worlds to the last."""
    first = count // 10
    process = psutil.Process()
    held = leases(worlds, first)
    fresh = process.memory_info().rss
    held += leases(worlds, count - first)
    fresh = process.memory_info().rss - fresh
    calls = list(interleaved(count, seed=0))
    play(held, (call for call in calls if call.episode < first))
    played = process.memory_info().rss
    play(held, (call for call in calls if call.episode >= first))
    played = process.memory_info().rss - played
    return [
        figure("resident memory of a fresh world", "KB", [fresh / 1024 / (count - first)]),
        figure("the same after its episode", "KB", [(fresh + played) / 1024 / (count - first)]),
    ]


def allocations(worlds: Worlds, count: int) -> list[Figure]:
    """Bytes that Python allocated for one more live world and still holds."""
    tracemalloc.start()
    held = leases(worlds, count)
    fresh = tracemalloc.get_traced_memory()[0]
    play(held, interleaved(count, seed=0))
    gc.collect()
    played = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return [
        figure("memory of a fresh world", "KB", [fresh / 1024 / count], reach=4, aim=1),
        figure("memory after its episode", "KB", [played / 1024 / count], reach=60, aim=25),
    ]


def play(held: list[Lease], calls: Iterable[Call]) -> float:
    """CPU seconds of these calls on these worlds. A call that fails is a broken benchmark."""
    ready = [(held[call.episode], call.name, call.arguments, call.id) for call in calls]
    began = time.thread_time()
    results = [lease.call(*call) for lease, *call in ready]
    spent = time.thread_time() - began
    if any(result.is_error for result in results):
        raise RuntimeError(next(result.text for result in results if result.is_error))
    return spent


def play_dedicated(hosts: dict[str, DedicatedConnection], episodes: list[list[Call]]) -> float:
    """CPU seconds of these calls on a warm connection a scenario, an episode after the other."""
    total = 0.0
    for calls in episodes:
        host = hosts[calls[0].scenario]
        host.begin()
        began = time.thread_time()
        for call in calls:
            host.call(call.name, call.arguments)
        total += time.thread_time() - began
        host.end()
    return total


def switching(worlds: Worlds, shape: Shape) -> list[Figure]:
    """Calls that switch worlds, and the same calls on warm connections."""
    hosts = {
        name: DedicatedConnection(world.scenario, world.template) for name, world in worlds.items()
    }
    episodes = in_order(shape.live)
    num_calls = sum(map(len, episodes))
    switched, dedicated = [], []
    for run in range(shape.runs + 1):
        gc.collect()
        dedicated.append(play_dedicated(hosts, episodes) / num_calls * 1e6)
        held = leases(worlds, shape.live)
        switched.append(play(held, interleaved(shape.live, seed=run)) / num_calls * 1e6)
    del switched[0], dedicated[0]  # the first pass prepares the statements
    ratios = [s / d for s, d in zip(switched, dedicated, strict=True)]
    for host in hosts.values():
        host.close()
    return [
        figure("switched call ÷ dedicated", "", ratios, reach=1.8, aim=1.3),
        figure("switched call", "µs", switched),
        figure("dedicated call", "µs", dedicated),
    ]


def by_kind(worlds: Worlds, shape: Shape) -> str:
    """The same tool by tool: medians in µs, from single calls on a wall clock."""
    hosts = {
        name: DedicatedConnection(world.scenario, world.template) for name, world in worlds.items()
    }
    switched: Times = defaultdict(list)
    dedicated: Times = defaultdict(list)
    for run in range(shape.runs):
        held = leases(worlds, shape.live)
        for call in interleaved(shape.live, seed=run):
            began = time.perf_counter()
            held[call.episode].call(call.name, call.arguments, call.id)
            switched[f"{call.scenario}.{call.name}"].append(time.perf_counter() - began)
        for calls in in_order(shape.live):
            host = hosts[calls[0].scenario]
            host.begin()
            for call in calls:
                began = time.perf_counter()
                host.call(call.name, call.arguments)
                dedicated[f"{call.scenario}.{call.name}"].append(time.perf_counter() - began)
            host.end()
    for host in hosts.values():
        host.close()
    lines = [f"{'tool':44}{'calls':>8}{'switched':>10}{'dedicated':>10}{'ratio':>8}"]
    for name, times in sorted(switched.items()):
        mine, other = median(times) * 1e6, median(dedicated[name]) * 1e6
        lines.append(f"{name:44}{len(times):8}{mine:10.1f}{other:10.1f}{mine / other:8.2f}")
    return "\n".join(lines)


def lives(worlds: Worlds, shape: Shape) -> list[Figure]:
    """Lease, reset, fork and snapshot: the median of each run, on a wall clock."""
    found = defaultdict(list)
    for run in range(shape.runs):
        held = leases(worlds, shape.live)
        play(held, interleaved(shape.live, seed=run))
        found["lease"].append(_p50_us(lease.world.lease for lease in held))
        found["fork"].append(_p50_us(lease.fork for lease in held))
        found["snapshot"].append(_p50_us(lease.state for lease in held))
        found["reset"].append(_p50_us(lease.reset for lease in held))
    return [
        figure("lease, p50", "µs", found["lease"], reach=20, aim=5),
        figure("fork after an episode, p50", "µs", found["fork"]),
        figure("snapshot after an episode, p50", "µs", found["snapshot"]),
        figure("reset after an episode, p50", "µs", found["reset"]),
    ]


def _p50_us(works: Iterable[Callable[[], object]]) -> float:
    times = []
    for work in works:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times) * 1e6


def figures(shape: Shape) -> list[Figure]:
    """All figures of the world store. Memory is measured first, while the heap is fresh."""
    pool = LocalPool()
    worlds = hosted(pool)
    resident = memory(worlds, shape.worlds)
    found = [*lives(worlds, shape), *allocations(worlds, min(shape.worlds, 1024)), *resident]
    found += switching(worlds, shape)
    pool.close()
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--live", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", action="store_true", help="every tool on a line of its own")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    shape = Shape(options.worlds, options.live, options.runs)
    if options.kinds:
        pool = LocalPool()
        print(by_kind(hosted(pool), shape))
        pool.close()
        return
    tell(figures(shape), options.json)


if __name__ == "__main__":
    main()
