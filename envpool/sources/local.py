"""Worlds of this machine: packages by name or path, and the records of AgentWorldModel-1K."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from rehearsal_room.envpool.sources.base import SourceArguments
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios import catalogue
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import Scenario


class LocalPackages:
    """Scenario packages: bundled ones by name, others by path. A WorldSource."""

    needs_call_timeout = False
    has_solutions = True

    def names(self, given: Sequence[str]) -> Sequence[str]:
        """See WorldSource."""
        return given

    def find(self, name: str) -> Scenario:
        """See WorldSource."""
        return catalogue.find(name)

    def logged_finder(self) -> Callable[[str], Scenario]:
        """See WorldSource."""
        return catalogue.find

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """See WorldSource."""
        return None


class AwmRecords(LocalPackages):
    """The records in a folder of AgentWorldModel-1K's files. A WorldSource."""

    def __init__(self, arguments: SourceArguments) -> None:
        self._folder = AwmFolder(Path(arguments.awm), seeding=arguments.seeding)

    def find(self, name: str) -> Scenario:
        """See WorldSource."""
        return self._folder.find(name)
