"""A connection to the broker that comes back.

The MQTT library is aiomqtt 2.x: the package formerly named asyncio-mqtt, by the same maintainers.
It runs on asyncio alone, and so does everything here. MQTT 5 throughout.

Three things are done behind its back, all in `Client`, and hold for `aiomqtt>=2.5,<3`: messages are
acknowledged when they have been used instead of when they have arrived (without this there is no
flow control: the library would take in whatever comes), a publication that the broker refuses is
noticed (the library drops the reason), and a closed socket is not registered for writing.
"""

import logging
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import aiomqtt
import anyio
import structlog
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from harness.bus.mqtt_settings import Broker, MqttSettings
from harness.core.errors import BusError

E = TypeVar("E", bound=Exception)

Message = aiomqtt.Message
MqttError = aiomqtt.MqttError  # the connection is lost, or an answer is overdue
Will = aiomqtt.Will

# A small message leaves at once. Otherwise it would wait until TCP has acknowledged the one before,
# which the other side puts off: 40 ms for each page of a log (5,500 records/s against 126,000).
_SOCKET = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
_FIRST_BACKOFF = 0.1  # seconds
_WILL_DELAY = 3  # seconds that a lost client has to come back before its will is told

_log = structlog.get_logger(__name__)

# What the library has to say is for those who turn it on; what matters is in our own lines.
LIBRARY_LOG = logging.getLogger("rehearse.mqtt")
LIBRARY_LOG.addHandler(logging.NullHandler())


class Client(aiomqtt.Client):
    """One connection. `ack` must be called for each message received."""

    refusal: str | None = None  # why the broker refused a publication; None: it took them all

    def ack(self, message: Message) -> None:
        """The message has been used; the broker may send another."""
        self._client.ack(message.mid, message.qos)

    async def listen(self, topics: list[str]) -> None:
        """Subscribe, at least once delivery. Raises BusError where the broker does not allow it."""
        wanted = [(topic, SubscribeOptions(qos=1)) for topic in topics]
        for topic, code in zip(topics, await self.subscribe(wanted), strict=True):
            if isinstance(code, ReasonCode) and code.is_failure:
                raise BusError(f"the broker does not let us read {topic}: {code}")

    async def tell(
        self, topic: str, payload: bytes | bytearray, *, mark: str = "", retain: bool = False
    ) -> None:
        """Publish, at least once; returns when the broker has it. Raises BusError if refused."""
        properties = None
        if mark:
            properties = _properties(PacketTypes.PUBLISH)
            properties.UserProperty = ("mark", mark)
        await self.publish(topic, payload, qos=1, retain=retain, properties=properties)
        if self.refusal is not None:
            raise BusError(f"the broker does not let us write {topic}: {self.refusal}")

    def answer_by_hand(self) -> None:
        """Leave acknowledging to the caller."""
        self._client.manual_ack_set(True)

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        if reason_code.is_failure:
            self.refusal = str(reason_code)
        super()._on_publish(client, userdata, mid, reason_code, properties)

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        # The library asks for the socket's number now and registers it in a later turn of the
        # loop: by then the socket may be closed, and its number another socket's.
        def register() -> None:
            if sock.fileno() != -1:
                self._loop.add_writer(sock.fileno(), self._write)

        self._loop.call_soon_threadsafe(register)

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except OSError as exc:
            if not self._disconnected.done():
                self._disconnected.set_exception(exc)

    def forget(self) -> None:
        """Read what the connection ended with, so that asyncio does not report it as unread."""
        if self._disconnected.done() and not self._disconnected.cancelled():
            self._disconnected.exception()


def mark_on(message: Message) -> str | None:
    """The mark that a message bears; None: it has none."""
    for name, value in getattr(message.properties, "UserProperty", ()):
        if name == "mark":
            return str(value)
    return None


def will_of(topic: str, payload: bytes) -> Will:
    """What the broker says, and keeps saying, in our place when we are gone without a word."""
    properties = _properties(PacketTypes.WILLMESSAGE)
    properties.WillDelayInterval = _WILL_DELAY
    return Will(topic, payload, qos=1, retain=True, properties=properties)


class Connection:
    """One client of the broker, through all its reconnections."""

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        identifier: str,
        *,
        ahead: int,
        will: Callable[[], Will] | None = None,
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._identifier = identifier
        self._ahead = ahead  # messages that the broker may send before we acknowledge one
        self._will = will
        self.num_connects = 0
        self.is_settled = False  # `work` says so once the broker has let it do what it must

    async def keep(self, work: Callable[[Client], Awaitable[None]]) -> None:
        """Connect, have `work` done, and begin again when the connection is lost, until it is done.

        Raises BusError when the connection fails before `work` has settled for the first time.
        """
        attempt = 0
        while True:
            failure: BaseException | None = None
            done = False
            began = anyio.current_time()
            try:
                async with self._connected() as client:
                    await work(client)
                    done = True
            except* MqttError as group:
                failure = first_of(group)
            if done:  # also when it was the parting that failed
                return
            if not self.is_settled and failure is not None:
                raise BusError(self._sentence(failure)) from failure
            if anyio.current_time() - began > self._settings.max_backoff_s:
                attempt = 0  # it had held for a while
            delay = _backoff(attempt, self._settings.max_backoff_s)
            attempt += 1
            _log.warning(
                "mqtt_connection_lost",
                broker=str(self._broker),
                why=str(failure),
                retry_s=round(delay, 2),
            )
            await anyio.sleep(delay)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        client = self._client()
        # The library connects in a thread that cannot be stopped: leaving it half-way would leak.
        with anyio.CancelScope(shield=True):
            await client.__aenter__()
        self.num_connects += 1
        try:
            yield client
        finally:
            with anyio.move_on_after(self._settings.connect_s, shield=True):
                await client.__aexit__(None, None, None)
            client.forget()

    def _client(self) -> Client:
        settings, broker = self._settings, self._broker
        properties = _properties(PacketTypes.CONNECT)
        properties.ReceiveMaximum = self._ahead
        properties.SessionExpiryInterval = settings.session_s
        client = Client(
            broker.host,
            broker.port,
            username=broker.user,
            password=None if broker.password is None else broker.password.reveal(),
            identifier=self._identifier,
            logger=LIBRARY_LOG,
            socket_options=_SOCKET,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=None if self._will is None else self._will(),
            timeout=settings.connect_s,
            keepalive=settings.keepalive_s,
            clean_start=self.num_connects == 0,  # afterwards the session goes on
            max_inflight_messages=settings.in_flight,
            properties=properties,
            tls_context=broker.tls,
        )
        client.answer_by_hand()
        client.pending_calls_threshold = 2 * settings.in_flight  # beyond it the library warns
        return client

    def _sentence(self, failure: BaseException) -> str:
        """What to tell the user; the library's messages bear no password."""
        if isinstance(failure, MqttConnectError):
            return f"the broker at {self._broker} refused the connection: {failure}"
        return f"the broker at {self._broker} cannot be reached: {failure}"


def _backoff(attempt: int, longest: float) -> float:
    """Seconds to wait: doubling up to the longest, less up to a half by chance, so that many
    clients do not come back in step."""
    return float(min(longest, _FIRST_BACKOFF * 2.0 ** min(attempt, 20)) * random.uniform(0.5, 1.0))


def first_of(group: BaseExceptionGroup[E]) -> E:
    """One of the errors of a group."""
    failure = group.exceptions[0]
    return first_of(failure) if isinstance(failure, BaseExceptionGroup) else failure


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]  # the library leaves it untyped


async def part(client: Client, here: str, topics: list[str]) -> None:
    """Take back the retained message `here` and all subscriptions, if the broker still hears us:
    else it would gather messages for us until the session expires."""
    with anyio.move_on_after(2, shield=True), suppress(MqttError):
        await client.tell(here, b"", retain=True)
        await client.unsubscribe(topics)
