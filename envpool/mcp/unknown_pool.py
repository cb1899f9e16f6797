"""What pools share whose worlds do not reveal their state: no stored states, no verifier of them.

MCP servers (envpool.mcp, envpool.served), OpenEnv environments (envpool.openenv) and imported
conversations (interop.imports) are such worlds. See envpool.mcp.unknown_states.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, StoredState, ToolSpec
from rehearsal_room.envpool.mcp.unknown_states import UnknownStates
from rehearsal_room.envpool.store.pool_protocol import VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.format import Scenario, Task


class UnknownPool(ABC):
    """Counts the leases, and keeps what is known of each scenario: its tools. With `lease` and
    `host` it implements envpool.store.pool_protocol.Pool."""

    why_not_verified = "its state is unknown"  # ends the sentence that `verify` raises

    def __init__(self) -> None:
        self._states: dict[str, States] = {}  # scenario digest -> its states
        self.num_live = 0
        self.max_live = 0
        self.num_calls = 0
        self._num_leases = 0

    @abstractmethod
    async def host(self, scenario: Scenario) -> States:
        """Check that the world works, and list its tools. Raises PoolError."""

    @abstractmethod
    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        """A world for this lease alone."""

    @abstractmethod
    def _tools_of(self, scenario: Scenario) -> Iterable[ToolSpec]:
        """The tools of a scenario's world, once it is hosted."""

    def hosted(self, scenario: Scenario) -> States:
        """Read access to the states of a hosted scenario: only its tools are known."""
        states = self._states.get(scenario.digest)
        if states is None:
            states = UnknownStates(scenario, self._tools_of(scenario))
            self._states[scenario.digest] = states
        return states

    def isolates(self, scenario: Scenario) -> bool:
        """Always False: there are no workers."""
        return False

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """Raises PoolError: the state is unknown, so `Env.check` verifies in the live world."""
        raise PoolError(
            f"scenario {scenario.name!r} has no stored states to verify: {self.why_not_verified}"
        )

    def statistics(self) -> dict[str, int]:
        return {
            "worlds": len(self._states),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": self._num_leases,
            "calls": self.num_calls,
        }

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a lease while it lasts."""
        self._num_leases += 1
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)
        try:
            yield
        finally:
            self.num_live -= 1
