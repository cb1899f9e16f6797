"""What a world needs of the databases of a database server: envpool.mcp_worlds.postgres makes them,
and is imported where a world has such a state, since its library is an extra."""

from typing import Any, Protocol

from rehearsal_room.envpool.mcp_state.types import StateReader


class DatabaseReader(StateReader, Protocol):
    """Reads a database, and writes its state at the start."""

    @property
    def snapshot(self) -> Any:
        """The state as of the last reading."""
        ...

    def put_back(self, start: Any) -> bool:
        """Write a snapshot under the running server; False: that cannot be."""
        ...


class ProcessDatabase(Protocol):
    """The database of one process."""

    name: str
    url: str

    def reader(self, since: Any) -> DatabaseReader:
        """What reads it; `since` is the snapshot of another process at its start."""
        ...

    def begin_call(self, number: int) -> None:
        """Begin call `number`, from 1. Raises PoolError."""
        ...

    def drop(self) -> None:
        """Drop it, and end the sessions in it."""
        ...


class WorldDatabases(Protocol):
    """The databases of one world."""

    def copy(self) -> ProcessDatabase:
        """A new database in the state at the start. Raises PoolError."""
        ...

    def close(self) -> None:
        """Drop those that are left."""
        ...
