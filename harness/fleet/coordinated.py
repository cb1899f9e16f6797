"""A run whose episodes are played by workers; this process coordinates them.

Scenarios are hosted in the workers; this process hosts them only for a judge that asks models, and
afterwards for what a benchmark measures.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.continuation.forks import beginning_of
from rehearsal_room.harness.core.loop_lag import LagMonitor
from rehearsal_room.harness.fleet.coordinator import StartWorker, start_workers
from rehearsal_room.harness.fleet.engine import share_of
from rehearsal_room.harness.fleet.faulty_processes import with_process_faults
from rehearsal_room.harness.fleet.process_worker import WorkerHandle
from rehearsal_room.harness.fleet.session import Fleet, run_fleet
from rehearsal_room.harness.fleet.worker import WorkerSpec
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.running import Judge, SessionParts
from rehearsal_room.harness.settings.judge import judges_in_workers, needs_models
from rehearsal_room.harness.setup.launching import Launch, Launched
from rehearsal_room.harness.setup.parts import admission_of, link_of, preflight
from rehearsal_room.harness.setup.rehearsal import find_server, rehearse_for_workers
from rehearsal_room.harness.setup.run_folder import (
    begin_folder,
    keep_adaptations,
    spent_on_verdicts,
)
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.scenarios.format import Scenario


def worker_spec(launch: Launch, chaos: ChaosFile) -> WorkerSpec:
    """What the workers of a run play with. Raises SettingsError and LogError."""
    settings = launch.settings
    judges_here = _judges_here(launch)
    hosts_here = judges_here and needs_models(settings.judge)
    return WorkerSpec(
        settings=settings,
        folder=launch.folder,
        tasks=launch.tasks,
        plans=launch.plans,
        policy=launch.policy,
        open_judge=None if judges_here else launch.open_judge,
        beginning=beginning_of(settings, launch.folder, launch.tasks),
        names_trusted=not hosts_here,
        chaos=chaos,
    )


async def play_in_workers(launch: Launch, start: StartWorker, *, announces: bool) -> Launched:
    """Play a run in workers that `start` starts. `announces`: this process names the trusted
    packages, not the first worker. Raises as `play_here` does, and ProcessError where the workers
    die again and again."""
    settings, folder, judges_here = launch.settings, launch.folder, _judges_here(launch)
    if announces:
        async with pool_of(settings) as pool:
            pool.announce(_scenarios(launch))
    left = await launch.remaining()
    if left.missing:
        await find_server(settings, launch.policy)
        await rehearse_for_workers(settings, launch.policy, left.missing)
    start = with_process_faults(start, launch.chaos.injector)
    num_episodes = len(left.missing) + len(left.unjudged) * (not judges_here)
    num_workers = min(settings.processes, settings.max_concurrency, num_episodes)
    handles, level, worlds = await start_workers(
        start, num_workers, silence=settings.process_timeout
    )
    fleet = Fleet(
        handles=handles,
        worlds=worlds,
        start=start,
        shares=[share_of(settings, one.number).number_at_once for one in handles],
        timeout=settings.process_timeout,
        judges=launch.open_judge is not None and not judges_here,
    )
    meters, admission = Meters(lag=LagMonitor()), admission_of(settings, launch.policy)
    with ended_on_failure(handles):
        console = launch.notices(level)
        begin_folder(folder, settings, launch.tasks, level=level)
        async with _judge(launch) as judge:
            if judge is not None and (left.missing or left.unjudged):
                await preflight(settings.model, judge)
            parts = SessionParts(
                judge=judge,
                link=link_of(
                    settings.bus, folder, episodes=len(launch.plans), judge=settings.judge.mode
                ),
                admission=admission,
            )
            statistics = await run_fleet(
                folder,
                left,
                fleet,
                launch.chaos.session(parts),
                meters=meters,
                resume=launch.resume,
                console=console if launch.progress else None,
            )
    keep_adaptations(folder, settings, statistics)
    settled = None if admission is None else admission.settled
    return Launched(meters, statistics, await _after(launch, meters), settled)


@contextmanager
def ended_on_failure(handles: Sequence[WorkerHandle]) -> Iterator[None]:
    """A block whose exception ends these workers: also those that were given no work yet."""
    try:
        yield
    except BaseException:
        for handle in handles:
            handle.end()
        raise


def _judges_here(launch: Launch) -> bool:
    return launch.open_judge is not None and not judges_in_workers(launch.settings.judge)


@asynccontextmanager
async def _judge(launch: Launch) -> AsyncIterator[Judge | None]:
    """The judge, if it judges in this process."""
    if launch.open_judge is None or not _judges_here(launch):
        yield None
        return
    scenarios = _scenarios(launch)
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(pool_of(launch.settings))
        if needs_models(launch.settings.judge):
            await pool.host_all(scenarios)
        spent = spent_on_verdicts(launch.folder) if launch.resume else 0.0
        opened = launch.open_judge(
            pool=pool, scenarios=scenarios, folder=launch.folder, spent=spent
        )
        yield await stack.enter_async_context(opened)


async def _after(launch: Launch, meters: Meters) -> Any:
    """The result of `after`, which gets a pool that is opened for it."""
    if launch.after is None:
        return None
    async with pool_of(launch.settings, report_trusted=_name_none) as pool:
        await pool.host_all(_scenarios(launch))
        return await launch.after(pool, meters)


def _scenarios(launch: Launch) -> list[Scenario]:
    return [scenario for scenario, _ in launch.tasks]


def _name_none(_scenarios: Sequence[Scenario]) -> None:
    """The processes have named them."""
