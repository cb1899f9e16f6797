"""What the harness costs around the tool calls: whole rollouts with an instant policy.

    python -m benchmarks.rollout --episodes 1024 --concurrency 1024 --runs 5

The oracle plays the bundled worlds; log, bus, windows and code judge are on, as in
`rehearse bench`. `overhead_ratio` is the CPU of the whole by the CPU of its bare calls, run by run
(see harness.reports.bench). The breakdown measures the same episodes with parts left out, all in
one process and in turns, as CPU for each tool call:

    dedicated   the bare calls, on one warm connection a scenario
    switched    the same calls through leases, interleaved
    episodes    episode loop, windows, dialect and policy; facts are stamped and dropped
    logged      and log, bus and monitor
    judged      and the code judge: the whole
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import anyio
import msgspec

from benchmarks.figures import Figure, figure, quiet, tell
from benchmarks.world_store import play, play_dedicated
from benchmarks.worlds import hosted, in_order, interleaved, leases, tasks
from envpool.inprocess.dedicated_connection import Dedicated
from envpool.inprocess.pool import LocalPool
from harness.core.events import Record
from harness.dialects.format_rules import FormatSettings
from harness.dialects.registry import dialect_of
from harness.history.windows import HistoryManager, parse_history
from harness.log.recorder import Recorder
from harness.policies.base import Policy
from harness.policies.oracle import OraclePolicy
from harness.reports.bench import BenchReport
from harness.reports.bench import measure as report_on
from harness.rollout.deadlines import Watchdog
from harness.rollout.episode import Limits, RunContext, run_episode
from harness.rollout.meters import Meters
from harness.rollout.plan import EpisodePlan, plan_of
from harness.rollout.scheduler import run_all
from harness.rollout.session import RunParts, run_session
from judge.verdicts.code_judges import ScenarioJudges


class Shape(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int = 1024
    concurrency: int = 1024
    runs: int = 5


class Dropped:
    """A log that keeps nothing. It implements harness.log.recorder.Sink."""

    def append(self, record: Record) -> None:
        """Drop it."""

    async def wait_for_room(self) -> None:
        """There is room."""

    async def flush(self) -> int:
        """Nothing is kept."""
        return 0


class Theatre:
    """The bundled worlds with their judge, shared by all runs of one process."""

    def __init__(self) -> None:
        self.pool = LocalPool()
        self.worlds = hosted(self.pool)
        self._court = ScenarioJudges(self.pool, [world.scenario for world in self.worlds.values()])
        self.dialect = dialect_of("native")

    def parts(self, policy: Policy, *, judged: bool = True) -> RunParts:
        """What a run is made of."""
        return RunParts(
            self.pool,
            policy,
            self.dialect,
            parse_history("full"),
            FormatSettings(),
            Limits(max_steps=40),
            self._court if judged else None,
        )

    def run(self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int) -> BenchReport:
        """The report on a whole run. Its log is kept no longer than it is measured."""
        with tempfile.TemporaryDirectory() as folder:
            meters = self.session(Path(folder), self.parts(policy), plans, concurrency)
            return report_on(Path(folder), meters, self.worlds, concurrency=concurrency)

    def session_cpu(
        self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int, *, judged: bool
    ) -> float:
        """CPU seconds of a whole run, with a judge or without."""
        with tempfile.TemporaryDirectory() as folder:
            parts = self.parts(policy, judged=judged)
            return self.session(Path(folder), parts, plans, concurrency).cpu_s

    def session(
        self, folder: Path, parts: RunParts, plans: Iterable[EpisodePlan], concurrency: int
    ) -> Meters:
        """What a run took whose log is left in the folder."""

        async def session() -> Meters:
            meters = Meters()
            await run_session(folder, plans, parts, concurrency=concurrency, meters=meters)
            return meters

        return anyio.run(session, backend_options={"use_uvloop": True})

    def episodes_cpu(self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int) -> float:
        """CPU seconds of the episodes alone, whose facts nobody keeps."""
        parts = self.parts(policy)

        async def episodes() -> float:
            windows = HistoryManager()
            context = RunContext(
                pool=parts.pool,
                policy=parts.policy,
                dialect=parts.dialect,
                history=parts.history,
                format=parts.format,
                limits=parts.limits,
                recorder=Recorder(Dropped(), folds=(windows.handle,)),
                windows=windows,
                watchdog=Watchdog(),
                meters=Meters(),
            )
            began = time.process_time()
            await run_all(plans, lambda plan: run_episode(plan, context), concurrency=concurrency)
            return time.process_time() - began

        return anyio.run(episodes, backend_options={"use_uvloop": True})


def figures(shape: Shape) -> list[Figure]:
    """The overhead, and what each part of it costs."""
    theatre = Theatre()
    policy = OraclePolicy(theatre.dialect)
    hosts = [Dedicated(world.scenario, world.template) for world in theatre.worlds.values()]
    host_of = dict(zip(theatre.worlds, hosts, strict=True))
    played = in_order(shape.episodes)
    num_calls = sum(map(len, played))
    found: dict[str, list[float]] = {}
    reports: list[BenchReport] = []

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds / num_calls * 1e6)

    for run in range(shape.runs + 1):
        if run == 1:  # the first pass prepared what is prepared once
            found.clear()
            reports.clear()
        plans = list(plan_of(tasks(), episodes=shape.episodes, group_size=1, seed=run))
        gc.collect()
        note("dedicated", play_dedicated(host_of, played))
        held = leases(theatre.worlds, shape.episodes)
        note("switched", play(held, interleaved(shape.episodes, seed=run)))
        del held
        note("episodes", theatre.episodes_cpu(policy, plans, shape.concurrency))
        note("logged", theatre.session_cpu(policy, plans, shape.concurrency, judged=False))
        reports.append(theatre.run(policy, plans, shape.concurrency))
        note("judged", reports[-1].cpu_s)
    for host in hosts:
        host.close()
    theatre.pool.close()
    ratios = [report.overhead_ratio for report in reports]
    return [
        figure("overhead_ratio", "", ratios, reach=6, aim=3),
        *(figure(f"CPU a call, {name}", "µs", values) for name, values in found.items()),
        figure("lease in the run, p50", "µs", (report.lease_us.p50 for report in reports)),
        figure("episodes a second", "", (report.episodes_per_s for report in reports)),
        figure("pass rate", "", (report.pass_rate for report in reports)),
    ]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--concurrency", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    tell(figures(Shape(options.episodes, options.concurrency, options.runs)), options.json)


if __name__ == "__main__":
    main()
