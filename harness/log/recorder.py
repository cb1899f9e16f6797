"""Stamping facts: only this module gives an event its episode, attempt, sequence number and time.

A fact goes into the log at once. The bus carries it only after the log has it on disk, in the
order of the log. So no subscriber receives a fact that a crash could undo, and a slow subscriber
slows the log, whose full buffer slows the episodes. In a run without a log the bus carries the fact
at once.
"""

import time
from collections.abc import Callable
from typing import Protocol

from rehearsal_room.harness.core.events import Event, Record


class RecordSink(Protocol):
    """What stores the records: a log, or the bus itself in a run without a log."""

    def append(self, record: Record) -> None:
        """Add a record; the order of the calls is the order of the records."""

    async def wait_for_room(self) -> None:
        """Return when more may be appended; usually at once."""

    async def flush(self) -> int:
        """Return when every record appended before is stored."""


class Recorder:
    """Stamps the facts of one run."""

    def __init__(self, sink: RecordSink, *, now: Callable[[], float] | None = None) -> None:
        """`now` gives the time of a record, in seconds since 1970; None: the system's clock."""
        self._sink = sink
        self._now = now or time.time
        self._next: dict[str, int] = {}  # episode -> its next sequence number

    def open(self, episode: str, *, seq: int = 0) -> None:
        """Begin an episode, or continue one whose next record has the sequence number `seq`."""
        self._next[episode] = seq

    def close(self, episode: str) -> None:
        """Forget an episode that gets no more facts."""
        self._next.pop(episode, None)

    def stamp(self, episode: str, attempt: int, event: Event) -> Record:
        """Record a fact without waiting for room, as a cancelled episode must."""
        seq = self._next[episode]
        self._next[episode] = seq + 1
        record = Record(episode, attempt, seq, self._now(), event)
        self._sink.append(record)
        return record

    async def record(self, episode: str, attempt: int, event: Event) -> Record:
        """Record a fact, then wait while the sink has no room."""
        record = self.stamp(episode, attempt, event)
        await self._sink.wait_for_room()
        return record

    async def wait_for_room(self) -> None:
        """Return when more may be recorded; usually at once."""
        await self._sink.wait_for_room()
