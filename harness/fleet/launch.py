"""Launching a run whose episodes are played in several processes.

The processes inherit settings, plan and imported modules by `fork`, before anything here has a
thread, a connection or an event loop. Scenarios are hosted in them; this process hosts them only
for a judge that asks models, and afterwards for what a benchmark measures.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
)
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.bus.mqtt_settings import broker_of
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import read_chaos
from rehearsal_room.harness.continuation.forks import beginning_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.loop_lag import LagMonitor
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.fleet.coordinator import StartWorker, start_workers
from rehearsal_room.harness.fleet.fork_server import ForkServer
from rehearsal_room.harness.fleet.process_worker import ProcessWorker, WorkerHandle
from rehearsal_room.harness.fleet.session import Fleet, run_fleet
from rehearsal_room.harness.fleet.worker import WorkerSpec, work
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.log.writer import open_sqlite
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.launch import (
    After,
    Launched,
    OpenJudge,
    admission_of,
    begin_folder,
    link_of,
    planned,
    pool_of,
    preflight,
    removed_if_nothing_happened,
    require_new,
    spent_on_verdicts,
    warn_of_mismatches,
)
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.policies import LocalPolicy, open_policy, unplayed_lines
from rehearsal_room.harness.rollout.process import raise_file_limit, run
from rehearsal_room.harness.rollout.remaining import Remaining, read_remaining
from rehearsal_room.harness.rollout.running import Judge, SessionParts
from rehearsal_room.harness.rollout.session import sole_exception
from rehearsal_room.harness.settings.judge import asks_models, judges_in_workers
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.users.left_out import num_left_out, report_left_out
from rehearsal_room.scenarios.format import Scenario, Task

# Opens what starts workers; it is closed after the run. No thread or event loop was started before.
Engine = Callable[[WorkerSpec], AbstractContextManager[StartWorker]]


def launch_processes(settings: Settings, folder: Path, **arguments: Any) -> Launched:
    """Run the episodes of the settings in `settings.processes` processes of this machine; the
    arguments are those of `launch_workers`. Raises also SettingsError for a policy that cannot be
    in several processes."""
    _require_divisible(settings)
    return launch_workers(settings, folder, engine=_forked, **arguments)


def launch_workers(
    settings: Settings,
    folder: Path,
    *,
    engine: Engine,
    resume: bool,
    open_judge: OpenJudge | None,
    local_policy: LocalPolicy | None = None,
    policy: OpenPolicy | None = None,
    after: After | None = None,
    progress: bool = True,
    names_trusted_here: bool = False,
) -> Launched:
    """Run the episodes of the settings in workers that the engine starts; else the same as
    `rehearsal_room.harness.rollout.launch.launch`. `after` gets a pool of this process, which is
    opened for it. `names_trusted_here`: the trusted packages are named by this process, not by the
    first worker.

    Raises also ProcessError where the workers die again and again.
    """
    require_new(folder, resume=resume)
    tasks, plans = planned(settings)
    client = policy or open_policy(settings, plans, local_policy)
    if settings.bus.url:
        broker_of(settings.bus)  # before any file is written
    parse_history(settings.history)
    file = read_chaos(settings)
    chaos = None if file is None else Chaos(file, settings, "coordinator")
    if chaos is not None:
        open_judge = chaos.judge(open_judge)
    raise_file_limit(settings.max_concurrency + 256)
    tune_garbage_collector()
    judges_here = open_judge is not None and not judges_in_workers(settings.judge.mode)
    hosts_here = judges_here and asks_models(settings.judge.mode)
    spec = WorkerSpec(
        settings=settings,
        folder=folder,
        tasks=tasks,
        plans=plans,
        policy=client,
        open_judge=None if judges_here else open_judge,
        beginning=beginning_of(settings, folder, tasks),
        names_trusted=not (hosts_here or names_trusted_here),
        chaos=file,
    )
    coordinating = _Coordinating(
        settings,
        folder,
        tasks,
        plans,
        client,
        open_judge,
        judges_here,
        after,
        resume,
        progress,
        chaos,
    )
    with removed_if_nothing_happened(folder), engine(spec) as start:
        try:
            if names_trusted_here:
                run(_name_trusted, settings, tasks)
            launched: Launched = run(coordinating.launch, start)
        except BaseExceptionGroup as group:
            failure = sole_exception(group)
            if failure is group:
                raise
            raise failure from failure.__cause__
    return launched


def _require_divisible(settings: Settings) -> None:
    """Raise SettingsError for a policy that must be in one process."""
    if settings.policy.name == "local":
        raise SettingsError(
            "processes: policy 'local' has its model in the process that plays; serve the model "
            "with `rehearse serve-policy` and play with --policy openai, or leave --processes out"
        )
    if not hasattr(os, "fork"):
        raise SettingsError("processes: this system cannot fork processes; leave --processes out")


@contextmanager
def _forked(spec: WorkerSpec) -> Iterator[StartWorker]:
    """The engine of this machine: processes forked from one that was forked now."""
    with closing(ForkServer(partial(_work, spec))) as server:
        yield partial(ProcessWorker, server)


def _work(spec: WorkerSpec, sock: socket.socket, number: int) -> None:
    """Be the rollout process of this number."""
    names_trusted = spec.names_trusted and number == 0
    share = share_of(spec.settings, number)
    work(msgspec.structs.replace(spec, settings=share, names_trusted=names_trusted), sock)


def share_of(settings: Settings, number: int) -> Settings:
    """One process's share of the settings: concurrency and sandbox workers are divided.

    Example: concurrency 5 of 2 processes -> 3, 2; auto -> auto for each
    """
    concurrency = settings.concurrency
    if not settings.is_adaptive:
        concurrency = _share(settings.number_at_once, settings.processes, number)
    total = settings.worlds.workers or len(os.sched_getaffinity(0))
    worlds = msgspec.structs.replace(
        settings.worlds, workers=max(1, _share(total, settings.processes, number))
    )
    return msgspec.structs.replace(settings, concurrency=concurrency, worlds=worlds)


def _share(total: int, parts: int, number: int) -> int:
    return total // parts + (number < total % parts)


@contextmanager
def ended_on_failure(handles: Sequence[WorkerHandle]) -> Iterator[None]:
    """A block whose exception ends these workers: also those that were given no work yet."""
    try:
        yield
    except BaseException:
        for handle in handles:
            handle.end()
        raise


class _Coordinating(msgspec.Struct, frozen=True):
    """One launch's work inside of the coordinator's event loop."""

    settings: Settings
    folder: Path
    tasks: list[tuple[Scenario, Task]]
    plans: list[EpisodePlan]
    client: OpenPolicy | None
    open_judge: OpenJudge | None
    judges_here: bool
    after: After | None
    resume: bool
    progress: bool
    chaos: Chaos | None

    async def launch(self, start: StartWorker) -> Launched:
        settings, folder = self.settings, self.folder
        left = await self._remaining()
        if left.missing:
            await preflight(settings, self.client)
        if self.chaos is not None:
            start = self.chaos.start_process(start)
        num_episodes = len(left.missing) + len(left.unjudged) * (not self.judges_here)
        num_workers = min(settings.processes, settings.max_concurrency, num_episodes)
        handles, level, worlds = await start_workers(
            start, num_workers, silence=settings.process_timeout
        )
        console = Terminal(stderr=True)
        if level:
            console.print(f"sandbox for untrusted code: {level}", highlight=False)
        left_out = num_left_out(settings.scenarios, self.tasks)
        report_left_out(left_out, "--dialogue plays them, too")
        if note := unplayed_lines(settings, self.plans):
            console.print(note, highlight=False, soft_wrap=True)
        warn_of_mismatches(settings, parse_history(settings.history), console)
        begin_folder(folder, settings, self.tasks, level=level)
        meters = Meters(lag=LagMonitor())
        with ended_on_failure(handles):
            admission = admission_of(settings, self.client)
            statistics = await self._run(left, handles, worlds, start, meters, admission)
        settled = None if admission is None else admission.settled
        return Launched(meters, statistics, await self._after(meters), settled)

    async def _run(
        self,
        left: Remaining,
        handles: Sequence[WorkerHandle],
        worlds: Sequence[ScenarioSnapshot],
        start: StartWorker,
        meters: Meters,
        admission: AdaptiveAdmission | None,
    ) -> dict[str, float]:
        """Play and judge with these workers; return the policy's statistics."""
        settings, folder = self.settings, self.folder
        async with self._judge() as judge:
            if judge is not None and (left.missing or left.unjudged):
                await preflight(settings, judge)
            fleet = Fleet(
                handles=handles,
                worlds=worlds,
                start=start,
                shares=[share_of(settings, one.number).number_at_once for one in handles],
                timeout=settings.process_timeout,
                judges=self.open_judge is not None and not self.judges_here,
            )
            parts = SessionParts(
                judge=judge,
                link=link_of(settings, folder, len(self.plans), self.chaos)
                if settings.bus.url
                else None,
                admission=admission,
                faults=self.chaos,
                open_database=open_sqlite
                if self.chaos is None
                else self.chaos.database(open_sqlite),
            )
            return await run_fleet(
                folder,
                left,
                fleet,
                parts,
                meters=meters,
                resume=self.resume,
                console=Terminal(stderr=True) if self.progress else None,
            )

    async def _remaining(self) -> Remaining:
        judged = self.open_judge is not None
        read = partial(read_remaining, self.folder, self.plans, resume=self.resume, judged=judged)
        return await anyio.to_thread.run_sync(read)

    @asynccontextmanager
    async def _judge(self) -> AsyncIterator[Judge | None]:
        """The judge, if it judges in this process."""
        if self.open_judge is None or not self.judges_here:
            yield None
            return
        scenarios = _scenarios_of(self.tasks)
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(pool_of(self.settings))
            if asks_models(self.settings.judge.mode):
                await pool.host_all(scenarios)
            spent = spent_on_verdicts(self.folder) if self.resume else 0.0
            opened = self.open_judge(
                pool=pool, scenarios=scenarios, folder=self.folder, spent=spent
            )
            yield await stack.enter_async_context(opened)

    async def _after(self, meters: Meters) -> Any:
        if self.after is None:
            return None
        async with pool_of(self.settings, report_trusted=_name_none) as pool:
            await pool.host_all(_scenarios_of(self.tasks))
            return await self.after(pool, meters)


def _scenarios_of(tasks: Sequence[tuple[Scenario, Task]]) -> list[Scenario]:
    return [scenario for scenario, _ in tasks]


async def _name_trusted(settings: Settings, tasks: Sequence[tuple[Scenario, Task]]) -> None:
    async with pool_of(settings) as pool:
        pool.announce(_scenarios_of(tasks))


def _name_none(_scenarios: Sequence[Scenario]) -> None:
    """The processes have named them."""
