"""Worlds that are leased from a `rehearse serve` process. Their scenarios are found here."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.sources.base import WorldSource
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.format import Scenario


class LeasedWorlds:
    """The worlds of the scenarios of another source, run by the server at a URL. A WorldSource."""

    needs_call_timeout = True

    def __init__(self, url: str, scenarios: WorldSource, *, token: str = "") -> None:
        self._url, self._token = url, token
        self._scenarios = scenarios

    @property
    def has_solutions(self) -> bool:
        """See WorldSource."""
        return self._scenarios.has_solutions

    def names(self, given: Sequence[str]) -> Sequence[str]:
        """See WorldSource."""
        return self._scenarios.names(given)

    def find(self, name: str) -> Scenario:
        """See WorldSource."""
        return self._scenarios.find(name)

    def logged_finder(self) -> Callable[[str], Scenario]:
        """See WorldSource."""
        return self._scenarios.logged_finder()

    def pool(self) -> AbstractAsyncContextManager[Pool] | None:
        """See WorldSource."""
        return RemotePool(self._url, token=self._token)
