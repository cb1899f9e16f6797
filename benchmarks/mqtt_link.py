"""The MQTT link against bare aiomqtt: events a second from a publisher to a follower.

    python -m benchmarks.mqtt_link --runs 5

Publisher, broker and follower are three processes. The events are those of a logged run, again and
again; MQTT 5, QoS 1, the same broker and the same number of messages in flight for all. Rates are
events a second from the first one published to the last one received and decoded. Compared in turns
are

    link         MqttLink and its follower: the records, each once and in order, as the log has them
    bare         aiomqtt's own client: one message for each event, with the link's payload
    bare, packed the same with messages of the link's size: up to 256 events in one

Bare aiomqtt stores nothing, gives no order and no second delivery, and its follower would lose
what it is too slow for, if the broker's queue were not unlimited here.
"""

import asyncio
import getpass
import multiprocessing
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import aiomqtt
import anyio
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.bus.mqtt_bus import MqttBus
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import decode_records, topic
from rehearsal_room.harness.core.events import Record, encode, kind_of
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.rollout.process import run as run_loop

_COMMIT = 200  # events of one commit of the log
_WORLDS = ("shop_support", "claims_desk", "flight_desk")
_SETTINGS = MqttSettings()
Rows = list[tuple[int, Record]]
Messages = Iterator[tuple[str, bytes]]


def logged_events(folder: Path, num_events: int) -> Rows:
    """The events of a run of the bundled worlds, repeated under other names."""
    command = [
        sys.executable,
        "-m",
        "rehearsal_room",
        "run",
        *_WORLDS,
        "-n",
        "200",
        "-o",
        str(folder),
    ]
    subprocess.run([*command, "-p", "oracle"], check=True, capture_output=True)
    with open_reader(folder) as reader:
        records = [record for _, record in reader.records_after(0, 1_000_000)]
    rows: Rows = []
    number = 0
    while len(rows) < num_events:
        for record in records[: num_events - len(rows)]:
            named = msgspec.structs.replace(record, episode=f"{record.episode}-{number}")
            rows.append((len(rows) + 1, named))
        number += 1
    return rows


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """A broker whose queues have no limit; gives its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
        f"user {getpass.getuser()}\n",
        encoding="utf-8",
    )
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise SystemExit("mosquitto is not installed (just setup)")
    with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_open(port)
            yield port
        finally:
            process.terminate()


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class LinkSide:
    """The link and its follower."""

    name = "link"

    async def publish(self, url: str, run: str, rows: Rows, begin: Callable[[], None]) -> None:
        async def read_log(after: int) -> Sequence[tuple[int, Record]]:
            return rows[after : after + 500]

        settings = msgspec.structs.replace(_SETTINGS, url=url)
        async with MqttLink(settings, run, log="bench", read_log=read_log) as link:
            begin()
            for start in range(0, len(rows), _COMMIT):
                link.put(rows[start : start + _COMMIT])
                await link.wait_for_room()
                await anyio.lowlevel.checkpoint()

    async def receive(self, url: str, run: str, num: int, ready: Callable[[], None]) -> None:
        settings = msgspec.structs.replace(_SETTINGS, url=url)
        got = 0
        async with MqttBus(settings, run) as bus, bus.subscribe() as follower:
            ready()
            while got < num:
                got += len(await follower.receive())


class BareSide:
    """aiomqtt's client, which sends what `messages` makes of the events."""

    def __init__(self, name: str, messages: Callable[[str, Rows], Messages]) -> None:
        self.name = name
        self._messages = messages

    async def publish(self, url: str, run: str, rows: Rows, begin: Callable[[], None]) -> None:
        slots = asyncio.Semaphore(_SETTINGS.in_flight)
        async with _client(url) as client:
            begin()
            async with asyncio.TaskGroup() as tasks:
                for name, payload in self._messages(run, rows):
                    await slots.acquire()
                    tasks.create_task(self._send(client, name, payload, slots))

    @staticmethod
    async def _send(
        client: aiomqtt.Client, name: str, payload: bytes, slots: asyncio.Semaphore
    ) -> None:
        await client.publish(name, payload, qos=1)
        slots.release()

    async def receive(self, url: str, run: str, num: int, ready: Callable[[], None]) -> None:
        got = 0
        async with _client(url) as client:
            await client.subscribe(f"{topic(run)}/+/+", qos=1)
            ready()
            async for message in client.messages:
                got += len(decode_records(message.payload))
                if got >= num:
                    return


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[aiomqtt.Client]:
    host, _, port = url.removeprefix("mqtt://").partition(":")
    async with aiomqtt.Client(
        host,
        int(port),
        protocol=aiomqtt.ProtocolVersion.V5,
        max_inflight_messages=_SETTINGS.in_flight,
        max_queued_outgoing_messages=0,
    ) as client:
        client.pending_calls_threshold = 2 * _SETTINGS.in_flight
        yield client


def one_by_one(run: str, rows: Rows) -> Messages:
    """A message for each event."""
    for _, record in rows:
        yield f"{topic(run, kind_of(record.event))}/{record.episode}", encode(record)


def packed(run: str, rows: Rows) -> Messages:
    """Messages of the link's size: up to 256 events, those of a kind in one."""
    for start in range(0, len(rows), _SETTINGS.batch):
        kinds: dict[str, list[Record]] = {}
        for _, record in rows[start : start + _SETTINGS.batch]:
            kinds.setdefault(kind_of(record.event), []).append(record)
        for kind, records in kinds.items():
            yield f"{topic(run, kind)}/_batch", encode(records)


Side = LinkSide | BareSide
SIDES: tuple[Side, ...] = (
    LinkSide(),
    BareSide("bare", one_by_one),
    BareSide("bare, packed", packed),
)


def rate_of(side: Side, url: str, run: str, rows: Rows) -> float:
    """Events a second of one side, with a follower in another process."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    follower = context.Process(target=_follow, args=(side, url, run, len(rows), theirs))
    follower.start()
    mine.recv()
    began: list[float] = []
    run_loop(side.publish, url, run, rows, lambda: began.append(time.monotonic()))
    ended: float = mine.recv()
    follower.join()
    return len(rows) / (ended - began[0])


def _follow(side: Side, url: str, run: str, num: int, pipe: Connection) -> None:
    run_loop(side.receive, url, run, num, lambda: pipe.send(None))
    pipe.send(time.monotonic())


def measure(folder: Path, runs: int, num_events: int) -> list[Figure]:
    """All figures."""
    rows = logged_events(folder / "run", num_events)
    sizes = [len(payload) for _, payload in one_by_one("run", rows[:2_000])]
    rates: dict[str, list[float]] = {side.name: [] for side in SIDES}
    with broker(folder) as port:
        for turn in range(runs):
            for side in SIDES:
                name = f"{side.name[:4]}{turn}"
                rates[side.name].append(rate_of(side, f"mqtt://127.0.0.1:{port}", name, rows))
    link, bare, same = (rates[side.name] for side in SIDES)
    return [
        figure("bytes of an event", "", [sum(sizes) / len(sizes)]),
        *(figure(name, "events/s", found) for name, found in rates.items()),
        figure(
            "bare aiomqtt ÷ link, events/s",
            "",
            [one / own for one, own in zip(bare, link, strict=True)],
            reach=1 / 0.6,
        ),
        figure(
            "bare aiomqtt with messages of the link's size ÷ link",
            "",
            [one / own for one, own in zip(same, link, strict=True)],
            reach=1 / 0.6,
        ),
    ]


@benchmark(__doc__)
@count_option("--events", 60_000, "Events of each run.")
@runs_option(5)
def main(events: int, runs: int) -> list[Figure]:
    """The command line."""
    with tempfile.TemporaryDirectory(prefix="rehearse-") as folder:
        return measure(Path(folder), runs, events)


if __name__ == "__main__":
    main()
