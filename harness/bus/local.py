"""The bus of a run: it carries records from publishers to subscribers.

Two buses implement one Protocol: `LocalBus` in this module, within one process, and
`rehearsal_room.harness.bus.mqtt_bus.MqttBus`, between processes and machines.
`tests/contracts/test_bus.py` states the promises of both:

- Every subscriber gets every record of its kinds that is published while it is subscribed, and
  records of one episode in the order in which they were published.
- A full subscriber slows the publishers and loses nothing.
- A subscriber that leaves releases the publishers that waited for it.

A publisher puts its record into the queues first and waits afterwards, so a publisher that is
cancelled while it waits has published: a queue has at most its depth and one record for each
publisher.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, get_args

import anyio

from rehearsal_room.harness.core.events import Event, EventKind, Record

DEPTH = 4096  # records in a subscriber's queue before its publishers wait
KINDS: tuple[EventKind, ...] = get_args(EventKind)
_EVENT_OF_KIND: dict[str, type] = {
    str(event.__struct_config__.tag): event for event in get_args(Event)
}


class Subscription(Protocol):
    """The receiving side of one subscriber."""

    async def receive(self) -> Sequence[Record]:
        """Return all waiting records, in order; wait until there is at least one.

        Raises anyio.EndOfStream once the bus is closed and every record has been received.
        Cancellation loses no record.
        """


class Bus(Protocol):
    """Carries records from publishers to subscribers."""

    async def publish(self, record: Record) -> None:
        """Publish a record, then wait while a subscriber is full. A record is published even if
        that wait is cancelled."""

    def subscribe(
        self, *, kinds: Collection[EventKind] | None = None, depth: int = DEPTH
    ) -> AbstractAsyncContextManager[Subscription]:
        """Receive records of these kinds (None: of all) until the block is left."""


def check_kinds(kinds: Collection[EventKind] | None) -> tuple[EventKind, ...]:
    """The kinds in the order of an episode; None: all. Raises ValueError."""
    if kinds is None:
        return KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not a kind of event (expected {', '.join(KINDS)})")
    return tuple(kind for kind in KINDS if kind in kinds)


class Inbox:
    """The queue of one subscriber. `receive` takes all waiting records: passing them in batches is
    ten times faster than one by one."""

    __slots__ = ("_closed", "_failure", "_items", "_room", "_wake", "depth")

    def __init__(self, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self.depth = depth
        self._items: list[Record] = []
        self._wake: anyio.Event | None = None  # the receiver waits for it; None: it does not wait
        self._room: anyio.Event | None = None  # publishers wait for it; None: none waits
        self._closed = False
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_overfull(self) -> bool:
        """Whether publishers must wait."""
        return len(self._items) > self.depth and not self._closed

    def put(self, record: Record) -> None:
        """Add one record; never waits."""
        self._items.append(record)
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def put_all(self, records: Sequence[Record]) -> None:
        """Add records; never waits."""
        self._items.extend(records)
        if self._wake is not None and records:
            self._wake.set()
            self._wake = None

    async def wait_for_room(self) -> None:
        """Wait until at most `depth` records are waiting, or the subscriber has left."""
        while self.is_overfull:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def receive(self) -> Sequence[Record]:
        """See Subscription.receive. Raises the exception that the inbox was closed with, if any."""
        while not self._items:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise anyio.EndOfStream
            if self._wake is None:
                self._wake = anyio.Event()
            await self._wake.wait()
        items, self._items = self._items, []
        self._release_publishers()
        return items

    def close(self, failure: Exception | None = None) -> None:
        """Accept no more records; those that wait can still be received."""
        self._closed = True
        self._failure = self._failure or failure
        if self._wake is not None:
            self._wake.set()
            self._wake = None
        self._release_publishers()

    def _release_publishers(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


class _LocalInbox(Inbox):
    """The inbox of a subscriber of a LocalBus, with the types of event that it gets (None: all)."""

    __slots__ = ("events",)

    def __init__(self, kinds: Collection[EventKind] | None, depth: int) -> None:
        super().__init__(depth)
        self.events = (
            None
            if kinds is None
            else frozenset(_EVENT_OF_KIND[kind] for kind in check_kinds(kinds))
        )


class LocalBus:
    """The bus within one process: each subscriber has a queue.

    `publish` does not suspend while all subscribers have room.
    """

    def __init__(self) -> None:
        # A tuple, replaced when it changes: `publish` may be iterating over the old one.
        self._inboxes: tuple[_LocalInbox, ...] = ()
        self._closed = False
        self._num_published = 0
        self._num_waiting = 0  # publishers that wait now
        self._num_waits = 0  # waits of publishers since the start

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        counts = ", ".join(f"{name}={value}" for name, value in self.statistics().items())
        return f"<LocalBus {state}, {counts}>"

    async def publish(self, record: Record) -> None:
        """See Bus.publish. Raises anyio.ClosedResourceError after `close`."""
        if self._closed:
            raise anyio.ClosedResourceError
        self._num_published += 1
        full: list[_LocalInbox] | None = None
        for inbox in self._inboxes:
            if inbox.events is None or type(record.event) in inbox.events:
                inbox.put(record)
                if inbox.is_overfull:
                    full = [inbox] if full is None else [*full, inbox]
        if full is not None:
            await self._wait_for_room(full)

    async def _wait_for_room(self, full: list[_LocalInbox]) -> None:
        self._num_waiting += 1
        self._num_waits += 1
        try:
            for inbox in full:
                await inbox.wait_for_room()
        finally:
            self._num_waiting -= 1

    @asynccontextmanager
    async def subscribe(
        self, *, kinds: Collection[EventKind] | None = None, depth: int = DEPTH
    ) -> AsyncIterator[Subscription]:
        """See Bus.subscribe."""
        inbox = _LocalInbox(kinds, depth)
        self._inboxes = (*self._inboxes, inbox)
        if self._closed:
            inbox.close()
        try:
            yield inbox
        finally:
            self._inboxes = tuple(other for other in self._inboxes if other is not inbox)
            inbox.close()

    def close(self) -> None:
        """Accept no more records: subscribers receive those that wait, then EndOfStream."""
        self._closed = True
        for inbox in self._inboxes:
            inbox.close()

    def statistics(self) -> dict[str, int]:
        """Counts of published records, of records in queues, and of waiting publishers."""
        return {
            "published": self._num_published,
            "subscribers": len(self._inboxes),
            "queued": sum(map(len, self._inboxes)),
            "waiting": self._num_waiting,
            "waits": self._num_waits,
        }
