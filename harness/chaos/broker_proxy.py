"""A way to the broker that can be cut, held up, and made to repeat and swap messages.

A TCP proxy on loopback between this process and its broker. It reads the packets in both directions
as MQTT frames them (MQTT 5, 2.1: type, remaining length, content); faults hit those that publish a
message. On asyncio only, as the MQTT client.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
import anyio.lowlevel
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.bus.mqtt_settings import Broker
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import FaultInjected

_PUBLISH = 3  # packet type
_DUPLICATE_FLAG = 0x08
_HOLD_S = 0.2  # seconds that a held message waits for the one that is to overtake it
_READ_BYTES = 1 << 16
_CLOSE_S = 2.0
_AWAY_S = 30.0  # seconds that a broker may take to restart
_LOOK_S = 0.05  # seconds between two attempts to reach it


class BrokerProxy(AsyncContextManagerMixin):
    """The proxy of one broker. Use it in `async with`; `port` is then its port on loopback.

    Entering raises BusError when the broker cannot be reached.
    """

    def __init__(self, broker: Broker, injector: Injector) -> None:
        self._broker = broker
        self._injector = injector
        self._ways: set[_Way] = set()
        self._opened = anyio.Event()  # set: data may pass; replaced for a partition
        self._opened.set()
        self._server: asyncio.Server | None = None  # None: new connections are refused
        self._connected = anyio.Event()  # set: there is a connection
        self._closed = anyio.Event()  # set: there is none
        self._num_published = 0
        self.num_connects = 0
        self.port = 0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        await self._require_broker()
        await self.accept()
        try:
            yield self
        finally:
            self.refuse()
            self.release()
            self.cut()
            if self._ways:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await self._closed.wait()

    @property
    def num_open(self) -> int:
        """Connections that are open now."""
        return len(self._ways)

    async def wait_for_broker(self) -> None:
        """Return when the broker can be reached, or after some seconds without success."""
        with anyio.move_on_after(_AWAY_S):
            while True:
                with suppress(BusError):
                    await self._require_broker()
                    return
                await anyio.sleep(_LOOK_S)

    async def wait_connected(self) -> None:
        """Return when there is a connection."""
        await self._connected.wait()

    def cut(self) -> None:
        """End all connections at once."""
        for way in tuple(self._ways):
            way.abort()

    def refuse(self) -> None:
        """Refuse new connections, until `accept`."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Accept new connections, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def hold(self) -> None:
        """Let nothing pass, until `release`."""
        self._opened = anyio.Event()

    def release(self) -> None:
        """Let everything pass again."""
        self._opened.set()

    async def wait_open(self) -> None:
        """Wait while nothing passes."""
        while not self._opened.is_set():
            await self._opened.wait()

    def hits_message(self, fault: str, number: int) -> bool:
        """Whether a fault hits a published message."""
        return self._injector.hits(fault, number)

    def next_message(self) -> int:
        """The number of the next message that is published in either direction, from 1."""
        self._num_published += 1
        return self._num_published

    def report(self, fault: str, target: str, *, landed: bool = True) -> None:
        """Record a fault that hit a message."""
        self._injector.report(FaultInjected(fault, landed, target=target))

    async def _require_broker(self) -> None:
        try:
            _, writer = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError as exc:
            raise BusError(f"the broker at {self._broker} cannot be reached: {exc}") from exc
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError:
            writer.transport.abort()
            return
        self.num_connects += 1
        way = _Way(self, (reader, writer), far)
        self._ways.add(way)
        self._connected.set()
        self._closed = anyio.Event()
        try:
            await way.serve()
        finally:
            way.abort()
            self._ways.discard(way)
            if not self._ways:
                self._connected = anyio.Event()
                self._closed.set()


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Way:
    """One connection through the proxy."""

    def __init__(self, proxy: BrokerProxy, near: _Stream, far: _Stream) -> None:
        self._writers = (near[1], far[1])
        self._to_near = _Direction(proxy, far[0], near[1], "message from the broker")
        self._to_far = _Direction(proxy, near[0], far[1], "message to the broker")

    def abort(self) -> None:
        """End both connections at once."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self) -> None:
        """Pass data in both directions until one side ends."""
        async with anyio.create_task_group() as tasks:

            async def run(direction: _Direction) -> None:
                await direction.run()
                tasks.cancel_scope.cancel()

            tasks.start_soon(run, self._to_near)
            tasks.start_soon(run, self._to_far)


class _Direction:
    """One direction of a connection."""

    def __init__(
        self,
        proxy: BrokerProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: str,
    ) -> None:
        """`target` is what faults hit, as it is recorded."""
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._target = target
        self._held: bytes | None = None  # a message that the next one overtakes; None: none

    async def run(self) -> None:
        """Pass packets until one side ends."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                packet = await self._read_packet()
                await self._proxy.wait_open()
                self._pass(packet)
                await self._writer.drain()

    async def _read_packet(self) -> bytes:
        """The next packet, or a held message for which none came in time."""
        reading = asyncio.ensure_future(_packet(self._reader))
        try:
            if self._held is not None:
                await asyncio.wait([reading], timeout=_HOLD_S)
                if not reading.done():
                    self._release_held(landed=False)
            return await reading
        finally:
            reading.cancel()

    def _pass(self, packet: bytes) -> None:
        write, proxy = self._writer.write, self._proxy
        if packet[0] >> 4 != _PUBLISH:
            write(packet)
            return
        number = proxy.next_message()
        if self._held is None and proxy.hits_message("bus.reorder", number):
            self._held = packet
            return
        write(packet)
        if self._held is not None:
            self._release_held(landed=True)
        if packet[0] & 0x06 and proxy.hits_message("bus.duplicate", number):
            write(bytes((packet[0] | _DUPLICATE_FLAG,)) + packet[1:])
            proxy.report("bus.duplicate", self._target)

    def _release_held(self, *, landed: bool) -> None:
        assert self._held is not None
        self._writer.write(self._held)
        self._held = None
        self._proxy.report("bus.reorder", self._target, landed=landed)


async def _packet(reader: asyncio.StreamReader) -> bytes:
    """One MQTT packet. Raises asyncio.IncompleteReadError at the end of the connection."""
    head = await reader.readexactly(1)
    length, shift = 0, 0
    while True:
        byte = await reader.readexactly(1)
        head += byte
        length |= (byte[0] & 0x7F) << shift
        shift += 7
        if not byte[0] & 0x80:
            return head + await reader.readexactly(length)
