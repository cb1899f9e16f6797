"""Measure what the harness adds to the tool calls: whole rollouts with an instant policy.

    python -m benchmarks.rollout --episodes 1024 --concurrency 1024 --runs 5

The oracle acts in the bundled worlds; log, bus, windows and code judge are on, as in
`rehearse bench`. `overhead_ratio` is the CPU of the whole divided by the CPU of its bare calls, for
each run (see harness.reports.bench). The breakdown measures the same episodes with components left
out, all in one process and in turns, as CPU for each tool call:

    dedicated   the bare calls, on one warm connection for each scenario
    switched    the same calls through leases, interleaved
    episodes    episode loop, windows, dialect and policy; events are stamped and dropped
    logged      the same with log, bus and monitor
    judged      the same with the code judge: the whole
"""

import gc
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import anyio
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from benchmarks.world_store import play, play_dedicated
from benchmarks.worlds import calls_in_order, host_worlds, interleaved_calls, lease_worlds, tasks
from rehearsal_room.envpool.inprocess.dedicated_connection import DedicatedConnection
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.reports.bench import BenchReport
from rehearsal_room.harness.reports.bench import measure as report_on
from rehearsal_room.harness.rollout.deadlines import Watchdog
from rehearsal_room.harness.rollout.episode import RunContext, run_episode
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.scheduler import run_all
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges


class Workload(msgspec.Struct, frozen=True):
    """How much is measured."""

    episodes: int = 1024
    concurrency: int = 1024
    runs: int = 5


class NullSink:
    """A log that stores nothing. It implements harness.log.recorder.RecordSink."""

    def append(self, record: Record) -> None:
        """Drop the record."""

    async def wait_for_room(self) -> None:
        """Return at once: there is always room."""

    async def flush(self) -> int:
        """0: nothing is stored."""
        return 0


class RolloutBench:
    """The bundled worlds with their judge, shared by all runs of one process."""

    def __init__(self) -> None:
        self.pool = LocalPool()
        self.worlds = host_worlds(self.pool)
        self._judge = ScenarioJudges(self.pool, [world.scenario for world in self.worlds.values()])
        self.dialect = dialect_of("native")

    def parts(self, policy: Policy, *, judged: bool = True) -> RunParts:
        """The components of a run."""
        return RunParts(
            pool=self.pool,
            policy=policy,
            dialect=self.dialect,
            history=parse_history("full"),
            format=FormatSettings(),
            limits=Limits(max_steps=40),
            judge=self._judge if judged else None,
        )

    def run(self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int) -> BenchReport:
        """The report on a whole run. Its log is deleted afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            meters = self.session(Path(folder), self.parts(policy), plans, concurrency)
            return report_on(Path(folder), meters, self.worlds, concurrency=concurrency)

    def session_cpu(
        self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int, *, judged: bool
    ) -> float:
        """CPU seconds of a whole run, with the code judge or without."""
        with tempfile.TemporaryDirectory() as folder:
            parts = self.parts(policy, judged=judged)
            return self.session(Path(folder), parts, plans, concurrency).cpu_s

    def session(
        self, folder: Path, parts: RunParts, plans: Iterable[EpisodePlan], concurrency: int
    ) -> Meters:
        """The measurements of one run, which leaves its log in the folder."""

        async def session() -> Meters:
            meters = Meters()
            await run_session(folder, plans, parts, concurrency=concurrency, meters=meters)
            return meters

        return anyio.run(session, backend_options={"use_uvloop": True})

    def episodes_cpu(self, policy: Policy, plans: Iterable[EpisodePlan], concurrency: int) -> float:
        """CPU seconds of the episodes alone: their events are dropped."""
        parts = self.parts(policy)

        async def episodes() -> float:
            context = RunContext(
                pool=parts.pool,
                policy=parts.policy,
                dialect=parts.dialect,
                history=parts.history,
                format=parts.format,
                limits=parts.limits,
                recorder=Recorder(NullSink()),
                watchdog=Watchdog(),
                meters=Meters(),
            )
            began = time.process_time()
            await run_all(plans, lambda plan: run_episode(plan, context), concurrency=concurrency)
            return time.process_time() - began

        return anyio.run(episodes, backend_options={"use_uvloop": True})


def figures(load: Workload) -> list[Figure]:
    """The overhead ratio, and the cost of each component."""
    bench = RolloutBench()
    policy = OraclePolicy(bench.dialect)
    hosts = [DedicatedConnection(world.scenario, world.template) for world in bench.worlds.values()]
    host_of = dict(zip(bench.worlds, hosts, strict=True))
    episodes = calls_in_order(load.episodes)
    num_calls = sum(map(len, episodes))
    found: dict[str, list[float]] = {}
    reports: list[BenchReport] = []

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds / num_calls * 1e6)

    for run in range(load.runs + 1):
        if run == 1:  # run 0 warmed up statements and caches
            found.clear()
            reports.clear()
        plans = list(plan_of(tasks(), episodes=load.episodes, group_size=1, seed=run))
        gc.collect()
        note("dedicated", play_dedicated(host_of, episodes))
        live = lease_worlds(bench.worlds, load.episodes)
        note("switched", play(live, interleaved_calls(load.episodes, seed=run)))
        del live
        note("episodes", bench.episodes_cpu(policy, plans, load.concurrency))
        note("logged", bench.session_cpu(policy, plans, load.concurrency, judged=False))
        reports.append(bench.run(policy, plans, load.concurrency))
        note("judged", reports[-1].cpu_s)
    for host in hosts:
        host.close()
    bench.pool.close()
    ratios = [report.overhead_ratio for report in reports]
    return [
        figure("overhead_ratio", "", ratios, reach=6, aim=3),
        *(figure(f"CPU of a call, {name}", "µs", values) for name, values in found.items()),
        figure("lease in the run, p50", "µs", (report.lease_us.p50 for report in reports)),
        figure("episodes per second", "", (report.episodes_per_s for report in reports)),
        figure("pass rate", "", (report.pass_rate for report in reports)),
    ]


@benchmark(__doc__)
@count_option("--episodes", 1024, "Episodes of each run.")
@count_option("--concurrency", 1024, "Episodes live at once.")
@runs_option(5)
def main(episodes: int, concurrency: int, runs: int) -> list[Figure]:
    """The command line."""
    return figures(Workload(episodes, concurrency, runs))


if __name__ == "__main__":
    main()
