"""Publishing a log over MQTT; harness.bus.mqtt_wire describes the messages.

`MqttLink` publishes what a log has committed, answers followers that miss records, and sends the
run's state.

Promises:

- A record put into the link is delivered to every follower, once and in order, through lost
  connections and restarts of the broker, as long as the publisher lives. While the broker is away,
  the outbox fills, and then publishers wait.
- At the end the publisher waits until the followers have every record (harness.bus.mqtt_awaited
  says how long). A follower that comes more than `linger_s` after the end reads the log itself, so
  followers that come and go do not keep a run open.
- Memory is bounded by the settings (`outbox`, `in_flight`, `batch`).
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import quote

import anyio
import structlog
from anyio.abc import TaskStatus

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.mqtt_awaited import Awaited
from rehearsal_room.harness.bus.mqtt_client import (
    BrokerConnection,
    Client,
    MqttMessage,
    first_of,
    mark_on,
    will_of,
)
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import (
    LOST,
    UNREADABLE,
    Packer,
    Parcel,
    Position,
    RunPart,
    RunState,
    RunStatus,
    decode_part_request,
    decode_presence,
    decode_request,
    encode,
    page_of,
    topic,
)
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record, kind_of

ReadLog = Callable[[Position], Awaitable[Sequence[tuple[Position, Record]]]]
"""Returns the log's next records after a position, some hundreds at most; none at its end."""

ReadPart = Callable[[str], Awaitable[bytes | None]]
"""Returns a part of the run (see mqtt_wire.PartRequest); None: there is no such part."""

_HURRY_S = 2.0  # to send the rest of the outbox when the run breaks off

_log = structlog.get_logger(__name__)


class MqttLink(anyio.AsyncContextManagerMixin):
    """Publishes one log. Entering the block connects it; leaving sends the rest.

    `log` names the log: the same name when a run is resumed, another for a new run of the same
    name. `position` and `counts` describe the log at the beginning. Entering raises BusError when
    the broker cannot be reached or refuses access, SettingsError for bad settings.
    """

    def __init__(
        self,
        settings: MqttSettings,
        run: str,
        *,
        log: str,
        read_log: ReadLog,
        position: Position = 0,
        counts: Mapping[str, int] | None = None,
        episodes: int = 0,
        digest: str = "",
        judge: str = "",
        read_part: ReadPart | None = None,
        owner: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._run_name = run
        self._log_name = quote(log, safe="")
        self._read_log = read_log
        self._read_part = read_part
        self._episodes = episodes
        self._digest = digest
        self._judge = judge
        self._owner = owner
        self._now = now
        self._counts = Counter(counts or {})
        self._packer = Packer(run, self._log_name, batch=settings.batch, position=position)
        self._heads = self._packer.heads  # up to where each kind has been sent, at least once
        self._outbox: deque[tuple[Position, Record]] = deque()
        self._parcels: deque[Parcel] = deque()  # to be sent
        self._unacknowledged: dict[int, Parcel] = {}  # sent, but perhaps not received by the broker
        self._state: RunState = "live"
        self._ended = anyio.Event()  # set: the broker has the state "ended"
        self._filled = anyio.Event()  # replaced when the outbox has been seen empty
        self._room = anyio.Event()  # replaced when a publisher begins to wait
        self._status_due = anyio.Event()  # set: send the state now
        self._drained: anyio.Event | None = None  # set once all is sent; None: no wait
        self._activity = anyio.Event()  # set: a follower requested something, or left
        self._followers = Awaited(linger_s=settings.linger_s, session_s=settings.session_s)
        self._failure: BusError | None = None
        self._scope = anyio.CancelScope(shield=True)
        self._counters = Counter[str]()
        self._connection = BrokerConnection(
            broker_of(settings),
            settings,
            f"rehearse-{secrets.token_hex(8)}",
            ahead=settings.in_flight,
            will=lambda: will_of(self._status_topic, self._status("lost")),
        )
        self._status_topic = topic(run, "status") if owner else topic(run, "status", self._log_name)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as tasks:
            try:
                await tasks.start(self.run)
                try:
                    yield self
                except BaseException:
                    await self.close(hurry=True)
                    raise
                await self.close()
            finally:
                self.stop()

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={value}" for name, value in self.statistics().items())
        return f"<MqttLink {self._run_name} {self._state}, {counts}>"

    def put(self, batch: Sequence[tuple[Position, Record]]) -> None:
        """Add records that the log has committed, in its order; never waits (see wait_for_room)."""
        self._outbox.extend(batch)
        for _, record in batch:
            self._counts[kind_of(record.event)] += 1
        self._filled.set()

    async def wait_for_room(self) -> None:
        """Wait while the outbox is over its limit. Raises BusError once the broker refuses what the
        link publishes."""
        while len(self._outbox) > self._settings.outbox and self._failure is None:
            if self._room.is_set():
                self._room = anyio.Event()
            await self._room.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def num_unsent(self) -> int:
        """The number of records that the broker has not acknowledged."""
        packed = (*self._parcels, *self._unacknowledged.values())
        return len(self._outbox) + sum(parcel.num_records for parcel in packed)

    def statistics(self) -> dict[str, int]:
        """Counts of what was sent and what waits."""
        return {
            "unsent": self.num_unsent,
            "sent": self._counters["records"],
            "messages": self._counters["messages"],
            "pages": self._counters["pages"],
            "statuses": self._counters["statuses"],
            "connects": self._connection.num_connects,
            "followers": len(self._followers),
        }

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Publish until `stop`; cancelling the task does not end it, because the records put so far
        must still be sent. Started when the broker has accepted the connection."""
        try:
            with self._scope:
                await self._connection.run(lambda client: self._work(client, task_status))
        except* BusError as group:
            self._failure = first_of(group)
            self._room.set()
            if self._drained is not None:
                self._drained.set()
        if self._failure is None:
            return
        if not self._connection.is_established:
            raise self._failure
        _log.error("mqtt_publishing_refused", why=str(self._failure))

    def stop(self) -> None:
        """Stop publishing at once."""
        self._scope.cancel()

    async def _work(self, client: Client, task_status: TaskStatus[None]) -> None:
        await client.send(self._status_topic, self._status(self._state), retain=True)
        catchup = topic(self._run_name, "catchup")
        levels = ("request", "here") if self._read_part is None else ("request", "here", "ask")
        await client.subscribe_to([f"{catchup}/+/{level}" for level in levels])
        if not self._connection.is_established:
            self._connection.is_established = True
            task_status.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_statuses, client)
            tasks.start_soon(self._serve_followers, client)
            await self._send_parcels(client)

    async def _send_parcels(self, client: Client) -> None:
        """Send parcels in order, as many at a time as the broker accepts. The records in the outbox
        when a slot is free become one batch: the slower the broker, the larger the batches."""
        slots = anyio.Semaphore(self._settings.in_flight)
        self._parcels.extendleft(reversed(self._unacknowledged.values()))
        self._unacknowledged.clear()
        async with anyio.create_task_group() as tasks:
            while True:
                await slots.acquire()
                await self._pack()
                parcel = self._parcels.popleft()
                self._unacknowledged[id(parcel)] = parcel
                tasks.start_soon(self._deliver, client, parcel, slots)

    async def _pack(self) -> None:
        """Wait until there is a parcel to send. A message of any size costs 0.1 to 0.2 ms."""
        enough = min(self._settings.batch, self._settings.outbox)
        while not self._parcels:
            while not self._outbox:
                self._filled = anyio.Event()
                await self._filled.wait()
            if len(self._outbox) < enough:
                await anyio.sleep(self._settings.gather_s)
            self._parcels.extend(self._packer.pack(self._outbox))
            if len(self._outbox) <= self._settings.outbox:
                self._room.set()

    async def _deliver(self, client: Client, parcel: Parcel, slots: anyio.Semaphore) -> None:
        self._heads = parcel.heads
        await client.send(parcel.topic, parcel.payload, mark=parcel.mark)
        del self._unacknowledged[id(parcel)]
        self._counters["messages"] += 1
        self._counters["records"] += parcel.num_records
        slots.release()
        if self._drained is not None and not self.num_unsent:
            self._drained.set()

    async def _send_statuses(self, client: Client) -> None:
        """Send the run's state every second: from it followers notice which records they miss."""
        while True:
            with anyio.move_on_after(self._settings.status_s):
                await self._status_due.wait()
            self._status_due = anyio.Event()
            state = self._state
            await client.send(self._status_topic, self._status(state), retain=True)
            self._counters["statuses"] += 1
            if state == "ended":
                self._ended.set()

    def _status(self, state: RunState) -> bytes:
        return encode(
            RunStatus(
                self._run_name,
                state,
                self._log_name,
                self._heads,
                self._owner,
                self._digest,
                self._episodes,
                dict(self._counts),
                self._now(),
                self._judge,
            )
        )

    async def _serve_followers(self, client: Client) -> None:
        """Register the followers and answer their requests."""
        async for message in client.messages:
            follower, level = message.topic.value.split("/")[3:5]
            if level == "here":
                is_awaited = self._note_presence(follower, message)
            else:
                is_awaited = self._followers.note_active(follower, anyio.current_time())
            if level == "request":
                await self._answer(client, follower, message)
            elif level == "ask":
                await self._send_part(client, follower, message)
            client.ack(message)
            if is_awaited:
                self._activity.set()

    def _note_presence(self, follower: str, message: MqttMessage) -> bool:
        """Note that a follower comes, leaves or is lost; return whether it is, or was, awaited."""
        now = anyio.current_time()
        if message.payload:
            return self._followers.come(follower, decode_presence(message.payload), now)
        if mark_on(message) == LOST:
            return self._followers.lose(follower, now)
        return self._followers.leave(follower)

    async def _answer(self, client: Client, follower: str, message: MqttMessage) -> None:
        try:
            request = decode_request(message.payload)
        except UNREADABLE as exc:
            _log.warning("mqtt_unreadable_request", topic=message.topic.value, why=str(exc))
            return
        if request.log != self._log_name:  # for another publisher
            return
        boundary = self._packer.boundary  # read before the log, which then has all up to it
        rows = await self._read_log(request.lowest)
        page = page_of(request, rows, boundary)
        self._counters["pages"] += 1
        await client.send(topic(self._run_name, "catchup", follower, "answer"), page)

    async def _send_part(self, client: Client, follower: str, message: MqttMessage) -> None:
        try:
            request = decode_part_request(message.payload)
        except UNREADABLE as exc:
            _log.warning("mqtt_unreadable_request", topic=message.topic.value, why=str(exc))
            return
        if request.log != self._log_name or self._read_part is None:
            return
        part = RunPart(request.log, request.part, await self._read_part(request.part))
        await client.send(topic(self._run_name, "catchup", follower, "part"), encode(part))

    async def close(self, *, hurry: bool = False) -> None:
        """Send the rest, publish the end of the run, and wait for the followers.

        Takes at most `close_s`, and as long as followers are awaited; in a hurry at most a few
        seconds. Records that could not be sent are logged and counted as `unsent`.
        Cancellation does not stop the sending.
        """
        settings = self._settings
        seconds = min(settings.close_s, _HURRY_S) if hurry else settings.close_s
        with anyio.move_on_after(seconds, shield=True):
            while self.num_unsent and self._failure is None:
                self._drained = anyio.Event()
                await self._drained.wait()
            if self._failure is None:
                self._state = "ended"
                self._status_due.set()
                await self._ended.wait()
        if not self._ended.is_set():
            _log.warning("mqtt_closed_unsent", run=self._run_name, records=self.num_unsent)
            return
        self._followers.end(anyio.current_time())
        while not hurry and (rest_s := self._followers.until() - anyio.current_time()) > 0:
            self._activity = anyio.Event()
            with anyio.move_on_after(rest_s):
                await self._activity.wait()
