"""The rollout benchmark: episodes run as always, then measured against their bare tool calls.

`bare_cpu_s` is the CPU time of the very calls that the run made, in its order, on one warm
connection a scenario (envpool.inprocess.dedicated_connection): arguments checked, statements run
in a transaction,
result written as JSON, and nothing around them. Calls that run in workers are made again there,
back to back. `overhead_ratio` is the run's CPU time, its workers' included, by that.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envpool.inprocess.dedicated_connection import Dedicated
from envpool.router import RoutingPool
from envpool.store.states import States
from harness.core.events import Label
from harness.core.messages import Act
from harness.log.reader import LogReader, open_reader
from harness.rollout.meters import Meters, Quantiles, quantiles_of
from scenarios.format import Scenario

_REPEATS = 3  # of the bare calls; the median counts


class BenchReport(msgspec.Struct, frozen=True):
    """What `rehearse bench --json` says. Seconds, microseconds (`_us`) and milliseconds (`_ms`)."""

    episodes: int
    steps: int
    tool_calls: int
    wall_s: float
    cpu_s: float
    episodes_per_s: float
    tool_calls_per_s: float
    bare_cpu_s: float
    overhead_ratio: float
    lease_us: Quantiles
    call_us: Quantiles
    step_us: Quantiles
    loop_lag_ms: Quantiles
    rss_mb: float  # at its peak
    rss_per_live_world_kb: float
    max_live: int
    pass_rate: float
    endings: dict[str, int]
    labels: dict[str, int]
    unjudged: int
    concurrency: int
    policy: dict[str, float] = {}  # the policy's own statistics, where it has some


Calls = list[tuple[str, Any]]  # of one episode: tool and arguments


def measure(
    folder: Path,
    meters: Meters,
    world_of: Mapping[str, States],
    *,
    concurrency: int,
    policy: dict[str, float] | None = None,
    bare_elsewhere_s: float = 0.0,
) -> BenchReport:
    """The report on a finished run, from its log and its meters.

    `world_of` by scenario's name: those whose calls run in this process. `bare_elsewhere_s` is
    `bare_cpu_s` of the others.
    """
    with open_reader(folder) as reader:
        rows = reader.episodes()
        played = list(_played(reader))
    endings: dict[str, int] = {}
    labels: dict[str, int] = {}
    for row in rows:
        endings[str(row.ending)] = endings.get(str(row.ending), 0) + 1
        if row.label is not None:
            labels[str(row.label)] = labels.get(str(row.label), 0) + 1
    num_calls = sum(len(calls) for _, calls in played)
    here = [(name, calls) for name, calls in played if name in world_of]
    bare = bare_elsewhere_s + (bare_cpu_s(here, world_of) if num_calls else 0.0)
    verdicts = sum(labels.values())
    return BenchReport(
        episodes=len(rows),
        steps=sum(row.num_steps for row in rows),
        tool_calls=num_calls,
        wall_s=meters.wall_s,
        cpu_s=meters.cpu_s,
        episodes_per_s=len(rows) / meters.wall_s,
        tool_calls_per_s=num_calls / meters.wall_s,
        bare_cpu_s=bare,
        overhead_ratio=meters.cpu_s / bare if bare else 0.0,
        lease_us=quantiles_of(meters.leases, scale=1e6),
        call_us=quantiles_of(meters.calls, scale=1e6),
        step_us=quantiles_of(meters.steps, scale=1e6),
        loop_lag_ms=quantiles_of(meters.lags, scale=1e3),
        rss_mb=meters.rss_max / 2**20,
        rss_per_live_world_kb=meters.rss_per_live_world_kb,
        max_live=meters.live_max,
        pass_rate=labels.get(Label.COMPLETED, 0) / verdicts if verdicts else 0.0,
        endings=endings,
        labels=labels,
        unjudged=sum(row.label is None for row in rows),
        concurrency=concurrency,
        policy=policy or {},
    )


async def bare_outside_s(folder: Path, pool: RoutingPool, scenarios: Sequence[Scenario]) -> float:
    """`bare_cpu_s` of the calls that ran in workers, made again there. Raises PoolError."""
    outside = {scenario.name: scenario for scenario in scenarios if pool.isolates(scenario)}
    if not outside:
        return 0.0
    calls: dict[str, list[Calls]] = {name: [] for name in outside}
    with open_reader(folder) as reader:
        for name, made in _played(reader):
            if name in outside and made:
                calls[name].append(made)
    total = 0.0
    for name, episodes in calls.items():
        if episodes:
            total += await pool.bare_cpu_s(outside[name], episodes)
    return total


def bare_cpu_s(played: list[tuple[str, Calls]], world_of: Mapping[str, States]) -> float:
    """CPU seconds of the episodes' calls alone: the median of several passes after a warm-up."""
    hosts = {
        name: Dedicated(world.scenario, world.template)
        for name, world in world_of.items()
        if any(scenario == name for scenario, _ in played)
    }
    try:
        _one_pass(played, hosts)  # warms up
        passes = sorted(_one_pass(played, hosts) for _ in range(_REPEATS))
    finally:
        for host in hosts.values():
            host.close()
    return passes[_REPEATS // 2]


def _one_pass(played: list[tuple[str, Calls]], hosts: dict[str, Dedicated]) -> float:
    total = 0.0
    for scenario, calls in played:
        host = hosts[scenario]
        host.begin()
        began = time.thread_time()
        for name, arguments in calls:
            host.call(name, arguments)
        total += time.thread_time() - began
        host.end()
    return total


def _played(reader: LogReader) -> Iterator[tuple[str, Calls]]:
    """Each episode's scenario and the calls that its world was asked."""
    for trajectory in reader.trajectories():
        calls = [
            (call.name, call.arguments)
            for step in trajectory.steps
            if isinstance(step.decision, Act)
            for call, result in zip(step.decision.calls, step.results, strict=False)
            if result.digest
        ]
        yield trajectory.started.scenario, calls
