"""Logs and followers for the tests of the MQTT bus."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

import anyio
import anyio.abc
import anyio.lowlevel
import msgspec

from rehearsal_room.harness.bus.mqtt_bus import MqttBus
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpan,
    AgentSpans,
    EpisodeEnded,
    Event,
    EventKind,
    HistorySummarized,
    Judged,
    ModelAsked,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Reply
from tests.support.broker import Mosquitto
from tests.support.events import episode


def settings_for(broker: Mosquitto, **more: object) -> MqttSettings:
    """Settings with short intervals."""
    return msgspec.convert(
        {
            "url": broker.url,
            "status_s": 0.1,
            "answer_s": 0.2,
            "linger_s": 1.0,
            "max_backoff_s": 0.3,
            **more,
        },
        MqttSettings,
    )


class Log:
    """A log in memory: records with positions, read in pages."""

    def __init__(self, records: Sequence[Record] = (), *, page: int = 50) -> None:
        self.rows = list(enumerate(records, 1))
        self._page = page

    async def read(self, after: int) -> list[tuple[int, Record]]:
        return self.rows[after : after + self._page]

    def commit(self, records: Sequence[Record]) -> list[tuple[int, Record]]:
        batch = list(enumerate(records, len(self.rows) + 1))
        self.rows += batch
        return batch

    @property
    def records(self) -> list[Record]:
        return [record for _, record in self.rows]


def mixed(num_episodes: int, num_steps: int, *, seed: int = 0) -> list[Record]:
    """The records of concurrent episodes, as a run writes them into its log."""
    random = Random(seed)
    left = [deque(episode(f"e{number}", num_steps)) for number in range(num_episodes)]
    records = []
    while left:
        chosen = random.choice(left)
        records.append(chosen.popleft())
        if not chosen:
            left.remove(chosen)
    return records


def with_other_replies(records: Sequence[Record]) -> list[Record]:
    """The same episodes with a summary before every second step, a reply of an agent's model before
    every third record, and what the agent wrote and sent before the end."""
    following: dict[str, int] = {}
    found: list[Record] = []
    for record in records:
        added: list[Event] = []
        if record.seq % 3 == 1 and not isinstance(record.event, Judged):
            added.append(ModelAsked(record.seq, record.seq, (), Reply("Hm.")))
        if isinstance(record.event, StepTaken) and record.seq % 2 == 1:
            added.append(HistorySummarized(Reply("So far."), 1))
        if isinstance(record.event, EpisodeEnded):
            span = AgentSpan("ab" * 16, "cd" * 8, "work", attributes={"n": 1})
            added += [AgentOutput("Done."), AgentSpans((span,))]
        seq = following.get(record.episode, 0)
        for event in (*added, record.event):
            found.append(msgspec.structs.replace(record, seq=seq, event=event))
            seq += 1
        following[record.episode] = seq
    return found


def by_episode(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.episode, []).append(record)
    return found


async def take(follower: Follower, got: list[Record], *, until: int | None = None) -> None:
    """Receive until `got` has `until` records, or (None) until the end."""
    try:
        while until is None or len(got) < until:
            got.extend(await follower.receive())
    except anyio.EndOfStream:
        assert until is None, f"the end came after {len(got)} records, not {until}"


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that another process brings about without an event."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.005)


@asynccontextmanager
async def dying(link: MqttLink) -> AsyncIterator[None]:
    """A publisher that disappears after the block without publishing the end of the run."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(link.run)
        yield
        link.stop()


@asynccontextmanager
async def following(
    settings: MqttSettings, *, kinds: Sequence[EventKind] | None = None, depth: int = 4096
) -> AsyncIterator[Follower]:
    async with MqttBus(settings, "r") as bus, bus.subscribe(kinds=kinds, depth=depth) as follower:
        yield follower
