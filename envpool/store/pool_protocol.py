"""The Protocol of every pool of worlds, in this process or elsewhere."""

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, StoredState
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.format import Scenario, Task

VerifierKind = Literal["code", "sql"]  # AWM tasks may have both; our own format has `code` only


class Pool(Protocol):
    """Leases worlds."""

    @property
    def num_live(self) -> int:
        """Worlds that are live now."""

    @property
    def max_live(self) -> int:
        """The largest number of worlds that were live at once."""

    def lease(self, scenario: Scenario, task: Task | None) -> AbstractAsyncContextManager[Env]:
        """A fresh world, live until the block is left. Raises PoolError."""

    async def host(self, scenario: Scenario) -> States:
        """Prepare the scenario; returns read access to its states. Raises PoolError."""

    def hosted(self, scenario: Scenario) -> States:
        """The same for a scenario that is already hosted."""

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, verifiers included, runs in worker processes only."""

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """The result of the task's verifier on the state and answer at the end of an episode.

        A verifier that breaks is reported as `fault`. Raises PoolError when the scenario cannot be
        hosted here, or the state does not belong to it.
        """

    def statistics(self) -> dict[str, int]:
        """Counts of the pool's work and of its worlds."""
