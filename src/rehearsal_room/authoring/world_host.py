"""Hosts procedural worlds while they are made: scenarios.generate.core.world_host on envpool's
HostedScenario."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.generate.core.package import Package, digest_of
from rehearsal_room.scenarios.generate.core.world_host import HostedOutcome


class LeasedRun:
    """One lease of a world. It implements scenarios.generate.core.world_host.WorldRun."""

    def __init__(self, world: HostedScenario) -> None:
        self._lease = world.lease()
        self._results: list[ToolResult] = []

    def call(self, name: str, arguments: dict[str, Any]) -> HostedOutcome:
        """Execute one call."""
        result = self._lease.call(name, arguments)
        self._results.append(result)
        return HostedOutcome(result.text, result.error is not None, bool(result.changes))

    def changes(self) -> Sequence[RowChange]:
        """The rows that differ from the start, by table and key."""
        return net_changes(result.changes for result in self._results)


class HostedWorld:
    """A hosted package. It implements scenarios.generate.core.world_host.SeededWorld."""

    def __init__(self, world: HostedScenario) -> None:
        self._world = world

    def start_run(self) -> LeasedRun:
        """A fresh copy of the world."""
        return LeasedRun(self._world)


@contextmanager
def host_in_process(package: Package) -> Iterator[HostedWorld]:
    """Host a package without tasks, seeded in memory. Raises SeedError and ToolsetError.

    It implements scenarios.generate.core.world_host.WorldHost.
    """
    scenario = Scenario(
        name=package.name,
        title=package.title,
        version="1.0.0",
        description=package.description,
        clock=package.clock,
        user=package.user,
        schema_sql=package.schema_sql,
        data_sql=package.data_sql,
        rules=package.policy,
        tasks=(),
        path=Path(package.name),
        digest=digest_of({"tools.py": package.tools}),
    )
    tools = load(scenario, package.tools, schemas=False)
    with closing(HostedScenario(scenario, tools=tools)) as world:
        yield HostedWorld(world)
