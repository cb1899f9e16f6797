"""Reading databases that untrusted code made: each read has a time limit, each value a size limit.

A schema can make a table endless or its values enormous (generated columns, virtual tables over
views), and this process reads states between the calls of other episodes.
"""

import time
from collections.abc import Callable

import apsw

from rehearsal_room.envpool.store.overlay import OverlayFile, OverlayVFS

SECONDS = 2.0  # for one read of a state; a thousandth is usual
MAX_VALUE = 16 * 2**20  # bytes
_STRIDE = 1_000  # SQLite instructions between two checks of the clock: 0.1 µs a row


class GuardedVFS(OverlayVFS):
    """A file system whose connections are interrupted `SECONDS` after `restart_timer`."""

    def __init__(
        self, julian_day: float, prepare: Callable[[apsw.Connection], None] | None = None
    ) -> None:
        super().__init__(julian_day, prepare)
        self.restart_timer()

    def restart_timer(self) -> None:
        """Allow the next read its full time."""
        self._until = time.monotonic() + SECONDS

    def connect(self, file: OverlayFile) -> apsw.Connection:
        connection = super().connect(file)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        connection.set_progress_handler(self._expired, _STRIDE)
        return connection

    def _expired(self) -> bool:
        return time.monotonic() > self._until
