"""Many AWM records at once: hosting them cold, their calls, their memory, and verdicts.

    python -m benchmarks.many_scenarios --scenarios 60
    python -m benchmarks.many_scenarios --scenarios 1000 --rounds 1

The records are variants of the test fixture's. Memory is the proportional set (PSS) of the pool's
processes: a page that N of them share counts 1/N in each. CPU is that of the pool, the fork server
and the workers. A verdict is timed alone, with a pause before each, in which the pool forks the
next process; its CPU has that fork, the sandbox and the end of its process.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
import psutil

from benchmarks.awm_hosting import Episode, episodes_of, hosted_caller, play
from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import Scenario

_FIXTURE = Path(__file__).parent.parent / "tests" / "fixtures" / "awm"
_VERDICTS = 20
_PAUSE = 0.3  # seconds before each verdict
_HOSTED_AT_ONCE = 16


def variant(scenario: Scenario, number: int) -> Scenario:
    """The same record under another name and digest."""
    digest = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    return msgspec.structs.replace(scenario, name=f"{scenario.name}_{number}", digest=digest)


def proportional_mb() -> float:
    """The proportional set of this process's descendants, in MB; reading it needs root."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended since
            total += process.memory_full_info().pss
    return total / 2**20


def cpu_s() -> float:
    """CPU seconds of this process and its descendants, those that have ended included."""
    own = psutil.Process()
    times = [own.cpu_times()]
    for each in own.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times.append(each.cpu_times())
    ended = sum(each.children_user + each.children_system for each in times[1:])
    return ended + sum(each.user + each.system for each in times)


async def measure(num: int, workers: int, rounds: int) -> list[Figure]:
    """All figures."""
    first = AwmFolder(_FIXTURE).find("e_commerce_lab_1")
    scenarios = [variant(first, number) for number in range(num)]
    episodes = episodes_of(_FIXTURE, num)
    async with WorkerPool(WorkerSettings(workers=workers)) as pool:
        began, cpu = time.perf_counter(), cpu_s()
        limiter = anyio.CapacityLimiter(_HOSTED_AT_ONCE)

        async def host(scenario: Scenario) -> None:
            async with limiter:
                await pool.host(scenario)

        async with anyio.create_task_group() as group:
            for scenario in scenarios:
                group.start_soon(host, scenario)
        cold_s, cold_cpu_s, hosted_mb = (
            time.perf_counter() - began,
            cpu_s() - cpu,
            proportional_mb(),
        )

        async def run(scenario: Scenario, episode: Episode) -> None:
            async with pool.lease(scenario) as env:
                await play([hosted_caller(env)], [episode])

        for _ in range(rounds):  # the last is measured: code is warm
            cpu = cpu_s()
            async with anyio.create_task_group() as group:
                for scenario, episode in zip(scenarios, episodes, strict=True):
                    group.start_soon(run, scenario, episode)
            call_ms = (cpu_s() - cpu) * 1000 / sum(map(len, episodes))
        used_mb, verdicts = proportional_mb(), []
        start = pool.hosted(scenarios[0]).start
        for _ in range(_VERDICTS):
            await anyio.sleep(_PAUSE)
            began = time.perf_counter()
            await pool.verify(scenarios[0], scenarios[0].tasks[0], start, "done")
            verdicts.append((time.perf_counter() - began) * 1000)
        cpu = cpu_s()
        for _ in range(_VERDICTS):  # without pauses, in which the pool looks at its processes
            await pool.verify(scenarios[0], scenarios[0].tasks[0], start, "done")
        await anyio.sleep(_PAUSE)
        verdict_ms = (cpu_s() - cpu) * 1000 / _VERDICTS
        evicted = pool.statistics()["workers_evicted"]
    return [
        figure(f"hosting {num} scenarios, cold", "s", [cold_s], reach=12 * num / 60),
        figure(f"CPU of hosting {num} scenarios", "s", [cold_cpu_s]),
        figure("CPU of a call", "ms", [call_ms]),
        figure("memory when all are hosted (PSS)", "MB", [hosted_mb]),
        figure("memory after 30 calls each (PSS)", "MB", [used_mb]),
        figure("a verdict", "ms", verdicts),
        figure("CPU of a verdict", "ms", [verdict_ms]),
        figure("processes ended to free memory", "", [evicted]),
    ]


@benchmark(__doc__)
@count_option("--scenarios", 60, "Records that are hosted.")
@count_option("--workers", 2, "Processes that may execute at a time.")
@count_option("--rounds", 3, "Episodes of each record, of which the last is measured.")
def main(scenarios: int, workers: int, rounds: int) -> list[Figure]:
    """The command line."""
    return anyio.run(measure, scenarios, workers, rounds, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    main()
