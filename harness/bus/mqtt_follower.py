"""Following a run over MQTT: a subscription in another process.

The follower may start late and may be slow. It acknowledges a message when the subscriber has
received its records, so the broker holds back the messages that a slow subscriber has not read, and
after a while drops them (mosquitto: after 1,000 messages). The follower sees the gap and requests
that part of the log from the publisher, page by page, each when there is room. Until the gap is
filled, live messages are dropped: their records are in the log too.

The broker respects the limit only with `ahead = 1`: mosquitto 2.0.11 answers each acknowledgement
with as many messages as may be in flight, not with one (seen: 16 allowed, 4 acknowledged, 76 sent).
One at a time costs a round trip for each message, and a message has up to a batch of records.
"""

import secrets
from collections.abc import Sequence

import anyio
import structlog
from anyio.abc import TaskStatus

from rehearsal_room.harness.bus.local import Inbox
from rehearsal_room.harness.bus.mqtt_client import (
    BrokerConnection,
    Client,
    MqttMessage,
    Will,
    first_of,
    mark_on,
    sign_off,
    will_of,
)
from rehearsal_room.harness.bus.mqtt_settings import Broker, MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import (
    LOST,
    UNREADABLE,
    FollowedPositions,
    Heads,
    Presence,
    RecordsPage,
    RunStatus,
    decode_page,
    decode_records,
    decode_status,
    encode,
    mark_of,
    topic,
)
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import EventKind, Record

_MAX_UNANSWERED = 3  # requests without an answer after which an ended run is given up

_log = structlog.get_logger(__name__)


class Follower:
    """One subscription to a run, which lives as long as the task `run`.

    `status` is the latest state that the run's publisher has reported (None: none has arrived).
    """

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        run: str,
        *,
        kinds: Sequence[EventKind],
        depth: int,
        have: tuple[str, Heads] | None = None,
        presence: Presence | None = None,
    ) -> None:
        """`have`: a log, and up to where the subscriber has its records; None: it has none.
        `presence`: which copy it keeps; None: it keeps none, and is not awaited when it is lost."""
        self.status: RunStatus | None = None
        self.name = f"rehearse-{secrets.token_hex(8)}"
        self._run_name = run
        self._answer_s = settings.answer_s
        self._inbox = Inbox(depth)
        self._ledger = FollowedPositions(kinds)
        if have is not None:
            self._ledger.resume(*have)
        self._connection = BrokerConnection(
            broker, settings, self.name, ahead=settings.ahead, will=self._will
        )
        self._here = topic(run, "catchup", self.name, "here")
        self._request = topic(run, "catchup", self.name, "request")
        self._presence = b"here" if presence is None else encode(presence)
        self._topics = [
            *(topic(run, kind) + "/+" for kind in kinds),
            topic(run, "status") + "/#",
            topic(run, "catchup", self.name, "answer"),
        ]
        self._scope = anyio.CancelScope()
        self._left = anyio.Event()  # set when `run` has ended
        self._client: Client | None = None  # of the latest connection
        self._failure: BusError | None = None
        self._missing = anyio.Event()  # set when records are missing
        self._answered = anyio.Event()  # replaced before each request
        self._num_requests = 0
        self._unread: set[str] = set()  # levels on which a message could not be read

    async def receive(self) -> Sequence[Record]:
        """See Subscription.receive. Raises BusError when the run cannot be followed further."""
        return await self._inbox.receive()

    def have(self, log: str) -> Heads:
        """Up to where each kind of a log has arrived. Read right after `receive`, before anything
        else is awaited, it covers what that has returned, and no more."""
        return self._ledger.have(log)

    def statistics(self) -> dict[str, int]:
        """Counts: records in the queue, messages that wait behind them, connections made,
        and requests sent."""
        return {
            "queued": len(self._inbox),
            "unread_messages": 0 if self._client is None else len(self._client.messages),
            "connects": self._connection.num_connects,
            "requests": self._num_requests,
        }

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow until the run has ended and every record has arrived; started once subscribed.

        Raises BusError when it cannot start; after the start, `receive` raises it.
        """
        try:
            with self._scope:
                await self._connection.run(lambda client: self._work(client, task_status))
        except* BusError as group:
            self._failure = first_of(group)
        finally:
            self._inbox.close(self._failure)
            self._left.set()
        if self._failure is not None and not self._connection.is_established:
            raise self._failure

    async def leave(self) -> None:
        """Stop following; return when the subscriptions are removed, or the broker is away."""
        self._scope.cancel()
        self._inbox.close()
        with anyio.CancelScope(shield=True):
            await self._left.wait()

    async def _work(self, client: Client, task_status: TaskStatus[None]) -> None:
        self._client = client
        try:
            await client.send(self._here, self._presence, retain=True)
            await client.subscribe_to(self._topics)
            if not self._connection.is_established:
                self._connection.is_established = True
                task_status.started()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._fill_gaps, client)
                async for message in client.messages:
                    await self._handle(message)
                    client.ack(message)
                    if self._is_complete():
                        break
                tasks.cancel_scope.cancel()
        finally:
            await sign_off(client, self._here, self._topics)

    def _is_complete(self) -> bool:
        return self._has_ended() and not self._ledger.incomplete_logs()

    def _has_ended(self) -> bool:
        return self.status is not None and self.status.state == "ended"

    async def _handle(self, message: MqttMessage) -> None:
        name, payload = message.topic.value, message.payload
        level = name.split("/")[2]
        try:
            if level == "status":
                self._handle_status(payload)
            elif level == "catchup":
                self._handle_page(decode_page(payload))
            else:
                await self._handle_records(level, message)
        except UNREADABLE as exc:
            self._ignore(name, level, exc)
        if self._ledger.incomplete_logs():
            self._missing.set()

    def _ignore(self, name: str, level: str, exc: BaseException) -> None:
        """Ignore a message that is not ours, or of another version. Anybody who may write on the
        broker can send one; what it should have contained is requested from the log."""
        if level not in self._unread:  # one line: a publisher sends a status every second
            self._unread.add(level)
            _log.warning("mqtt_unreadable_message", topic=name, why=str(exc))

    def _handle_status(self, payload: bytes) -> None:
        if not payload:  # the retained message was removed
            return
        status = decode_status(payload)
        if status.owner:
            if self.status is not None and self.status.log != status.log:
                self._ledger.forget(self.status.log)  # another run begins under the same name
            self.status = status
        self._ledger.note_published(status.log, status.heads)

    async def _handle_records(self, kind: str, message: MqttMessage) -> None:
        text = mark_on(message)
        if text is None:
            _log.warning("mqtt_message_without_mark", topic=message.topic.value)
            return
        mark = mark_of(text)
        records = decode_records(message.payload)  # before they are counted as received
        if self._ledger.accept(kind, mark):
            self._inbox.put_all(records)
            await self._inbox.wait_for_room()

    def _handle_page(self, page: RecordsPage) -> None:
        self._inbox.put_all(self._ledger.accept_page(page))  # there was room at its request
        self._answered.set()

    async def _fill_gaps(self, client: Client) -> None:
        """Request missing records, a page at a time, while there is room for them."""
        unanswered = 0
        while True:
            await self._missing.wait()
            await self._inbox.wait_for_room()
            logs = self._ledger.incomplete_logs()
            if not logs:
                self._missing = anyio.Event()
                continue
            log = logs[unanswered % len(logs)]
            self._answered = anyio.Event()
            self._num_requests += 1
            await client.send(self._request, encode(self._ledger.request(log)))
            patience_s = self._answer_s
            if not self._has_ended():
                patience_s *= 2.0 ** min(unanswered, _MAX_UNANSWERED)
            with anyio.move_on_after(patience_s):
                await self._answered.wait()
            unanswered = 0 if self._answered.is_set() else unanswered + 1
            if unanswered >= _MAX_UNANSWERED and self._has_ended():
                raise BusError(
                    f"run {self._run_name!r} has ended and no process serves its log any more;"
                    " read the missing records from the run folder"
                )

    def _will(self) -> Will:
        return will_of(self._here, b"", mark=LOST)
