"""Stamping facts: the one place where an event gets its episode, attempt, sequence and time.

A fact goes to the folds that the loop itself reads (the history windows) at once, and into the
log. The bus carries it only when the log has it on disk, in the order of the log. So nobody hears
of a fact that a crash could take back, and a slow listener slows the log, whose full buffer slows
the episodes. Without a log the bus carries it at once.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from harness.core.events import Event, Record

Fold = Callable[[Record], None]


class Sink(Protocol):
    """Where records are kept: a log, or the bus itself in a run without one."""

    def append(self, record: Record) -> None:
        """Take a record, in order."""

    async def wait_for_room(self) -> None:
        """Return when more may be appended; at once, as a rule."""

    async def flush(self) -> int:
        """Return when all that was appended before is kept."""


class Recorder:
    """Stamps the facts of one run."""

    def __init__(
        self, sink: Sink, *, folds: Sequence[Fold] = (), now: Callable[[], float] = time.time
    ) -> None:
        self._sink = sink
        self._folds = tuple(folds)
        self._now = now
        self._next: dict[str, int] = {}  # episode -> its next sequence number

    def open(self, episode: str, *, seq: int = 0) -> None:
        """Begin with an episode, or go on with one that the log has up to `seq` already."""
        self._next[episode] = seq

    def close(self, episode: str) -> None:
        """Forget an episode to which nothing more will be added."""
        self._next.pop(episode, None)

    def stamp(self, episode: str, attempt: int, event: Event) -> Record:
        """Keep a fact without waiting for room, as a cancelled episode must."""
        seq = self._next[episode]
        self._next[episode] = seq + 1
        record = Record(episode, attempt, seq, self._now(), event)
        for fold in self._folds:
            fold(record)
        self._sink.append(record)
        return record

    async def record(self, episode: str, attempt: int, event: Event) -> Record:
        """Keep a fact; waits while the log has more to write than it may hold."""
        record = self.stamp(episode, attempt, event)
        await self._sink.wait_for_room()
        return record

    async def room(self) -> None:
        """Return when more may be recorded; at once, as a rule."""
        await self._sink.wait_for_room()
