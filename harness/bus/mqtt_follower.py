"""Following a run over MQTT: a subscription in another process.

The follower may come late and may be slow. It acknowledges a message when its records have been
received by whoever reads, so the broker holds back what a slow reader has not asked for, and after
a while drops it (mosquitto: after 1,000 messages). The follower sees the gap and asks the publisher
for that part of its log, page by page, each when there is room. Until the gap is filled, what comes
live is dropped: it is in the log too.

Only with `ahead = 1` does the broker keep to it: mosquitto 2.0.11 answers each acknowledgement with
as many messages as may be in flight, not with one (seen: 16 allowed, 4 acknowledged, 76 sent). One
at a time costs a round trip a message, and a message bears up to a batch of records.
"""

import secrets
from collections.abc import Sequence

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

from harness.bus.local import Inbox
from harness.bus.mqtt_client import (
    Client,
    Connection,
    Message,
    Will,
    first_of,
    mark_on,
    part,
    will_of,
)
from harness.bus.mqtt_settings import Broker, MqttSettings
from harness.bus.mqtt_wire import (
    Ledger,
    Page,
    Status,
    decode_page,
    decode_records,
    decode_status,
    encode,
    mark_of,
    topic,
)
from harness.core.errors import BusError
from harness.core.events import Kind, Record

_TRIES = 3  # requests without an answer until a run that has ended is given up

_log = structlog.get_logger(__name__)


class Follower:
    """One subscription to a run; `run` is its life.

    `status` is how the run's publisher last said that it stands (None: it has not been heard).
    """

    def __init__(
        self,
        broker: Broker,
        settings: MqttSettings,
        run: str,
        *,
        kinds: Sequence[Kind],
        depth: int,
    ) -> None:
        self.status: Status | None = None
        self.name = f"rehearse-{secrets.token_hex(8)}"
        self._run_name = run
        self._answer_s = settings.answer_s
        self._inbox = Inbox(depth)
        self._ledger = Ledger(kinds)
        self._connection = Connection(
            broker, settings, self.name, ahead=settings.ahead, will=self._will
        )
        self._here = topic(run, "catchup", self.name, "here")
        self._request = topic(run, "catchup", self.name, "request")
        self._topics = [
            *(topic(run, kind) + "/+" for kind in kinds),
            topic(run, "status") + "/#",
            topic(run, "catchup", self.name, "answer"),
        ]
        self._scope = anyio.CancelScope()
        self._gone = anyio.Event()
        self._client: Client | None = None  # the latest
        self._failure: BusError | None = None
        self._missing = anyio.Event()  # set when there is something to ask for
        self._answered = anyio.Event()  # replaced before each request
        self._num_requests = 0

    async def receive(self) -> Sequence[Record]:
        """See Subscription.receive. Raises BusError when the run cannot be followed further."""
        return await self._inbox.receive()

    def statistics(self) -> dict[str, int]:
        """Records that wait to be received, messages that wait behind them, and what it took."""
        return {
            "queued": len(self._inbox),
            "held": 0 if self._client is None else len(self._client.messages),
            "connects": self._connection.num_connects,
            "requests": self._num_requests,
        }

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow until the run has ended and all of it has arrived; started when subscribed.

        Raises BusError when it cannot be begun; later, `receive` raises it.
        """
        try:
            with self._scope:
                await self._connection.keep(lambda client: self._work(client, task_status))
        except* BusError as group:
            self._failure = first_of(group)
        finally:
            self._inbox.close(self._failure)
            self._gone.set()
        if self._failure is not None and not self._connection.is_settled:
            raise self._failure

    async def leave(self) -> None:
        """Follow no more; returns when the broker has been told, or cannot be."""
        self._scope.cancel()
        self._inbox.close()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()

    async def _work(self, client: Client, task_status: TaskStatus[None]) -> None:
        self._client = client
        try:
            await client.tell(self._here, b"here", retain=True)
            await client.listen(self._topics)
            if not self._connection.is_settled:
                self._connection.is_settled = True
                task_status.started()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._fill_gaps, client)
                async for message in client.messages:
                    await self._take(message)
                    client.ack(message)
                    if self._has_all():
                        break
                tasks.cancel_scope.cancel()
        finally:
            await part(client, self._here, self._topics)

    def _has_all(self) -> bool:
        return self._is_over() and not self._ledger.behind()

    def _is_over(self) -> bool:
        return self.status is not None and self.status.state == "ended"

    async def _take(self, message: Message) -> None:
        name, payload = message.topic.value, message.payload
        what = name.split("/")[2]
        try:
            if what == "status":
                self._take_status(payload)
            elif what == "catchup":
                self._take_page(decode_page(payload))
            else:
                await self._take_records(what, message)
        except (msgspec.DecodeError, ValueError) as exc:
            raise BusError(
                f"a message on {name} cannot be read; is it of another version? {exc}"
            ) from exc
        if self._ledger.behind():
            self._missing.set()

    def _take_status(self, payload: bytes) -> None:
        if not payload:  # somebody took the retained message back
            return
        status = decode_status(payload)
        if status.owner:
            if self.status is not None and self.status.log != status.log:
                self._ledger.forget(self.status.log)  # another run begins under the same name
            self.status = status
        self._ledger.hear(status.log, status.heads)

    async def _take_records(self, kind: str, message: Message) -> None:
        text = mark_on(message)
        if text is None:
            _log.warning("mqtt_message_without_mark", topic=message.topic.value)
        elif self._ledger.take(kind, mark_of(text)):
            self._inbox.put_all(decode_records(message.payload))
            await self._inbox.wait_for_room()

    def _take_page(self, page: Page) -> None:
        self._inbox.put_all(self._ledger.take_page(page))  # there was room when it was asked for
        self._answered.set()

    async def _fill_gaps(self, client: Client) -> None:
        """Ask for what is missing, a page at a time, while there is room for it."""
        unanswered = 0
        while True:
            await self._missing.wait()
            await self._inbox.wait_for_room()
            behind = self._ledger.behind()
            if not behind:
                self._missing = anyio.Event()
                continue
            log = behind[unanswered % len(behind)]
            self._answered = anyio.Event()
            self._num_requests += 1
            await client.tell(self._request, encode(self._ledger.request(log)))
            patience = self._answer_s * (1.0 if self._is_over() else 2.0 ** min(unanswered, _TRIES))
            with anyio.move_on_after(patience):
                await self._answered.wait()
            unanswered = 0 if self._answered.is_set() else unanswered + 1
            if unanswered >= _TRIES and self._is_over():
                raise BusError(
                    f"run {self._run_name!r} has ended and nobody serves its log any more: "
                    "what is missing here stands in its folder"
                )

    def _will(self) -> Will:
        return will_of(self._here, b"")
