"""The bus between processes: a run's facts over an MQTT 5 broker (through aiomqtt 2.x, the package
formerly named asyncio-mqtt). What passes over the broker is told in `harness.bus.mqtt_wire`.

`MqttLink` publishes what a log has committed, answers followers who miss something, and tells how
the run stands. `MqttBus` is the Bus for processes without a log. `runs_on` lists a broker's runs.

What is kept:

- A record handed over is delivered to every follower, once and in order, through lost connections
  and restarts of the broker, as long as the publisher lives. While the broker is away, the outbox
  fills, and then publishers wait.
- At the end the publisher waits for the followers to have got everything: as long as they ask, and
  `linger_s` longer. Who comes later reads the log itself.
- Memory is bounded by the settings (`outbox`, `in_flight`, `batch`), except in MqttBus, which keeps
  what it has published, having no log to read it from.
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from urllib.parse import quote

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

from envpool.offloaded.owned_tasks import OwnedTasks
from harness.bus.local import DEPTH, check_kinds
from harness.bus.mqtt_client import Client, Connection, Message, first_of, will_of
from harness.bus.mqtt_follower import Follower
from harness.bus.mqtt_settings import MqttSettings, broker_of
from harness.bus.mqtt_wire import (
    ROOT,
    Packer,
    Parcel,
    Position,
    State,
    Status,
    decode_request,
    decode_status,
    encode,
    page_of,
    topic,
)
from harness.core.errors import BusError
from harness.core.events import Kind, Record, kind_of

History = Callable[[Position], Awaitable[Sequence[tuple[Position, Record]]]]
"""The log's next records after a position, some hundreds at most; none at its end."""

_HURRY_S = 2.0  # for what is left in the outbox when the run breaks off

_log = structlog.get_logger(__name__)


class MqttLink:
    """Publishes one log. `async with` connects it and, at the end, sends what is left.

    `log` names the log: the same when a run goes on, another for a new run of the same name.
    `position` and `counts` are where the log stands at the beginning. Entering raises BusError
    when the broker cannot be reached or does not let us in, SettingsError for bad settings.
    """

    def __init__(
        self,
        settings: MqttSettings,
        run: str,
        *,
        log: str,
        history: History,
        position: Position = 0,
        counts: Mapping[str, int] | None = None,
        episodes: int = 0,
        digest: str = "",
        owner: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._run_name = run
        self._log_name = quote(log, safe="")
        self._history = history
        self._episodes = episodes
        self._digest = digest
        self._owner = owner
        self._now = now
        self._counts = Counter(counts or {})
        self._packer = Packer(run, self._log_name, batch=settings.batch, position=position)
        self._heads = self._packer.heads  # what has been sent, at least once
        self._outbox: deque[tuple[Position, Record]] = deque()
        self._parcels: deque[Parcel] = deque()  # to be sent
        self._unacknowledged: dict[int, Parcel] = {}  # sent; the broker does not have them for sure
        self._state: State = "live"
        self._ended = anyio.Event()  # the broker knows that the run has ended
        self._filled = anyio.Event()  # replaced when the outbox has been seen empty
        self._room = anyio.Event()  # replaced when somebody begins to wait
        self._hurry = anyio.Event()  # tell how the run stands now
        self._drained: anyio.Event | None = None  # somebody waits for everything to be sent
        self._stirred = anyio.Event()  # a follower asked for something, or left
        self._followers: set[str] = set()
        self._failure: BusError | None = None
        self._scope = anyio.CancelScope(shield=True)
        self._counters = Counter[str]()
        self._connection = Connection(
            broker_of(settings),
            settings,
            f"rehearse-{secrets.token_hex(8)}",
            ahead=settings.in_flight,
            will=lambda: will_of(self._status_topic, self._status("lost")),
        )
        self._status_topic = topic(run, "status") if owner else topic(run, "status", self._log_name)

    async def __aenter__(self) -> "MqttLink":
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(OwnedTasks())
            stack.callback(self.stop)
            await tasks.start(self.run)
            stack.push_async_exit(self._finish)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, exc, traceback)

    async def _finish(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(hurry=kind is not None)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={value}" for name, value in self.statistics().items())
        return f"<MqttLink {self._run_name} {self._state}, {counts}>"

    def put(self, batch: Sequence[tuple[Position, Record]]) -> None:
        """Hand over what the log has committed, in its order; never waits (see wait_for_room)."""
        self._outbox.extend(batch)
        for _, record in batch:
            self._counts[kind_of(record.event)] += 1
        self._filled.set()

    async def wait_for_room(self) -> None:
        """Wait while the outbox is over its bound. Raises BusError when the broker has begun to
        refuse what we publish."""
        while len(self._outbox) > self._settings.outbox and self._failure is None:
            if self._room.is_set():
                self._room = anyio.Event()
            await self._room.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def num_unsent(self) -> int:
        """Records that the broker does not have for sure."""
        packed = (*self._parcels, *self._unacknowledged.values())
        return len(self._outbox) + sum(parcel.num_records for parcel in packed)

    def statistics(self) -> dict[str, int]:
        """What was sent, and what is on its way."""
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
        """Publish until `stop`, however the task is cancelled: what has been handed over is still
        to be sent then. Started when the broker has let us in."""
        try:
            with self._scope:
                await self._connection.keep(lambda client: self._work(client, task_status))
        except* BusError as group:
            self._failure = first_of(group)
            self._room.set()
            if self._drained is not None:
                self._drained.set()
            _log.error("mqtt_publishing_refused", why=str(self._failure))
        if self._failure is not None and not self._connection.is_settled:
            raise self._failure

    def stop(self) -> None:
        """Publish no more, at once."""
        self._scope.cancel()

    async def _work(self, client: Client, task_status: TaskStatus[None]) -> None:
        await client.tell(self._status_topic, self._status(self._state), retain=True)
        catchup = topic(self._run_name, "catchup")
        await client.listen([f"{catchup}/+/request", f"{catchup}/+/here"])
        if not self._connection.is_settled:
            self._connection.is_settled = True
            task_status.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_status, client)
            tasks.start_soon(self._hear, client)
            await self._send(client)

    async def _send(self, client: Client) -> None:
        """Send parcels in order, as many at a time as the broker takes. What is in the outbox when
        there is a free place becomes one batch: the slower the broker, the larger the batches."""
        places = anyio.Semaphore(self._settings.in_flight)
        self._parcels.extendleft(reversed(self._unacknowledged.values()))
        self._unacknowledged.clear()
        async with anyio.create_task_group() as tasks:
            while True:
                await places.acquire()
                await self._pack()
                parcel = self._parcels.popleft()
                self._unacknowledged[id(parcel)] = parcel
                tasks.start_soon(self._deliver, client, parcel, places)

    async def _pack(self) -> None:
        """Wait until there is a parcel to send. A message costs 0.1 to 0.2 ms whatever it bears."""
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

    async def _deliver(self, client: Client, parcel: Parcel, places: anyio.Semaphore) -> None:
        self._heads = parcel.heads
        await client.tell(parcel.topic, parcel.payload, mark=parcel.mark)
        del self._unacknowledged[id(parcel)]
        self._counters["messages"] += 1
        self._counters["records"] += parcel.num_records
        places.release()
        if self._drained is not None and not self.num_unsent:
            self._drained.set()

    async def _tell_status(self, client: Client) -> None:
        """Tell every second how the run stands: followers notice by it what they miss."""
        while True:
            with anyio.move_on_after(self._settings.status_s):
                await self._hurry.wait()
            self._hurry = anyio.Event()
            state = self._state
            await client.tell(self._status_topic, self._status(state), retain=True)
            self._counters["statuses"] += 1
            if state == "ended":
                self._ended.set()

    def _status(self, state: State) -> bytes:
        return encode(
            Status(
                self._run_name,
                state,
                self._log_name,
                self._heads,
                self._owner,
                self._digest,
                self._episodes,
                dict(self._counts),
                self._now(),
            )
        )

    async def _hear(self, client: Client) -> None:
        """Know the followers, and answer them."""
        async for message in client.messages:
            client_name, what = message.topic.value.split("/")[3:5]
            if what == "request":
                await self._answer(client, client_name, message)
            elif message.payload:
                self._followers.add(client_name)
            else:
                self._followers.discard(client_name)
            client.ack(message)
            self._stirred.set()

    async def _answer(self, client: Client, client_name: str, message: Message) -> None:
        try:
            request = decode_request(message.payload)
        except msgspec.DecodeError as exc:
            _log.warning("mqtt_unreadable_request", topic=message.topic.value, why=str(exc))
            return
        if request.log != self._log_name:  # another publisher's
            return
        boundary = self._packer.boundary  # before the log is read, so that it has all up to here
        rows = await self._history(request.lowest)
        page = page_of(request, rows, boundary)
        self._counters["pages"] += 1
        await client.tell(topic(self._run_name, "catchup", client_name, "answer"), page)

    async def close(self, *, hurry: bool = False) -> None:
        """Send what is left, say that the run has ended, and wait for the followers.

        Takes `close_s` at most, and `linger_s` after the last sign of a follower; in a hurry a few
        seconds at most. What could not be sent is logged and counted as `unsent`. Goes on sending
        when cancelled.
        """
        settings = self._settings
        seconds = min(settings.close_s, _HURRY_S) if hurry else settings.close_s
        with anyio.move_on_after(seconds, shield=True):
            while self.num_unsent and self._failure is None:
                self._drained = anyio.Event()
                await self._drained.wait()
            if self._failure is None:
                self._state = "ended"
                self._hurry.set()
                await self._ended.wait()
        if not self._ended.is_set():
            _log.warning("mqtt_closed_unsent", run=self._run_name, records=self.num_unsent)
            return
        while self._followers and not hurry:
            self._stirred = anyio.Event()
            with anyio.move_on_after(settings.linger_s) as silence:
                await self._stirred.wait()
            if silence.cancelled_caught:
                return


class MqttBus:
    """The bus for a process without a log of its own; `async with` is its life.

    The first `publish` makes it a publisher: from then on it keeps all that it publishes, for
    followers that come late. `owner`: the run ends for its followers when this bus is left; one
    publisher of a run is its owner.
    """

    def __init__(self, settings: MqttSettings, run: str, *, owner: bool = True) -> None:
        self._settings = settings
        self._run_name = run
        self._broker = broker_of(settings)
        self._records: list[tuple[Position, Record]] = []
        self._starting = anyio.Lock()
        self._is_linked = False
        self._failure: BusError | None = None  # why there is no link
        self._closed = False
        self._link = MqttLink(
            settings, run, log=secrets.token_hex(8), history=self._history, owner=owner
        )

    async def __aenter__(self) -> "MqttBus":
        async with AsyncExitStack() as stack:
            self._tasks = await stack.enter_async_context(OwnedTasks())
            stack.callback(self._link.stop)
            stack.push_async_exit(self._finish)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, exc, traceback)

    async def _finish(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()
        elif self._is_linked and not self._closed:
            await self._link.close(hurry=True)

    def __repr__(self) -> str:
        return f"<MqttBus {self._run_name} on {self._broker}>"

    async def publish(self, record: Record) -> None:
        """See Bus.publish. Raises BusError when there is no broker to take it."""
        if self._closed:
            raise anyio.ClosedResourceError
        if not self._is_linked:
            await self._start_link()
        row = (len(self._records) + 1, record)
        self._records.append(row)
        self._link.put((row,))
        await self._link.wait_for_room()

    async def _start_link(self) -> None:
        async with self._starting:
            if self._failure is not None:
                raise self._failure
            if self._is_linked:
                return
            try:
                # Connecting ends by itself; breaking it off half-way would leave half a link.
                with anyio.CancelScope(shield=True):
                    await self._tasks.start(self._link.run)
            except BusError as exc:
                self._failure = exc
                raise
            self._is_linked = True

    async def _history(self, after: Position) -> Sequence[tuple[Position, Record]]:
        return self._records[after : after + 256]

    @asynccontextmanager
    async def subscribe(
        self, *, kinds: Collection[Kind] | None = None, depth: int = DEPTH
    ) -> AsyncIterator[Follower]:
        """See Bus.subscribe: what the run has published so far, then what it publishes.

        Each subscription is a client of its own, so a slow one slows none of the others; only
        memory at the broker and the run's log stand between it and the publisher. Raises BusError.
        """
        follower = Follower(
            self._broker, self._settings, self._run_name, kinds=check_kinds(kinds), depth=depth
        )
        await self._tasks.start(follower.run)
        try:
            yield follower
        finally:
            await follower.leave()

    async def close(self) -> None:
        """Publish no more; followers receive what is there, then the end. Raises BusError when
        records could not be sent."""
        if self._closed:
            return
        self._closed = True
        if self._is_linked:
            await self._link.close()
            unsent = self._link.num_unsent
            if unsent:
                raise BusError(f"{unsent} records could not be sent to the broker {self._broker}")

    def statistics(self) -> dict[str, int]:
        """What was sent, and what is on its way."""
        return self._link.statistics()


async def runs_on(settings: MqttSettings) -> list[Status]:
    """The runs that the broker knows of, the latest first. Raises BusError, SettingsError."""
    name = f"rehearse-{secrets.token_hex(8)}"
    probe = f"{ROOT}/_probe/{name}"
    found: dict[str, Status] = {}

    async def work(client: Client) -> None:
        # What is retained is sent when we subscribe, so before our own probe comes back.
        await client.listen([f"{ROOT}/+/status", probe])
        await client.tell(probe, b"probe")
        async for message in client.messages:
            client.ack(message)
            if message.topic.value == probe:
                return
            try:
                status = decode_status(message.payload)
                found[status.run] = status
            except msgspec.DecodeError:
                _log.warning("mqtt_unreadable_status", topic=message.topic.value)

    await Connection(broker_of(settings), settings, name, ahead=settings.in_flight).keep(work)
    return sorted(found.values(), key=lambda status: -status.at)


async def status_of(settings: MqttSettings, run: str | None = None) -> Status:
    """The run of this name, or the one run that is live. Raises BusError where there is none, or
    where there are several to choose from."""
    runs = await runs_on(settings)
    where = broker_of(settings)
    if run is not None:
        for status in runs:
            if status.run == run:
                return status
    live = [status for status in runs if status.state == "live"]
    if run is None and len(live) == 1:
        return live[0]
    names = ", ".join(f"{status.run} ({status.state})" for status in runs) or "none"
    wanted = f"no run {run!r}" if run is not None else f"{len(live) or 'no'} live runs, not one,"
    raise BusError(f"there is {wanted} on {where}; it knows of: {names}")
