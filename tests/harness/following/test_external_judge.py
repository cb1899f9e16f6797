"""A run that an external judge judges takes one verdict for each attempt, whatever the order."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import structlog

from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.events import Judged, Label, Record
from rehearsal_room.harness.core.trajectory import assemble
from rehearsal_room.harness.following import external_judge as judge_elsewhere
from rehearsal_room.harness.following.external_judge import ExternalJudge, open_external_judge
from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.log.writer import open_log
from tests.support.episode_logs import whole


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def verdict(episode: str, attempt: int = 0, label: Label = Label.COMPLETED) -> Record:
    return Record(episode, attempt, 0, 0.0, Judged("code", label, 1.0))


def played(*episodes: str) -> list[Record]:
    """The records of episodes up to their ends."""
    return [r for name in episodes for r in whole(name) if not isinstance(r.event, Judged)]


async def test_each_attempt_gets_its_first_verdict(tmp_path: Path) -> None:
    """Verdicts that come before their episode has ended, twice, on another attempt, or on an
    episode whose verdict the log has already, change nothing."""
    early = [verdict("b"), verdict("b", label=Label.AGENT_ERROR), verdict("a", attempt=1)]
    late = [verdict("b", label=Label.AGENT_ERROR), verdict("c"), *played("a"), verdict("a")]
    judge = ExternalJudge(tmp_path, {("c", 0)})
    bus = LocalBus()
    recorded: list[tuple[str, int, Label | None]] = []

    async def record(episode: str, attempt: int, judged: Judged) -> None:
        recorded.append((episode, attempt, judged.label))

    judge.take(early)
    async with anyio.create_task_group() as tasks, bus.subscribe() as subscription:
        tasks.start_soon(judge.serve, subscription, record)
        for one in played("a", "b"):
            await bus.publish(one)
        await anyio.wait_all_tasks_blocked()
        assert recorded == [("b", 0, Label.COMPLETED)]
        judge.take(late)
        judge.take(late)
        await anyio.wait_all_tasks_blocked()
        bus.close()
    assert recorded == [("b", 0, Label.COMPLETED), ("a", 0, Label.COMPLETED)]
    assert repr(judge) == "<ExternalJudge [0 waiting, 1 taken]>"  # that on a's other attempt


async def test_an_episode_of_an_earlier_session(tmp_path: Path) -> None:
    """A resumed run waits for the verdict on an episode that ended before."""
    judge = ExternalJudge(tmp_path, set())
    found: list[Judged] = []

    async def ask() -> None:
        found.append(await judge.verdict(assemble(played("a"))))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        judge.take([verdict("b")])
        await anyio.wait_all_tasks_blocked()
        assert not found
        judge.take([verdict("a")])
    assert found == [verdict("a").event]


async def test_a_judge_writes_stops_and_comes_back(tmp_path: Path) -> None:
    """Verdicts are read from the folder whenever a judge has written some there: its log may come
    later than the run, and its process may end and begin again."""
    bus = LocalBus()
    got: list[str] = []
    more = anyio.Event()

    async def record(episode: str, attempt: int, judged: Judged) -> None:
        got.append(episode)
        more.set()

    async with (
        open_external_judge(MqttSettings(url=""), folder=tmp_path) as judge,
        anyio.create_task_group() as tasks,
        bus.subscribe() as subscription,
    ):
        tasks.start_soon(judge.serve, subscription, record)
        for one in played("a", "b"):
            await bus.publish(one)
        for name in ("a", "b"):
            more = anyio.Event()
            async with open_log(tmp_path / FOLDER, resume=True) as log:
                log.append(verdict(name))
            await more.wait()
        bus.close()
    assert got == ["a", "b"]
    assert not (tmp_path / LOG_NAME).exists()


async def test_a_run_that_waits_long_reminds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no verdict comes, one line after a while names the command that is missing: once for
    all that wait, and again after a while."""
    monkeypatch.setattr(judge_elsewhere, "_PATIENCE_S", 0.05)
    judge = ExternalJudge(tmp_path, set())
    with structlog.testing.capture_logs() as lines:
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(judge.verdict, assemble(played(name)))
            while len(lines) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    reminder = {
        "event": "waiting_for_verdicts",
        "episodes": 2,
        "start": f"rehearse judge {tmp_path} --follow",
        "log_level": "warning",
    }
    assert lines[:2] == [reminder] * 2
