"""`rehearse view --bus`: a run of another machine, copied over a real broker while it is played."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import structlog

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_runs import runs_on
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import RunStatus
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.viewer.acting import copies
from rehearsal_room.viewer.server.serve import ViewerSettings
from tests.support.broker import Mosquitto, running_broker
from tests.support.mqtt_runs import Log, settings_for
from tests.support.viewer_client import PORT, played, viewing_with


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as running:
        yield running


@pytest.mark.slow
async def test_a_run_on_a_broker_is_watched_to_its_end(broker: Mosquitto, tmp_path: Path) -> None:
    """The page is that of the copy: it is live while the run is, rows come, and at the end it has
    every episode of the run's own log, with verdicts and changed rows."""
    folder, settings = tmp_path / "far", MqttSettings(url=broker.url)

    def play() -> None:
        flags = {"think": "0.4:0.6", "bus": broker.url, "group_size": 6, "policy": "oracle"}
        played(folder, "shop_support:address-to-parents", **flags)

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, play)
        with anyio.fail_after(20):
            while "live" not in [  # noqa: ASYNC110 (another thread plays)
                one.state for one in await runs_on(settings)
            ]:
                await anyio.sleep(0.02)
        async with viewing_with(ViewerSettings((), port=PORT, bus=broker.url)) as client:
            (line,) = (await client.get("/api/runs"))["runs"]
            seen = set()
            with anyio.fail_after(30):
                while line["judged"] < 6 or line["status"] == "live":
                    seen.add(line["status"])
                    await anyio.sleep(0.05)
                    line = (await client.get(f"/api/runs/{line['id']}"))["line"]
            table = await client.get(f"/api/runs/{line['id']}/episodes?sort=episode")
            shown = await client.get(f"/api/runs/{line['id']}/episodes/e000000")
    with open_reader(folder) as reader:
        rows = {row.episode: row for row in reader.episodes()}
        steps = reader.trajectory("e000000").steps

    assert "live" in seen
    assert line["status"] == "finished"
    assert {row["episode"]: row["label"] for row in table["rows"]} == {
        name: str(row.label) for name, row in rows.items()
    }
    assert len(shown["turns"]) == len(steps)
    assert any(result["changes"] for turn in shown["turns"] for result in turn["results"])


async def test_a_broker_without_a_live_run(broker: Mosquitto) -> None:
    """The sentence says what is there."""
    with pytest.raises(BusError, match="0 runs are live on"):
        async with viewing_with(ViewerSettings((), port=PORT, bus=broker.url)):
            pass


async def test_a_copy_that_cannot_go_on_stays(
    broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the run's process is gone before all was copied, the viewer goes on with what it has
    and says why on its terminal."""

    @asynccontextmanager
    async def stopping(
        settings: MqttSettings, status: RunStatus, folder: Path, *, is_lasting: bool
    ) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            yield

    async def stop() -> None:
        stopped.set()
        raise BusError("run 'far' has ended and no process serves its log any more")

    stopped, log = anyio.Event(), Log()
    monkeypatch.setattr(copies, "open_copy", stopping)
    async with MqttLink(settings_for(broker), "far", log="a", read_log=log.read):
        with structlog.testing.capture_logs() as lines:
            async with viewing_with(ViewerSettings((), port=PORT, bus=broker.url)) as client:
                await stopped.wait()
                await client.get("/api/about")

    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["copy_stopped"]
