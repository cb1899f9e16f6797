"""Reading databases that code of others made: it ends, and no value is huge.

A schema can make a table endless or its values enormous (generated columns, virtual tables over
views), and this process reads states between two episodes' calls.
"""

import time
from collections.abc import Callable

import apsw

from envpool.store.overlay import OverlayFile, OverlayVFS

SECONDS = 2.0  # for one look into a state; a thousandth is usual
MAX_VALUE = 16 * 2**20  # bytes
_STRIDE = 1_000  # SQLite instructions between two looks at the clock: 0.1 µs a row


class GuardedVFS(OverlayVFS):
    """A file system whose connections are interrupted `SECONDS` after `begin`."""

    def __init__(
        self, julian_day: float, prepare: Callable[[apsw.Connection], None] | None = None
    ) -> None:
        super().__init__(julian_day, prepare)
        self.begin()

    def begin(self) -> None:
        """What is read from now on has its whole time."""
        self._until = time.monotonic() + SECONDS

    def connect(self, file: OverlayFile) -> apsw.Connection:
        connection = super().connect(file)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        connection.set_progress_handler(self._expired, _STRIDE)
        return connection

    def _expired(self) -> bool:
        return time.monotonic() > self._until
