"""A follower sends the whole run, on the log or over a broker, with the spans of an export."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import anyio
import anyio.to_thread
import pytest

from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.chat.retry import Backoff
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.interop.otlp.follower import Sent, send_run
from rehearsal_room.interop.otlp.sender import OtlpSender
from rehearsal_room.interop.otlp.spans import SpanMaker
from tests.interop.otlp.test_spans import decoded, exported
from tests.support.broker import free_port, running_broker
from tests.support.cli import Rehearse
from tests.support.collector import OK, Answer, running_collector
from tests.support.ledger_world import write_package
from tests.support.mqtt_bus import PublishingBus
from tests.support.mqtt_runs import settings_for
from tests.support.paths import ROOT
from tests.support.timed_records import begin, end, merged, records, turn, verdict

STORED = merged(
    records(
        "a",
        [
            (0.0, begin()),
            (2.0, turn(1.0, 0.1)),
            (4.0, turn(1.0)),
            (4.0, end(4.0)),
            (5.0, verdict()),
        ],
    ),
    records("b", [(1.0, begin()), (3.0, turn(1.0, 0.2, 0.1))]),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sender(url: str) -> OtlpSender:
    return OtlpSender(
        url, timeout_s=0.5, backoff=Backoff(first_s=0.01, max_wait_s=0.02), environment={}
    )


async def test_a_live_run_is_followed_on_its_log(tmp_path: Path) -> None:
    """Records that come while it follows are sent; it ends when nothing writes the log any more.
    What a collector refused for a while arrives, too. The spans are those of an export."""
    expected = await anyio.to_thread.run_sync(exported, tmp_path / "export", STORED)
    folder = tmp_path / "run"
    sent: list[Sent] = []

    async def follow(url: str) -> None:
        with open_reader(folder) as reader:
            async with sender(url) as opened:
                source = LogFollower(folder, reader, every_s=0.01)
                sent.append(await send_run(source, opened, SpanMaker("log", "run"), gather_s=0.02))

    with running_collector(OK, Answer(503), Answer(429, {"Retry-After": "0"})) as collector:
        async with anyio.create_task_group() as tasks, open_log(folder) as log:
            tasks.start_soon(follow, collector.url)
            for record in STORED[:4]:
                log.append(record)
            await log.flush()
            arrived = await anyio.to_thread.run_sync(collector.arrived.wait, 20.0)
            assert arrived
            assert sent == []
            for record in STORED[4:]:
                log.append(record)
    assert collector.spans == expected
    assert sent == [Sent(spans=len(expected), episodes=2)]


async def test_a_follower_over_a_broker_sends_the_same_spans(tmp_path: Path) -> None:
    """Over MQTT the spans have the ids of an export from the log, whose id the broker has."""
    exports = await anyio.to_thread.run_sync(exported, tmp_path / "export", STORED)
    with running_broker(tmp_path) as broker, running_collector() as collector:
        settings = settings_for(broker)
        async with anyio.create_task_group() as tasks, PublishingBus(settings, "run") as bus:
            for record in STORED:
                await bus.publish(record)

            async def follow() -> None:
                async with (
                    PublishingBus(settings, "run") as other,
                    other.subscribe() as subscription,
                    sender(collector.url) as opened,
                ):
                    await send_run(subscription, opened, SpanMaker("log", "run"), gather_s=0.02)

            tasks.start_soon(follow)
            with anyio.fail_after(20):
                assert await anyio.to_thread.run_sync(collector.arrived.wait, 20.0)
            await bus.close()
    assert {span.span_id for span in collector.spans} == {span.span_id for span in exports}


def test_the_command_on_a_folder(rehearse: Rehearse, tmp_path: Path) -> None:
    """`watch RUN --otlp URL` sends a finished run: the spans that `export` writes."""
    folder = tmp_path / "run"
    package = write_package(tmp_path / "ledger")
    assert rehearse("run", package, "-p", "oracle", "-n", 3, "-o", folder)[0] == 0
    assert rehearse("export", folder, "--to", "otlp", "--content")[0] == 0
    with running_collector() as collector:
        status, out, err = rehearse("show", "watch", folder, "--otlp", collector.url, "--content")
    assert status == 0, err
    assert collector.spans == decoded(folder / "spans.otlp")
    assert out == f"{len(collector.spans)} spans of 3 episodes sent to {collector.url}/v1/traces\n"


@pytest.mark.slow
def test_the_command_over_a_broker(rehearse: Rehearse, tmp_path: Path) -> None:
    """`watch --bus BROKER --otlp URL` sends a live run with the spans of a later export."""
    folder = tmp_path / "run"
    package = write_package(tmp_path / "ledger")
    command = [
        sys.executable,
        "-m",
        "rehearsal_room",
        "run",
        str(package),
        "-p",
        "oracle",
        "-n",
        "4",
    ]
    with running_broker(tmp_path) as broker, running_collector() as collector:
        command += ["-c", "4", "--think", "0.2", "--bus", broker.url, "-o", str(folder)]
        player = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            status, err = 2, ""
            while status and player.poll() is None:  # until the run is announced
                status, _, err = rehearse(
                    "show", "watch", "--bus", broker.url, "--otlp", collector.url
                )
        finally:
            assert player.wait() == 0
    assert status == 0, err
    assert rehearse("export", folder, "--to", "otlp")[0] == 0
    assert {span.span_id for span in collector.spans} == {
        span.span_id for span in decoded(folder / "spans.otlp")
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--otlp", "x"), "--otlp: 'x' is not the URL of a collector"),
        (("--otlp", "http://h"), "RUN: name the folder of a run"),
        (("run",), "run: there is no log (episodes.sqlite) in this folder"),
        ((), "RUN: name the folder of a run, or the broker that it is on (--bus)"),
        (("run", "--otlp", "http://h", "--events"), "--events: prints events"),
        (("run", "--bus", "mqtt://h", "--content"), "--content: is for spans"),
    ],
)
def test_bad_input(rehearse: Rehearse, arguments: tuple[str, ...], sentence: str) -> None:
    """One sentence each."""
    status, _, err = rehearse("show", "watch", *arguments)
    assert status == 2
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1


def test_a_dead_collector(rehearse: Rehearse, tmp_path: Path) -> None:
    """One sentence, and exit status 2."""
    url = f"http://127.0.0.1:{free_port()}"
    status, _, err = rehearse("show", "watch", tmp_path, "--otlp", url)
    assert (status, err) == (
        2,
        f"error: {url}/v1/traces: the collector cannot be reached: connection refused\n",
    )


def test_without_the_package(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation without the extra names it."""
    monkeypatch.delitem(sys.modules, "rehearsal_room.interop.otlp.encoding", raising=False)
    name = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
    nothing: dict[str, ModuleType | None] = {name: None}
    for module, found in nothing.items():
        monkeypatch.setitem(sys.modules, module, found)
    status, _, err = rehearse("show", "watch", tmp_path, "--otlp", "http://h")
    assert status == 2
    assert err == f"error: otlp needs the package {name}: pip install 'rehearsal-room[otlp]'\n"
