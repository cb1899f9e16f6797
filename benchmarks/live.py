"""Ten thousand episodes live at once in one process, whose agents think for seconds.

    python -m benchmarks.live --episodes 10000 --think 1:5 --runs 1

All start together; log, bus, windows and code judge are on. Each run is a process of its own, so
that its peak of memory is its own. Loop lag is how much later than asked a sleeping task wakes.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.figures import Figure, figure, quiet, tell
from benchmarks.rollout import Theatre
from benchmarks.worlds import tasks
from harness.policies.latency import LatencyPolicy
from harness.policies.oracle import OraclePolicy
from harness.reports.bench import BenchReport
from harness.rollout.gc_tuning import tune_garbage_collector
from harness.rollout.plan import plan_of


class Shape(msgspec.Struct, frozen=True):
    """How much is measured; `low` to `high` are the seconds of a think time."""

    episodes: int = 10_000
    low: float = 1.0
    high: float = 5.0
    runs: int = 1


def run_once(shape: Shape) -> BenchReport:
    """The report on one run, in this process."""
    theatre = Theatre()
    tune_garbage_collector()
    policy = LatencyPolicy(OraclePolicy(theatre.dialect), shape.low, shape.high)
    plans = plan_of(tasks(), episodes=shape.episodes, group_size=1, seed=0)
    report = theatre.run(policy, plans, shape.episodes)
    theatre.pool.close()
    return report


def figures(shape: Shape) -> list[Figure]:
    """The figures of several runs."""
    reports = []
    for _ in range(shape.runs):
        given = msgspec.json.encode(shape).decode()
        command = [sys.executable, "-m", "benchmarks.live", "--once", given]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        reports.append(msgspec.json.decode(done.stdout, type=BenchReport))
    lags = [report.loop_lag_ms for report in reports]
    return [
        figure("loop lag p99", "ms", (lag.p99 for lag in lags), reach=50, aim=10),
        figure("loop lag p50", "ms", (lag.p50 for lag in lags)),
        figure("loop lag p95", "ms", (lag.p95 for lag in lags)),
        figure("loop lag max", "ms", (lag.max for lag in lags)),
        figure("resident memory at its peak", "MB", (r.rss_mb for r in reports), reach=3072),
        figure("the same a live episode", "KB", (r.rss_per_live_world_kb for r in reports)),
        figure("live at once", "", (r.max_live for r in reports)),
        figure("CPU a step, live", "µs", (r.cpu_s / r.steps * 1e6 for r in reports)),
        figure("pass rate, live", "", (r.pass_rate for r in reports)),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--think", default="1:5", help="seconds, low:high")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    if options.once:
        report = run_once(msgspec.json.decode(options.once, type=Shape))
        sys.stdout.write(msgspec.json.encode(report).decode())
        return
    low, high = map(float, options.think.split(":"))
    tell(figures(Shape(options.episodes, low, high, options.runs)), options.json)


if __name__ == "__main__":
    main()
