"""Measure what a world costs: its lease, memory, reset and fork, and a call that switches to it.

    python -m benchmarks.world_store --worlds 10000 --live 1024 --runs 5

A call that switches worlds is timed as thousands of live episodes make it: the oracle's calls of
the bundled worlds, interleaved in a seeded order, through `Lease.call`, with its changes, digest
and transaction. It is compared with the same calls on one warm connection for each scenario
(envpool.inprocess.dedicated_connection), episode after episode, with nothing around them. Both are
measured as CPU time, in turns, in one process, and the ratio is computed for each run.
"""

import gc
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

import click
import msgspec
import psutil

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.worlds import (
    Call,
    calls_in_order,
    host_worlds,
    interleaved_calls,
    lease_worlds,
)
from rehearsal_room.envpool.inprocess.dedicated_connection import DedicatedConnection
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.inprocess.world import HostedScenario, Lease

Worlds = dict[str, HostedScenario]
Times = dict[str, list[float]]  # tool -> seconds of each call


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    worlds: int = 10_000  # leased at once when memory is measured
    live: int = 1024  # leased at once when calls are measured
    runs: int = 5


def memory(worlds: Worlds, count: int) -> list[Figure]:
    """Resident memory of one more live world: the slope from the first tenth of the worlds to all
    of them."""
    first = count // 10
    process = psutil.Process()
    live = lease_worlds(worlds, first)
    fresh = process.memory_info().rss
    live += lease_worlds(worlds, count, first=first)
    fresh = process.memory_info().rss - fresh
    calls = list(interleaved_calls(count, seed=0))
    play(live, (call for call in calls if call.episode < first))
    played = process.memory_info().rss
    play(live, (call for call in calls if call.episode >= first))
    played = process.memory_info().rss - played
    return [
        figure("resident memory of a fresh world", "KB", [fresh / 1024 / (count - first)]),
        figure("the same after its episode", "KB", [(fresh + played) / 1024 / (count - first)]),
    ]


def allocations(worlds: Worlds, count: int) -> list[Figure]:
    """Memory that Python allocated for one more live world and did not free."""
    tracemalloc.start()
    live = lease_worlds(worlds, count)
    fresh = tracemalloc.get_traced_memory()[0]
    play(live, interleaved_calls(count, seed=0))
    gc.collect()
    played = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return [
        figure("memory of a fresh world", "KB", [fresh / 1024 / count], reach=4, aim=1),
        figure("memory after its episode", "KB", [played / 1024 / count], reach=60, aim=25),
    ]


def play(live: list[Lease], calls: Iterable[Call]) -> float:
    """CPU seconds of these calls on these worlds. Raises RuntimeError when a call fails."""
    ready = [(live[call.episode], call.name, call.arguments, call.id) for call in calls]
    began = time.thread_time()
    results = [lease.call(*call) for lease, *call in ready]
    spent = time.thread_time() - began
    if any(result.is_error for result in results):
        raise RuntimeError(next(result.text for result in results if result.is_error))
    return spent


def play_dedicated(hosts: dict[str, DedicatedConnection], episodes: list[list[Call]]) -> float:
    """CPU seconds of these calls on one warm connection for each scenario, episode by episode."""
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


def switching(worlds: Worlds, load: Workload) -> list[Figure]:
    """CPU of calls that switch worlds and of the same calls on warm connections."""
    hosts = {
        name: DedicatedConnection(world.scenario, world.template) for name, world in worlds.items()
    }
    episodes = calls_in_order(load.live)
    num_calls = sum(map(len, episodes))
    switched, dedicated = [], []
    for run in range(load.runs + 1):
        gc.collect()
        dedicated.append(play_dedicated(hosts, episodes) / num_calls * 1e6)
        live = lease_worlds(worlds, load.live)
        switched.append(play(live, interleaved_calls(load.live, seed=run)) / num_calls * 1e6)
    del switched[0], dedicated[0]  # the first pass prepares the statements
    ratios = [s / d for s, d in zip(switched, dedicated, strict=True)]
    for host in hosts.values():
        host.close()
    return [
        figure("switched call ÷ dedicated", "", ratios, reach=1.8, aim=1.3),
        figure("switched call", "µs", switched),
        figure("dedicated call", "µs", dedicated),
    ]


def tool_table(worlds: Worlds, load: Workload) -> str:
    """The same for each tool, as a table: medians in µs of single calls, by the wall clock."""
    hosts = {
        name: DedicatedConnection(world.scenario, world.template) for name, world in worlds.items()
    }
    switched: Times = defaultdict(list)
    dedicated: Times = defaultdict(list)
    for run in range(load.runs):
        live = lease_worlds(worlds, load.live)
        for call in interleaved_calls(load.live, seed=run):
            began = time.perf_counter()
            live[call.episode].call(call.name, call.arguments, call.id)
            switched[f"{call.scenario}.{call.name}"].append(time.perf_counter() - began)
        for calls in calls_in_order(load.live):
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
        switching_us, dedicated_us = median(times) * 1e6, median(dedicated[name]) * 1e6
        ratio = switching_us / dedicated_us
        lines.append(f"{name:44}{len(times):8}{switching_us:10.1f}{dedicated_us:10.1f}{ratio:8.2f}")
    return "\n".join(lines)


def lifecycle(worlds: Worlds, load: Workload) -> list[Figure]:
    """Lease, reset, fork and snapshot: the median of each run, by the wall clock."""
    found = defaultdict(list)
    for run in range(load.runs):
        live = lease_worlds(worlds, load.live)
        play(live, interleaved_calls(load.live, seed=run))
        found["lease"].append(_p50_us(lease.world.lease for lease in live))
        found["fork"].append(_p50_us(lease.fork for lease in live))
        found["snapshot"].append(_p50_us(lease.state for lease in live))
        found["reset"].append(_p50_us(lease.reset for lease in live))
    return [
        figure("lease, p50", "µs", found["lease"], reach=20, aim=5),
        figure("fork after an episode, p50", "µs", found["fork"]),
        figure("snapshot after an episode, p50", "µs", found["snapshot"]),
        figure("reset after an episode, p50", "µs", found["reset"]),
    ]


def _p50_us(actions: Iterable[Callable[[], object]]) -> float:
    times = []
    for action in actions:
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return median(times) * 1e6


def figures(load: Workload) -> list[Figure]:
    """All figures of the world store. Memory is measured first, while the heap is new."""
    pool = LocalPool()
    worlds = host_worlds(pool)
    resident = memory(worlds, load.worlds)
    found = [*lifecycle(worlds, load), *allocations(worlds, min(load.worlds, 1024)), *resident]
    found += switching(worlds, load)
    pool.close()
    return found


@benchmark(__doc__)
@count_option("--worlds", 10_000, "Worlds leased at once when memory is measured.")
@count_option("--live", 1024, "Worlds leased at once when calls are measured.")
@runs_option(5)
@click.option("--kinds", is_flag=True, help="Print a table with a line for each tool instead.")
def main(worlds: int, live: int, runs: int, kinds: bool) -> list[Figure] | None:
    """The command line."""
    load = Workload(worlds, live, runs)
    if not kinds:
        return figures(load)
    pool = LocalPool()
    print(tool_table(host_worlds(pool), load))
    pool.close()
    return None


if __name__ == "__main__":
    main()
