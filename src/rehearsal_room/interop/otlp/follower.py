"""Following a run and sending its spans to a collector.

It is a subscriber: the run does not wait for it. A collector that is slow or away slows only this
follower, which then reads on from where it was. A follower that is started again begins with the
first record and sends the same spans with the same ids.
"""

from collections.abc import Sequence
from math import inf

import anyio
import msgspec

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import Record
from rehearsal_room.harness.profile.timeline import EpisodeSpan, Timeline, TimelineSpan
from rehearsal_room.interop.otlp.encoding import SpanBatch
from rehearsal_room.interop.otlp.sender import OtlpSender
from rehearsal_room.interop.otlp.spans import SpanMaker


class Sent(msgspec.Struct):
    """What a follower has sent."""

    spans: int = 0
    episodes: int = 0  # attempts at episodes


async def send_run(
    subscription: Subscription, sender: OtlpSender, maker: SpanMaker, *, gather_s: float = 1.0
) -> Sent:
    """Send the spans of a run until its bus has ended. A span waits up to `gather_s` seconds, so
    that others join its request. Raises BusError and CollectorError."""
    return await _Following(sender, maker, gather_s).follow(subscription)


class _Following:
    def __init__(self, sender: OtlpSender, maker: SpanMaker, gather_s: float) -> None:
        self._gather_s = gather_s
        self._sender, self._maker = sender, maker
        self._batch = SpanBatch(maker.run)
        self._timeline = Timeline()
        self._sent = Sent()

    async def follow(self, subscription: Subscription) -> Sent:
        send_by = inf  # when the spans that wait are sent
        while True:
            records: Sequence[Record] = ()
            try:
                with anyio.move_on_after(send_by - anyio.current_time()):
                    records = await subscription.receive()
            except anyio.EndOfStream:
                break
            for record in records:
                await self._add(self._timeline.add(record))
            if anyio.current_time() >= send_by:
                await self._send_waiting()
            if self._batch.is_empty:
                send_by = inf
            elif send_by == inf:
                send_by = anyio.current_time() + self._gather_s
        await self._add(self._timeline.finish())
        await self._send_waiting()
        return self._sent

    async def _add(self, parts: list[TimelineSpan]) -> None:
        for part in parts:
            self._sent.episodes += isinstance(part, EpisodeSpan)
            spans = list(self._maker.spans_of(part))
            self._sent.spans += len(spans)
            for request in self._batch.add(spans):
                await self._sender.send(request)

    async def _send_waiting(self) -> None:
        if not self._batch.is_empty:
            await self._sender.send(self._batch.take())
