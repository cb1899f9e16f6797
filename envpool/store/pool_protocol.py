"""The Protocol that pools of worlds keep, wherever their worlds are."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from envpool.core.types import Env
from envpool.store.states import States
from scenarios.format import Scenario, Task


class Pool(Protocol):
    """Where worlds are leased."""

    @property
    def num_live(self) -> int:
        """Worlds that are live now."""

    @property
    def max_live(self) -> int:
        """Worlds that were live at once, at most."""

    def lease(self, scenario: Scenario, task: Task | None) -> AbstractAsyncContextManager[Env]:
        """A fresh world, live until the block is left. Raises PoolError."""

    async def host(self, scenario: Scenario) -> States:
        """Get the scenario ready; gives what can be read of its states. Raises PoolError."""

    def hosted(self, scenario: Scenario) -> States:
        """The same of a scenario that is ready."""

    def statistics(self) -> dict[str, int]:
        """Counts of what the pool did and holds."""
