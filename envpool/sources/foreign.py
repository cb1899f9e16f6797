"""The worlds of someone else's server, MCP or OpenEnv. Scenarios are files of tasks."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.openenv.pool import OpenEnvPool
from rehearsal_room.envpool.sources.base import SourceArguments
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks, read_openenv_tasks


class _TaskFiles:
    """What the sources of this module share."""

    needs_call_timeout = True
    has_solutions = True

    def __init__(self, arguments: SourceArguments, find: Callable[[str], Scenario]) -> None:
        self.find = find
        self._arguments = arguments

    def names(self, given: Sequence[str]) -> Sequence[str]:
        """See WorldSource."""
        return given

    def logged_finder(self) -> Callable[[str], Scenario]:
        """See WorldSource."""
        return self.find


class McpServers(_TaskFiles):
    """MCP servers, each a URL or a command, which are one world. A WorldSource."""

    def __init__(self, arguments: SourceArguments) -> None:
        given = "\n".join(target.given for target in arguments.mcp)
        super().__init__(arguments, lambda name: read_mcp_tasks(Path(name), given))

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """See WorldSource."""
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Pool]:
        try:
            from rehearsal_room.envpool.mcp.client import McpSettings
            from rehearsal_room.envpool.mcp.pool import McpPool
        except ModuleNotFoundError as exc:
            raise PoolError(missing_package("mcp", exc, "mcp")) from exc
        first, *others = (
            McpSettings(**msgspec.structs.asdict(target)) for target in self._arguments.mcp
        )
        yield McpPool(first, others)


class OpenEnvServer(_TaskFiles):
    """One OpenEnv environment. A WorldSource."""

    def __init__(self, arguments: SourceArguments) -> None:
        super().__init__(arguments, lambda name: read_openenv_tasks(Path(name), arguments.openenv))

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """See WorldSource."""
        return OpenEnvPool(self._arguments.openenv, token=self._arguments.token)
