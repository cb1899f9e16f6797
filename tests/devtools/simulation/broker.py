"""An MQTT broker in memory, and clients of it: delivery at least once, sessions, retained messages
and wills, with the faults that the choices give.

A connection is cut in the middle of a publication, before or after the broker has the message, or
of a delivery; a broker that restarts has forgotten sessions and retained messages, as one without
persistence does. What is queued for a session beyond a limit is dropped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import anyio
import msgspec

from rehearsal_room.harness.bus import mqtt_client
from rehearsal_room.harness.bus.mqtt_client import MqttError
from tests.devtools.simulation.parts.choices import Choices

_CUT = 0.004  # share of the messages at which a connection is cut
_RESTARTED = 0.001  # share of the messages at which the broker restarts
_LATE = 0.02  # share of the messages that travel long
_LATEST_S = 1.0
_MOST_QUEUED = 40  # messages of one session; the rest is dropped


class _Sent(msgspec.Struct, frozen=True):
    """A message at the broker."""

    topic: str
    payload: bytes
    mark: str


class _Session(msgspec.Struct):
    """What the broker knows of one client."""

    topics: list[str] = []
    queue: list[_Sent] = []
    in_flight: dict[int, _Sent] = {}
    client: "SimulatedClient | None" = None  # None: it is away
    will: Any = None
    last_number: int = 0


class SimulatedBroker:
    """The broker. It outlives the processes that use it."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.num_restarts = 0
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, _Sent] = {}

    def connect(self, client: "SimulatedClient", *, is_new: bool) -> None:
        if is_new:
            self._sessions.pop(client.identifier, None)
        session = self._sessions.setdefault(client.identifier, _Session())
        session.client, session.will = client, client.will
        session.queue = [*session.in_flight.values(), *session.queue]  # sent again
        session.in_flight = {}
        self._deliver(session)

    def disconnect(self, client: "SimulatedClient", *, publishes_will: bool) -> None:
        session = self._sessions.get(client.identifier)
        if session is None or session.client is not client:
            return
        session.client, will, session.will = None, session.will, None
        if publishes_will and will is not None:
            mark = dict(getattr(will.properties, "UserProperty", ())).get("mark", "")
            self.publish(_Sent(will.topic, will.payload, mark), retain=True)

    def subscribe(self, client: "SimulatedClient", topics: list[str]) -> None:
        session = self._sessions[client.identifier]
        session.topics += [topic for topic in topics if topic not in session.topics]
        for name, sent in self._retained.items():
            if any(_matches(topic, name) for topic in topics):
                session.queue.append(sent)
        self._deliver(session)

    def unsubscribe(self, client: "SimulatedClient", topics: list[str]) -> None:
        session = self._sessions[client.identifier]
        session.topics = [topic for topic in session.topics if topic not in topics]

    def publish(self, sent: _Sent, *, retain: bool) -> None:
        if retain and sent.payload:
            self._retained[sent.topic] = sent
        elif retain:
            self._retained.pop(sent.topic, None)
        for session in self._sessions.values():
            if not any(_matches(topic, sent.topic) for topic in session.topics):
                continue
            if len(session.queue) < _MOST_QUEUED:
                session.queue.append(sent)
            self._deliver(session)

    def acknowledge(self, client: "SimulatedClient", number: int) -> None:
        session = self._sessions.get(client.identifier)
        if session is not None and session.client is client:
            session.in_flight.pop(number, None)
            self._deliver(session)

    def restart(self) -> None:
        """Forget everything, and cut all connections."""
        self.num_restarts += 1
        clients = [session.client for session in self._sessions.values()]
        self._sessions.clear()
        self._retained.clear()
        for client in clients:
            if client is not None:
                client.lose()

    def forget_clients(self) -> None:
        """The processes have ended; their sessions stay."""
        for session in self._sessions.values():
            session.client = session.will = None

    def _deliver(self, session: _Session) -> None:
        client = session.client
        while client is not None and session.queue and len(session.in_flight) < client.ahead:
            session.last_number += 1
            session.in_flight[session.last_number] = session.queue.pop(0)
            client.arrive(session.last_number, session.in_flight[session.last_number])


class _Messages:
    """What has arrived at a client; reading raises MqttError when the connection is lost."""

    def __init__(self, client: "SimulatedClient") -> None:
        self._client = client
        self.arrived: deque[Any] = deque()
        self.changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self.arrived)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            while not self.arrived:
                self._client.require_connection()
                self.changed.clear()
                await self.changed.wait()
            self._client.require_connection()
            yield self.arrived.popleft()


class SimulatedClient:
    """What harness.bus uses of harness.bus.mqtt_client.Client."""

    refusal: str | None = None

    def __init__(self, broker: SimulatedBroker, *address: object, **options: Any) -> None:
        self.identifier: str = options["identifier"]
        self.ahead: int = options["properties"].ReceiveMaximum
        self.will = options["will"]
        self.messages = _Messages(self)
        self.pending_calls_threshold = 0
        self._broker = broker
        self._is_new: bool = options["clean_start"]
        self._is_lost = True

    async def __aenter__(self) -> Self:
        await self._travel()
        self._is_lost = False
        self._broker.connect(self, is_new=self._is_new)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._broker.disconnect(self, publishes_will=self._is_lost)
        self._is_lost = True

    async def send(
        self, topic: str, payload: bytes | bytearray, *, mark: str = "", retain: bool = False
    ) -> None:
        """Publish; return when the broker has the message."""
        self.require_connection()
        await self._travel()
        fate = self._fate()
        if fate == 1:
            self.lose()
        self.require_connection()
        self._broker.publish(_Sent(topic, bytes(payload), mark), retain=retain)
        if fate == 2:  # the broker has it, and its acknowledgement is lost
            self.lose()
        await self._travel()
        self.require_connection()

    async def subscribe_to(self, topics: list[str]) -> None:
        self.require_connection()
        await self._travel()
        self.require_connection()
        self._broker.subscribe(self, topics)

    async def unsubscribe(self, topics: list[str]) -> None:
        self.require_connection()
        self._broker.unsubscribe(self, topics)

    def ack(self, message: Any) -> None:
        if not self._is_lost:
            self._broker.acknowledge(self, message.mid)

    def arrive(self, number: int, sent: _Sent) -> None:
        """Take a message from the broker, which it sends again until it is acknowledged."""
        properties = SimpleNamespace(UserProperty=[("mark", sent.mark)] if sent.mark else [])
        message = SimpleNamespace(
            topic=SimpleNamespace(value=sent.topic),
            payload=sent.payload,
            mid=number,
            properties=properties,
        )
        self.messages.arrived.append(message)
        self.messages.changed.set()

    def lose(self) -> None:
        """The connection is cut."""
        if not self._is_lost:
            self._is_lost = True
            self._broker.disconnect(self, publishes_will=True)
            self.messages.changed.set()

    def require_connection(self) -> None:
        if self._is_lost:
            raise MqttError("the simulated connection is lost")

    def use_manual_acks(self) -> None:
        """They are always manual."""

    def release(self) -> None:
        """There is no socket."""

    async def _travel(self) -> None:
        late = self._broker.choices.amount("late_mqtt", _LATEST_S, rate=_LATE)
        await anyio.sleep(0.001 + late)

    def _fate(self) -> int:
        """What happens to the connection: 0 nothing, 1 cut before, 2 cut after the broker has the
        message."""
        if self._broker.choices.option("broker_restart", 2, rate=_RESTARTED):
            self._broker.restart()
        return self._broker.choices.option("cut_mqtt", 3, rate=_CUT)


def _matches(pattern: str, topic: str) -> bool:
    """Whether a topic matches a subscription.

    Example: "a/+/c" matches "a/b/c"; "a/#" matches "a/b/c" and "a"
    """
    wanted, found = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        found = found[: len(wanted)]
    return len(wanted) == len(found) and all(
        one in ("+", other) for one, other in zip(wanted, found, strict=True)
    )


@contextmanager
def simulated_mqtt(broker: SimulatedBroker, seed: int) -> Iterator[None]:
    """A block in which every MQTT client is one of this broker."""

    def client(*address: object, **options: Any) -> SimulatedClient:
        return SimulatedClient(broker, *address, **options)

    with (
        patch.object(mqtt_client, "Client", client),
        patch.object(mqtt_client, "random", Random(seed)),
    ):
        yield
