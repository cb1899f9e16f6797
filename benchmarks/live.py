"""Measure ten thousand episodes live at once in one process, with agents that think for seconds.

    python -m benchmarks.live --episodes 10000 --think 1:5 --runs 1

All start together; log, bus, windows and code judge are on. Each run is a separate process, so
that its memory peak is its own. Loop lag is how much later than requested a sleeping task wakes up.
"""

import subprocess
import sys

import click
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.rollout import RolloutBench
from benchmarks.worlds import tasks
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.latency import LatencyPolicy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.reports.bench import BenchReport
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.settings.policy import think_range


class Workload(msgspec.Struct, frozen=True):
    """How much is measured; a think time lasts `low` to `high` seconds."""

    episodes: int = 10_000
    low: float = 1.0
    high: float = 5.0
    runs: int = 1


def run_once(load: Workload) -> BenchReport:
    """The report on one run, in this process."""
    bench = RolloutBench()
    tune_garbage_collector()
    policy = LatencyPolicy(OraclePolicy(bench.dialect), load.low, load.high)
    plans = plan_of(tasks(), episodes=load.episodes, group_size=1, seed=0)
    report = bench.run(policy, plans, load.episodes)
    bench.pool.close()
    return report


def figures(load: Workload) -> list[Figure]:
    """The figures of several runs."""
    reports = []
    for _ in range(load.runs):
        encoded = msgspec.json.encode(load).decode()
        command = [sys.executable, "-m", "benchmarks.live", "--once", encoded]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        reports.append(msgspec.json.decode(done.stdout, type=BenchReport))
    lags = [report.loop_lag_ms for report in reports]
    return [
        figure("loop lag p99", "ms", (lag.p99 for lag in lags), reach=50, aim=10),
        figure("loop lag p50", "ms", (lag.p50 for lag in lags)),
        figure("loop lag p95", "ms", (lag.p95 for lag in lags)),
        figure("loop lag max", "ms", (lag.max for lag in lags)),
        figure("resident memory at its peak", "MB", (r.rss_mb for r in reports), reach=3072),
        figure("the same for each live episode", "KB", (r.rss_per_live_world_kb for r in reports)),
        figure("live at once", "", (r.max_live for r in reports)),
        figure("CPU of a step, live", "µs", (r.cpu_s / r.steps * 1e6 for r in reports)),
        figure("pass rate, live", "", (r.pass_rate for r in reports)),
    ]


def _think_range(
    _context: click.Context, _option: click.Parameter, text: str
) -> tuple[float, float]:
    try:
        return think_range(text)
    except SettingsError as exc:
        raise click.BadParameter(str(exc)) from exc


@benchmark(__doc__)
@count_option("--episodes", 10_000, "Episodes live at once.")
@click.option(
    "--think",
    metavar="LOW:HIGH",
    default="1:5",
    callback=_think_range,
    help="Seconds that an agent thinks before each reply, drawn uniformly.",
)
@runs_option(1)
@click.option("--once", metavar="JSON", hidden=True, help="Print the report on one run.")
def main(
    episodes: int, think: tuple[float, float], runs: int, once: str | None
) -> list[Figure] | None:
    """The command line."""
    if once is None:
        return figures(Workload(episodes, *think, runs))
    report = run_once(msgspec.json.decode(once, type=Workload))
    sys.stdout.write(msgspec.json.encode(report).decode())
    return None


if __name__ == "__main__":
    main()
