"""A connection to the broker that reconnects when it is lost.

The MQTT library is aiomqtt 2.x: the package formerly named asyncio-mqtt, by the same maintainers.
It runs on asyncio alone, and so does all of this. MQTT 5 throughout.

`Client` changes four behaviours of the library through its private methods, checked for
`aiomqtt>=2.5,<3`: messages are acknowledged when they have been used and not when they have arrived
(without this there is no flow control: the library would accept every message at once), a
publication that the broker refuses is noticed (the library drops the reason), a closed socket is
not registered for writing, and the socket is closed in the end also where the broker is silent.
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

from rehearsal_room.harness.bus.mqtt_settings import Broker, MqttSettings
from rehearsal_room.harness.core.errors import BusError

E = TypeVar("E", bound=Exception)

MqttMessage = aiomqtt.Message
MqttError = aiomqtt.MqttError  # the connection is lost, or an answer is overdue
Will = aiomqtt.Will

# A small message is sent at once. Otherwise it would wait until TCP has acknowledged the previous
# one, which the other side delays: 40 ms for each page of a log (5,500 records/s against 126,000).
_SOCKET_OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
_FIRST_BACKOFF_S = 0.1
_WILL_DELAY_S = 3  # time for a lost client to reconnect before the broker publishes its will

_log = structlog.get_logger(__name__)

# The library's own log lines are off by default: what matters is in the lines of this module.
LIBRARY_LOG = logging.getLogger("rehearse.mqtt")
LIBRARY_LOG.addHandler(logging.NullHandler())


class Client(aiomqtt.Client):
    """One connection. `ack` must be called for each message received."""

    refusal: str | None = None  # why the broker refused a publication; None: it accepted all

    def ack(self, message: MqttMessage) -> None:
        """Acknowledge a message after its use; the broker may then send another."""
        self._client.ack(message.mid, message.qos)

    async def subscribe_to(self, topics: list[str]) -> None:
        """Subscribe with delivery at least once. Raises BusError where the broker refuses it."""
        options = [(topic, SubscribeOptions(qos=1)) for topic in topics]
        for topic, code in zip(topics, await self.subscribe(options), strict=True):
            if isinstance(code, ReasonCode) and code.is_failure:
                raise BusError(f"the broker does not allow reading {topic}: {code}")

    async def send(
        self, topic: str, payload: bytes | bytearray, *, mark: str = "", retain: bool = False
    ) -> None:
        """Publish with delivery at least once; return when the broker has the message.

        Raises BusError where the broker refuses it.
        """
        properties = None
        if mark:
            properties = _properties(PacketTypes.PUBLISH)
            properties.UserProperty = ("mark", mark)
        await self.publish(topic, payload, qos=1, retain=retain, properties=properties)
        if self.refusal is not None:
            raise BusError(f"the broker does not allow writing {topic}: {self.refusal}")

    def use_manual_acks(self) -> None:
        """Make the caller acknowledge messages, by `ack`."""
        self._client.manual_ack_set(True)

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        if reason_code.is_failure:
            self.refusal = str(reason_code)
        super()._on_publish(client, userdata, mid, reason_code, properties)

    def _on_socket_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        # The library reads the socket's number now and registers it in a later turn of the loop: by
        # then the socket may be closed, and another socket may have its number.
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

    def release(self) -> None:
        """Close the socket, which the library leaves open where the broker does not answer; and
        read the error that ended the connection, so that asyncio does not report it as never
        retrieved."""
        self._client._sock_close()
        if self._disconnected.done() and not self._disconnected.cancelled():
            self._disconnected.exception()


def mark_on(message: MqttMessage) -> str | None:
    """The mark of a message (harness.bus.mqtt_wire.Mark); None: it has none."""
    for name, value in getattr(message.properties, "UserProperty", ()):
        if name == "mark":
            return str(value)
    return None


def will_of(topic: str, payload: bytes, *, mark: str = "") -> Will:
    """A retained message that the broker publishes when this client is lost."""
    properties = _properties(PacketTypes.WILLMESSAGE)
    properties.WillDelayInterval = _WILL_DELAY_S
    if mark:
        properties.UserProperty = ("mark", mark)
    return Will(topic, payload, qos=1, retain=True, properties=properties)


class BrokerConnection:
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
        self._ahead = ahead  # messages that the broker may send before one is acknowledged
        self._will = will
        self.num_connects = 0
        self.is_established = False  # `work` sets it once the broker has accepted all it needs

    async def run(self, work: Callable[[Client], Awaitable[None]]) -> None:
        """Connect and run `work`; repeat both when the connection is lost, until `work` returns.

        Raises BusError when the connection fails before `is_established` is set.
        """
        attempt = 0
        while True:
            failure: BaseException | None = None
            done = False
            began = anyio.current_time()
            try:
                async with self._open_client() as client:
                    await work(client)
                    done = True
            except* MqttError as group:
                failure = first_of(group)
            if done:  # also when only the disconnecting failed
                return
            if not self.is_established and failure is not None:
                raise BusError(self._describe(failure)) from failure
            if anyio.current_time() - began > self._settings.max_backoff_s:
                attempt = 0  # the connection had lasted for a while
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
    async def _open_client(self) -> AsyncIterator[Client]:
        client = self._make_client()
        try:
            # The library connects in a thread that cannot be stopped: cancelling half-way would
            # leak.
            with anyio.CancelScope(shield=True):
                await client.__aenter__()
            self.num_connects += 1
            try:
                yield client
            finally:
                with anyio.move_on_after(self._settings.connect_s, shield=True):
                    await client.__aexit__(None, None, None)
        finally:
            client.release()

    def _make_client(self) -> Client:
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
            socket_options=_SOCKET_OPTIONS,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=None if self._will is None else self._will(),
            timeout=settings.connect_s,
            keepalive=settings.keepalive_s,
            clean_start=self.num_connects == 0,  # later connections continue the session
            max_inflight_messages=settings.in_flight,
            properties=properties,
            tls_context=broker.tls,
        )
        client.use_manual_acks()
        client.pending_calls_threshold = 2 * settings.in_flight  # the library warns beyond it
        return client

    def _describe(self, failure: BaseException) -> str:
        """The message for the user; the library's messages contain no password."""
        if isinstance(failure, MqttConnectError):
            return f"the broker at {self._broker} refused the connection: {failure}"
        return f"the broker at {self._broker} cannot be reached: {failure}"


def _backoff(attempt: int, longest: float) -> float:
    """The seconds to wait: they double up to `longest`, less a random share of up to a half,
    so that many clients do not reconnect in one moment."""
    ceiling = min(longest, _FIRST_BACKOFF_S * 2.0 ** min(attempt, 20))
    return float(ceiling * random.uniform(0.5, 1.0))


def first_of(group: BaseExceptionGroup[E]) -> E:
    """The first error of a group."""
    failure = group.exceptions[0]
    return first_of(failure) if isinstance(failure, BaseExceptionGroup) else failure


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]  # the library leaves it untyped


async def sign_off(client: Client, here: str, topics: list[str]) -> None:
    """Remove the retained message on topic `here` and all subscriptions, if the connection still
    works: otherwise the broker would store messages for this client until its session expires."""
    with anyio.move_on_after(2, shield=True), suppress(MqttError):
        await client.send(here, b"", retain=True)
        await client.unsubscribe(topics)
