"""What the world outside saw of a simulated run."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import anyio

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import EventKind, Record

CONCURRENCY = 12  # episodes at once


class Life(Protocol):
    """A simulated process."""

    @property
    def is_dead(self) -> bool:
        """Whether it was killed; nothing that it does now happened."""


class Ledger:
    """What was asked, answered and shown; only what a living process did counts."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []  # life, episode, turn of each question
        self.answered: list[tuple[int, str, int]] = []
        self.shown: dict[tuple[str, int, int], Record] = {}  # on the bus
        self.faults: list[str] = []  # what was found wrong at once
        self._asking = Counter[int]()  # life -> replies that are waited for

    def saw_live(self, process: Life, num_live: int) -> None:
        """So many worlds are leased, and no episode can be paused."""
        if num_live > CONCURRENCY and not process.is_dead:
            self.faults.append(f"{num_live} episodes at once, of {CONCURRENCY} allowed")

    @contextmanager
    def asking(self, process: Life, life: int) -> Iterator[None]:
        """A block in which a reply is waited for."""
        self._asking[life] += 1
        if (count := self._asking[life]) > CONCURRENCY and not process.is_dead:
            self.faults.append(f"{count} replies at once, of {CONCURRENCY} allowed")
        try:
            yield
        finally:
            self._asking[life] -= 1


class Observer:
    """A listener that notes what the bus carries."""

    kinds: Collection[EventKind] = ("started", "step", "summary", "ended", "judged")

    def __init__(self, process: Life, ledger: Ledger) -> None:
        self._process, self._ledger = process, ledger

    async def serve(self, subscription: Subscription, record: Any) -> None:
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            if not self._process.is_dead:
                for one in records:
                    self._ledger.shown[one.episode, one.attempt, one.seq] = one

    async def wait_until_done(self) -> None:
        """Nothing to wait for."""
