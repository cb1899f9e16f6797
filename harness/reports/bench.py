"""The rollout benchmark: a usual run, measured against its bare tool calls.

`bare_cpu_s` is the CPU time of the same calls as in the run, in its order, on one warm connection
per scenario (envpool.inprocess.dedicated_connection): arguments checked, statements run in a
transaction, the result written as JSON, and nothing else. Calls that ran in workers are repeated
there, back to back. `overhead_ratio` is the run's CPU time, its workers included, divided by
`bare_cpu_s`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.envpool.inprocess.dedicated_connection import DedicatedConnection
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.admission.adaptive import Settled
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.outcomes.model_failures import failure_causes, lacks_model
from rehearsal_room.harness.outcomes.scores import tally
from rehearsal_room.harness.reports.faults import FaultCounts, faults_in
from rehearsal_room.harness.reports.summary import players
from rehearsal_room.harness.rollout.meters import Meters, Quantiles, quantiles_of
from rehearsal_room.scenarios.format import Scenario

_REPEATS = 3  # of the bare calls; the median counts


class ModelTraffic(msgspec.Struct, frozen=True):
    """The requests of a run to a model behind HTTP."""

    requests: int  # attempts, failed ones included
    requests_per_s: float
    retries: int
    failed: int  # requests without a reply after their last attempt
    rate_limited: int  # responses of status 429
    rate_limited_s: float  # waits that rate limits asked for, summed over their requests
    latency_ms: Quantiles  # from sending to the last byte, of requests that were answered
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_per_s: float
    completion_tokens_per_s: float
    max_in_flight: int
    mean_in_flight: float
    lowest_limit: int = 0  # the fewest requests that overload left to be in flight at once


class AdmissionReport(msgspec.Struct, frozen=True):
    """How many episodes ran at once."""

    settled: int  # the number given, or what adaptive admission settled at
    reason: str  # a sentence
    adaptive: bool = False


class BenchReport(msgspec.Struct, frozen=True):
    """The result of `rehearse bench`, as `--json` writes it. Times are in seconds (`_s`),
    microseconds (`_us`) and milliseconds (`_ms`)."""

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
    max_live: int  # the most worlds live at once
    pass_rate: float
    endings: dict[str, int]
    labels: dict[str, int]
    unjudged: int
    concurrency: int
    policy: dict[str, float] = {}  # the policy's own statistics; empty: it has none
    model: ModelTraffic | None = None  # None: no model behind HTTP played
    admission: AdmissionReport = AdmissionReport(0, "")
    model_failures: int = 0  # episodes that ended because the model could not answer
    model_failure_causes: dict[str, int] = {}  # such episodes by cause, the most frequent first
    model_refusals: int = 0  # episodes that ended because the model's provider withheld a reply
    faults: dict[str, FaultCounts] = {}  # on purpose, by their kind; empty: none was injected
    without_verdict: int = 0  # episodes that say nothing about the agent
    pass_bounds: tuple[float, float] = (0.0, 1.0)  # whatever those had been
    played_by: str = ""  # the policy with its model, as in `openai:gpt-5`

    @property
    def lacks_model(self) -> bool:
        """Whether so many episodes failed for want of a model that the run shows nothing."""
        return lacks_model(self.model_failures, self.episodes)


ReplayedCalls = list[tuple[str, Any]]  # the calls of one episode: tool and arguments


def measure(
    folder: Path,
    meters: Meters,
    world_of: Mapping[str, States],
    *,
    concurrency: int,
    worker_bare_cpu_s: float = 0.0,
) -> BenchReport:
    """The report on a finished run, from its log and its meters.

    `world_of` has by name the scenarios whose calls run in this process. `worker_bare_cpu_s` is
    `bare_cpu_s` of the other scenarios.
    """
    with open_reader(folder) as reader:
        rows = reader.episodes()
        episodes = list(_executed_calls(reader))
        faults = faults_in(reader)
    endings: dict[str, int] = {}
    labels: dict[str, int] = {}
    for row in rows:
        endings[str(row.ending)] = endings.get(str(row.ending), 0) + 1
        if row.label is not None:
            labels[str(row.label)] = labels.get(str(row.label), 0) + 1
    num_calls = sum(len(calls) for _, calls in episodes)
    counted = tally(rows)
    in_process = [(name, calls) for name, calls in episodes if name in world_of]
    bare = worker_bare_cpu_s + (bare_cpu_s(in_process, world_of) if num_calls else 0.0)
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
        pass_rate=counted.rate or 0.0,
        endings=endings,
        labels=labels,
        unjudged=sum(row.label is None for row in rows),
        concurrency=concurrency,
        model_failures=endings.get(Ending.POLICY_ERROR, 0),
        model_failure_causes=failure_causes(rows),
        model_refusals=endings.get(Ending.MODEL_REFUSED, 0),
        faults=faults,
        without_verdict=counted.without,
        pass_bounds=counted.bounds,
        played_by=players(rows),
    )


def with_policy(report: BenchReport, statistics: Mapping[str, float]) -> BenchReport:
    """The report with the statistics of the policy that played."""
    traffic = _traffic(statistics, report.wall_s) if "latency_p50_s" in statistics else None
    return msgspec.structs.replace(report, policy=dict(statistics), model=traffic)


def with_admission(report: BenchReport, settled: Settled | None) -> BenchReport:
    """The report with what admission settled at (None: the number of episodes was given)."""
    if settled is None:
        given = AdmissionReport(report.concurrency, "the number does not adapt")
        return msgspec.structs.replace(report, admission=given)
    admission = AdmissionReport(settled.limit, settled.reason, True)
    return msgspec.structs.replace(report, admission=admission, concurrency=settled.limit)


def _traffic(statistics: Mapping[str, float], wall_s: float) -> ModelTraffic:
    """The traffic of a chat client (see harness.chat.client.ChatClient.statistics) in a run."""
    latencies = (statistics[f"latency_{name}_s"] * 1e3 for name in ("p50", "p95", "p99", "max"))
    return ModelTraffic(
        requests=int(statistics["requests"]),
        requests_per_s=statistics["requests"] / wall_s,
        retries=int(statistics["retries"]),
        failed=int(statistics["failed"]),
        rate_limited=int(statistics["rate_limited"]),
        rate_limited_s=statistics["paused_s"],
        latency_ms=Quantiles(*latencies),
        prompt_tokens=int(statistics["prompt_tokens"]),
        completion_tokens=int(statistics["completion_tokens"]),
        prompt_tokens_per_s=statistics["prompt_tokens"] / wall_s,
        completion_tokens_per_s=statistics["completion_tokens"] / wall_s,
        max_in_flight=int(statistics["max_in_flight"]),
        mean_in_flight=statistics["in_flight_s"] / wall_s,
        lowest_limit=int(statistics["lowest_limit"]),
    )


async def bare_cpu_s_in_workers(
    folder: Path, pool: RoutingPool, scenarios: Sequence[Scenario]
) -> float:
    """`bare_cpu_s` of the calls that ran in workers, repeated there. Raises PoolError."""
    isolated = {scenario.name: scenario for scenario in scenarios if pool.isolates(scenario)}
    if not isolated:
        return 0.0
    episodes_of: dict[str, list[ReplayedCalls]] = {name: [] for name in isolated}
    with open_reader(folder) as reader:
        for name, calls in _executed_calls(reader):
            if name in isolated and calls:
                episodes_of[name].append(calls)
    total = 0.0
    for name, episodes in episodes_of.items():
        if episodes:
            total += await pool.bare_cpu_s(isolated[name], episodes)
    return total


def bare_cpu_s(episodes: list[tuple[str, ReplayedCalls]], world_of: Mapping[str, States]) -> float:
    """CPU seconds of the episodes' calls alone: the median of several passes after a warm-up."""
    hosts = {
        name: DedicatedConnection(world.scenario, world.template)
        for name, world in world_of.items()
        if any(scenario == name for scenario, _ in episodes)
    }
    try:
        _one_pass(episodes, hosts)  # the warm-up
        passes = sorted(_one_pass(episodes, hosts) for _ in range(_REPEATS))
    finally:
        for host in hosts.values():
            host.close()
    return passes[_REPEATS // 2]


def _one_pass(
    episodes: list[tuple[str, ReplayedCalls]], hosts: dict[str, DedicatedConnection]
) -> float:
    total = 0.0
    for scenario, calls in episodes:
        host = hosts[scenario]
        host.begin()
        began = time.thread_time()
        for name, arguments in calls:
            host.call(name, arguments)
        total += time.thread_time() - began
        host.end()
    return total


def _executed_calls(reader: LogReader) -> Iterator[tuple[str, ReplayedCalls]]:
    """Each episode's scenario and the calls that its world executed."""
    for trajectory in reader.trajectories():
        calls = [
            (call.name, call.arguments)
            for step in trajectory.steps
            if isinstance(step.decision, Act)
            for call, result in zip(step.decision.calls, step.results, strict=False)
            if result.digest and not result.injected
        ]
        yield trajectory.started.scenario, calls
