"""A session's figures are in the log, once, however the session ended."""

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.log.sessions import SessionMeasured
from rehearsal_room.harness.log.writer import CAPACITY, open_log
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.limits import Limits
from tests.support.episode_logs import whole
from tests.support.run_context import DONE, LOOK, MovesPolicy, after, never, plans

SESSION = SessionMeasured(began_at=1.0, ended_at=3.0, wall_s=2.0, cpu_s=0.5)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sessions(folder: Path) -> list[SessionMeasured]:
    with open_reader(folder) as reader:
        return reader.sessions()


async def test_sessions_are_kept_in_order(tmp_path: Path) -> None:
    """Each session adds a row; records and other sessions stay as they are."""
    other = msgspec.structs.replace(SESSION, culprit="policy f", loops=3)
    async with open_log(tmp_path) as log:
        log.append(whole("a")[0])
        log.add_session(SESSION)
    async with open_log(tmp_path, resume=True) as log:
        log.add_session(other)
    assert sessions(tmp_path) == [SESSION, other]
    with open_reader(tmp_path) as reader:
        assert [record.key for record in reader.records()] == [("a", 0, 0)]


async def test_a_damaged_session(tmp_path: Path) -> None:
    """It is one sentence, which names the log."""
    async with open_log(tmp_path) as log:
        log.add_session(SESSION)
    with closing(sqlite3.connect(tmp_path / LOG_NAME)) as database:
        database.execute("UPDATE sessions SET data = x'81'")
        database.commit()
    with pytest.raises(LogError, match="the log is damaged: a session cannot be read"):
        sessions(tmp_path)


async def play(folder: Path, policy: Policy, planned: list[EpisodePlan], **more: object) -> None:
    parts = RunParts(
        pool=LocalPool(),
        policy=policy,
        dialect=Native(),
        history=parse_history("full"),
        format=FormatSettings(),
        limits=Limits(),
    )
    parts = msgspec.structs.replace(parts, **more)
    await run_session(folder, planned, parts, concurrency=2, meters=Meters())


async def test_a_run_adds_its_figures(tmp_path: Path) -> None:
    """The wall time, the commits and the time that episodes waited to be admitted, summed."""

    async def admit(_plan: EpisodePlan) -> bool:
        await anyio.sleep(0.02)
        return True

    await play(tmp_path, MovesPolicy(LOOK, DONE), plans(4), admit=admit)
    (session,) = sessions(tmp_path)
    assert session.admission_s >= 4 * 0.02
    assert session.wall_s >= 2 * 0.02
    assert session.ended_at - session.began_at == pytest.approx(session.wall_s, abs=0.2)
    assert session.commits > 0
    assert 0 < session.commit_s < session.wall_s
    assert (session.loops, session.room_s) == (1, 0.0)
    assert session.lag_s >= session.lag_max_s >= 0


@pytest.mark.slow
async def test_a_cancelled_run_adds_its_figures(tmp_path: Path) -> None:
    """An interrupted session has a row like one that ended, and so has one with a bug."""
    with anyio.move_on_after(1.0):
        await play(tmp_path / "cancelled", MovesPolicy(never), plans(2))
    (session,) = sessions(tmp_path / "cancelled")
    assert session.wall_s > 0

    async def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await play(tmp_path / "bug", MovesPolicy(after(0.01, LOOK), bug), plans(1))  # type: ignore[arg-type]
    assert len(sessions(tmp_path / "bug")) == 1


async def test_waiting_for_room_is_measured(tmp_path: Path) -> None:
    """The log adds up how long tasks wait while it is full, and how long it waits for a slow
    listener."""

    async def listen(_batch: object) -> None:
        await anyio.sleep(0.01)

    async with open_log(tmp_path) as log:
        log.on_commit(listen)
        records = [record for number in range(CAPACITY // 4) for record in whole(f"e{number}")]
        for record in records:
            log.append(record)
        assert log.statistics()["room_s"] == 0.0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.wait_for_room)
            tasks.start_soon(log.wait_for_room)
        figures = log.statistics()
    assert figures["listeners_s"] >= 0.01 * figures["commits"] * 0.5
    assert figures["room_s"] >= 2 * 0.01
