"""The news of a run: who publishes, and who hears.

Two buses keep one Protocol: `LocalBus` here, within one process, and
`harness.bus.mqtt_publisher.MqttBus`
between processes and machines. `tests/contracts/test_bus.py` states what both promise:

- Every subscriber gets every record of its kinds that is published while it is subscribed, and
  records of one episode in the order in which they were published.
- A full subscriber slows the publishers and loses nothing.
- Whoever leaves, sets free those who waited for him.

A publisher hands its record over first and waits afterwards, so a publisher that is cancelled
while it waits has published: a queue holds at most its depth and one record for each publisher.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, get_args

import anyio

from harness.core.events import Event, Kind, Record

DEPTH = 4096  # records that a subscriber may be behind before its publishers wait
KINDS: tuple[Kind, ...] = get_args(Kind)
_EVENT_OF_KIND: dict[str, type] = {
    str(event.__struct_config__.tag): event for event in get_args(Event)
}


class Subscription(Protocol):
    """One subscriber's end."""

    async def receive(self) -> Sequence[Record]:
        """At least one record, in order: all that is there.

        Raises anyio.EndOfStream once the bus is closed and everything has been received.
        Cancellation loses no record.
        """


class Bus(Protocol):
    """Where facts are told."""

    async def publish(self, record: Record) -> None:
        """Tell a fact; waits while a subscriber is full. Cancelled in that wait, it is told."""

    def subscribe(
        self, *, kinds: Collection[Kind] | None = None, depth: int = DEPTH
    ) -> AbstractAsyncContextManager[Subscription]:
        """Hear facts of these kinds (None: of all) until the block is left."""


def check_kinds(kinds: Collection[Kind] | None) -> tuple[Kind, ...]:
    """The kinds asked for, in the order of an episode; None: all. Raises ValueError."""
    if kinds is None:
        return KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"no kind of event is called {kind!r}; there are {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


class Inbox:
    """Records on their way to one subscriber. `receive` takes all that is there: handing over in
    batches is ten times faster than one by one."""

    __slots__ = ("_closed", "_failure", "_items", "_room", "_wake", "depth")

    def __init__(self, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self.depth = depth
        self._items: list[Record] = []
        self._wake: anyio.Event | None = None  # a receiver waits for it
        self._room: anyio.Event | None = None  # publishers wait for it
        self._closed = False
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_over(self) -> bool:
        """Whether publishers should wait."""
        return len(self._items) > self.depth and not self._closed

    def put(self, record: Record) -> None:
        """Hand one record over; never waits."""
        self._items.append(record)
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def put_all(self, records: Sequence[Record]) -> None:
        """Hand records over; never waits."""
        self._items.extend(records)
        if self._wake is not None and records:
            self._wake.set()
            self._wake = None

    async def wait_for_room(self) -> None:
        """Wait until no more than `depth` records are here, or the subscriber has left."""
        while self.is_over:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    async def receive(self) -> Sequence[Record]:
        """See Subscription.receive. Raises what the inbox was closed with, if anything."""
        while not self._items:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise anyio.EndOfStream
            if self._wake is None:
                self._wake = anyio.Event()
            await self._wake.wait()
        items, self._items = self._items, []
        self._free_publishers()
        return items

    def close(self, failure: Exception | None = None) -> None:
        """No more records will come; what is here can still be received."""
        self._closed = True
        self._failure = self._failure or failure
        if self._wake is not None:
            self._wake.set()
            self._wake = None
        self._free_publishers()

    def _free_publishers(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


class _Listener(Inbox):
    """An inbox on a LocalBus, with the events that it takes (None: all)."""

    __slots__ = ("events",)

    def __init__(self, kinds: Collection[Kind] | None, depth: int) -> None:
        super().__init__(depth)
        self.events = (
            None
            if kinds is None
            else frozenset(_EVENT_OF_KIND[kind] for kind in check_kinds(kinds))
        )


class LocalBus:
    """The bus within one process: handlers called in line, then one queue for each subscriber.

    `publish` does not suspend while all subscribers have room.
    """

    def __init__(self) -> None:
        # Tuples, replaced when they change: publish may be walking through the old one.
        self._handlers: tuple[Callable[[Record], None], ...] = ()
        self._listeners: tuple[_Listener, ...] = ()
        self._closed = False
        self._num_published = 0
        self._num_waiting = 0  # publishers, now
        self._num_waits = 0  # of publishers, in all

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        counts = ", ".join(f"{name}={value}" for name, value in self.statistics().items())
        return f"<LocalBus {state}, {counts}>"

    def attach(self, handler: Callable[[Record], None]) -> None:
        """Have every record given to `handler` at once, before any subscriber gets it.

        Handlers run in the order in which they were attached. They are for folds that must not
        lag behind; an exception in one is a bug and reaches the publisher.
        """
        self._handlers = (*self._handlers, handler)

    async def publish(self, record: Record) -> None:
        """See Bus.publish. Raises anyio.ClosedResourceError after `close`."""
        if self._closed:
            raise anyio.ClosedResourceError
        self._num_published += 1
        for handler in self._handlers:
            handler(record)
        full: list[_Listener] | None = None
        for listener in self._listeners:
            if listener.events is None or type(record.event) in listener.events:
                listener.put(record)
                if listener.is_over:
                    full = [listener] if full is None else [*full, listener]
        if full is not None:
            await self._wait_for_room(full)

    async def _wait_for_room(self, full: list[_Listener]) -> None:
        self._num_waiting += 1
        self._num_waits += 1
        try:
            for listener in full:
                await listener.wait_for_room()
        finally:
            self._num_waiting -= 1

    @asynccontextmanager
    async def subscribe(
        self, *, kinds: Collection[Kind] | None = None, depth: int = DEPTH
    ) -> AsyncIterator[Subscription]:
        """See Bus.subscribe."""
        listener = _Listener(kinds, depth)
        self._listeners = (*self._listeners, listener)
        if self._closed:
            listener.close()
        try:
            yield listener
        finally:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            listener.close()

    def close(self) -> None:
        """No more news: subscribers receive what is there, then EndOfStream."""
        self._closed = True
        for listener in self._listeners:
            listener.close()

    def statistics(self) -> dict[str, int]:
        """What was published, and what is on its way."""
        return {
            "published": self._num_published,
            "handlers": len(self._handlers),
            "subscribers": len(self._listeners),
            "queued": sum(map(len, self._listeners)),
            "waiting": self._num_waiting,
            "waits": self._num_waits,
        }
