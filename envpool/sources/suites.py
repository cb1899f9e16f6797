"""The worlds of a suite, a third-party benchmark: objects of its own code, or MCP servers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.envpool.sources.base import SourceArguments
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.catalogue import SuiteFinder, SuiteSource, suite


class SuiteWorlds:
    """The entries of one suite. Its data is read when it is first needed. A WorldSource."""

    def __init__(self, arguments: SourceArguments) -> None:
        """Raises UnknownScenario."""
        self.suite = suite(arguments.suite)
        self._flags = arguments.suite_flags

    @property
    def needs_call_timeout(self) -> bool:
        """See WorldSource."""
        return not self.suite.adapter

    @property
    def has_solutions(self) -> bool:
        """See WorldSource. Raises ScenarioError where the data is not there."""
        _ = self.data
        return self.suite.has_solutions

    @cached_property
    def data(self) -> SuiteSource:
        """The suite's data. Raises ScenarioError."""
        return self.suite.open(self._flags)

    @cached_property
    def _finder(self) -> SuiteFinder:
        return SuiteFinder(self.suite, self.data)

    def names(self, given: Sequence[str]) -> Sequence[str]:
        """See WorldSource. A category stands for its entries."""
        return [
            name
            for one in given
            for name in ([*self._finder.of(one)] if one in self.suite.categories else [one])
        ]

    def find(self, name: str) -> Scenario:
        """See WorldSource."""
        return self._finder.find(name)

    def logged_finder(self) -> Callable[[str], Scenario]:
        """See WorldSource."""
        return self._finder.find

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """See WorldSource."""
        if self.suite.adapter:
            options = self.data.options()
            flags = self._flags
            program = ProgramSettings(self.suite.adapter, options, flags.python, flags.variables)
            return ObjectPool(program)
        try:
            from rehearsal_room.envpool.served.needs import ServedSettings
            from rehearsal_room.envpool.served.pool import ServedPool
        except ModuleNotFoundError as exc:
            raise PoolError(missing_package("mcp", exc, "mcp")) from exc
        return ServedPool(ServedSettings(self._flags.python, self._flags.variables))
