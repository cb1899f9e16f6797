"""The sources of worlds, by the argument that names one."""

from collections.abc import Callable

import msgspec

from rehearsal_room.envpool.sources.base import SourceArguments, WorldSource
from rehearsal_room.envpool.sources.foreign import McpServers, OpenEnvServer
from rehearsal_room.envpool.sources.leased import LeasedWorlds
from rehearsal_room.envpool.sources.local import AwmRecords, LocalPackages
from rehearsal_room.envpool.sources.suites import SuiteWorlds


def _leased(arguments: SourceArguments) -> WorldSource:
    scenarios = source_of(msgspec.structs.replace(arguments, pool=""))
    return LeasedWorlds(arguments.pool, scenarios, token=arguments.token)


SOURCES: dict[str, Callable[[SourceArguments], WorldSource]] = {
    "pool": _leased,
    "mcp": McpServers,
    "openenv": OpenEnvServer,
    "suite": SuiteWorlds,
    "awm": AwmRecords,
}


def source_of(arguments: SourceArguments) -> WorldSource:
    """The source that the arguments name: the first of SOURCES that is set, else the packages of
    this machine. Raises ScenarioError."""
    for name, make in SOURCES.items():
        if getattr(arguments, name):
            return make(arguments)
    return LocalPackages()
