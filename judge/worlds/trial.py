"""Worlds that are being made, hosted: the Trial of scenarios.generate on envpool's
HostedScenario."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from envpool.core.types import ToolResult
from envpool.inprocess.toolset import load
from envpool.inprocess.world import HostedScenario
from envpool.store.changes import net_changes
from scenarios.api import RowChange
from scenarios.format import Scenario
from scenarios.generate.core.package import Package, digest_of
from scenarios.generate.core.world_host import CallOutcome


class WorldAttempt:
    """Calls on a lease of their own."""

    def __init__(self, world: HostedScenario) -> None:
        self._lease = world.lease()
        self._results: list[ToolResult] = []

    def call(self, name: str, arguments: dict[str, Any]) -> CallOutcome:
        """Play one call."""
        result = self._lease.call(name, arguments)
        self._results.append(result)
        return CallOutcome(result.text, result.error is not None, bool(result.changes))

    def changes(self) -> Sequence[RowChange]:
        """What differs from the start, by table and key."""
        return net_changes(result.changes for result in self._results)


class WorldStage:
    """A hosted package."""

    def __init__(self, world: HostedScenario) -> None:
        self._world = world

    def start_run(self) -> WorldAttempt:
        """A fresh start."""
        return WorldAttempt(self._world)


@contextmanager
def hosted(package: Package) -> Iterator[WorldStage]:
    """A package without tasks, seeded in memory. Raises SeedError and ToolsetError."""
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
    with closing(HostedScenario(scenario, tools=load(scenario, package.tools))) as world:
        yield WorldStage(world)
