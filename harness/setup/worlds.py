"""The source of a run's worlds, and the pool that hosts them, as the settings say."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from rehearsal_room.envpool.router import ReportTrusted, RoutingPool
from rehearsal_room.envpool.sources.base import SourceArguments, WorldSource
from rehearsal_room.envpool.sources.registry import source_of
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.workers.pool import OpenSpawner, WorkerSettings, open_fork_server
from rehearsal_room.harness.settings.mcp import mcp_targets, variable_names
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.worlds import WorldSettings
from rehearsal_room.harness.setup.trust_notice import name_trusted
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags


def world_source(worlds: WorldSettings) -> WorldSource:
    """Where the worlds come from. Raises ScenarioError."""
    return source_of(source_arguments(worlds))


def source_arguments(worlds: WorldSettings) -> SourceArguments:
    """What the settings and the environment say about the source of worlds."""
    return SourceArguments(
        pool=worlds.pool,
        mcp=mcp_targets(worlds),
        openenv=worlds.openenv,
        suite=worlds.suite,
        suite_flags=SuiteFlags(
            worlds.suite_path,
            worlds.suite_python,
            variable_names(worlds),
            worlds.suite_servers,
            worlds.suite_model,
            worlds.suite_prompts,
            worlds.suite_tasks,
        ),
        awm=worlds.awm,
        seeding=worlds.seeding,
        token=os.environ.get("REHEARSE_TOKEN", ""),
    )


@asynccontextmanager
async def pool_of(
    settings: Settings,
    *,
    report_trusted: ReportTrusted = name_trusted,
    open_spawner: OpenSpawner = open_fork_server,
) -> AsyncIterator[RoutingPool]:
    """The pool of the settings. `report_trusted` gets the packages that run in this process; it
    names them on standard error. `open_spawner` returns what starts the workers. Raises PoolError
    and ScenarioError."""
    worlds, call_timeout = settings.worlds, settings.limits.call_timeout
    workers = WorkerSettings(
        workers=worlds.workers or 0,
        memory_mb=worlds.worker_memory_mb,
        sandbox=worlds.sandbox,
    )
    if call_timeout is not None:
        workers = msgspec.structs.replace(workers, call_deadline=call_timeout)
    async with AsyncExitStack() as stack:
        outside: Pool | None = None
        if (opened := world_source(worlds).pool()) is not None:
            outside = await stack.enter_async_context(opened)
        pool = RoutingPool(
            workers,
            isolate=worlds.isolate,
            elsewhere=outside,
            report_trusted=report_trusted,
            open_spawner=open_spawner,
        )
        yield await stack.enter_async_context(pool)
