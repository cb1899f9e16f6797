"""Runs and worlds of a stranger in the viewer."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.harness.setup.trusted_folders import forget_trust, trust_run_folders
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.paths import LIBRARY
from tests.support.strangers import begun_by_another, ran_here, tell_tale_package
from tests.support.viewer_client import played, viewing


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The file that tells what ran."""
    return tmp_path / "trace"


@pytest.fixture
def stranger(tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's run whose log names a package on this machine."""
    package = tell_tale_package(tmp_path / "ledger", trace)
    run = played(tmp_path / "run", str(package), policy="noop", group_size=1)
    begun_by_another(monkeypatch, tmp_path)
    ran_here(trace)
    return run


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A run of one episode."""
    return played(tmp_path / "run", str(LIBRARY), policy="oracle", episodes=1)


async def test_looking_at_an_episode_runs_nothing(stranger: Path, trace: Path) -> None:
    """An episode, its world and its failures are shown, and no code of the run's package runs; a
    fork and a replay are refused with a sentence that says how to allow them."""
    run = run_id(stranger)
    episode = f"/api/runs/{run}/episodes/e000000"
    async with viewing(stranger) as client:
        assert await client.get(episode)
        assert await client.get(f"{episode}/failures") is not None
        asked = {"run": run, "episode": "e000000", "turn": 0}
        for path, body in (("/api/scratch", asked), (f"{episode}/replay", {})):
            answer = await client.ask(path, method="POST", body=body)
            assert answer.status == 400
            assert "you did not begin this run on this machine" in answer.json["error"]
            assert "--trust-run" in answer.json["error"]
        assert not ran_here(trace)
        trust_run_folders()
        try:
            assert (await client.post("/api/scratch", asked))["id"]
        finally:
            forget_trust()
        assert ran_here(trace)


async def test_a_world_that_nobody_named_runs_in_workers(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world that lies in the folder `worlds` here is shown by workers, and the gate refuses it;
    one that the user has configured runs in this process."""
    tell_tale_package(tmp_path / "worlds" / "ledger", trace)
    monkeypatch.chdir(tmp_path)
    async with viewing() as client:
        assert (await client.get("/api/worlds/ledger"))["tools"]
        assert (await client.post("/api/scratch", {"scenario": "ledger"}))["id"]
        gate = await client.ask("/api/worlds/ledger/gate", method="POST", body={})
        assert gate.status == 400
        assert not ran_here(trace)
    monkeypatch.setenv("REHEARSE_WORLDS", str(tmp_path / "worlds"))
    async with viewing() as client:
        assert (await client.get("/api/worlds/ledger"))["tools"]
        assert ran_here(trace)


@pytest.mark.parametrize("field", ["ending", "label"])
async def test_an_unknown_word_in_a_log_is_damage(plain: Path, field: str) -> None:
    """An ending or a label that there is not is a sentence, not a failure of the viewer."""
    run = plain
    with closing(sqlite3.connect(run / "episodes.sqlite")) as log:
        kind = {"ending": "ended", "label": "judged"}[field]
        ((data,),) = log.execute("SELECT data FROM events WHERE kind = ?", (kind,))
        event = {**msgspec.msgpack.decode(data), field: ".."}
        changed = msgspec.msgpack.encode(event), kind
        log.execute("UPDATE events SET data = ? WHERE kind = ?", changed)
        log.commit()
    async with viewing(run) as client:
        for path in ("", "/export", "/episodes", "/grid"):
            answer = await client.ask(f"/api/runs/{run_id(run)}{path}")
            assert answer.status < 500, (path, answer.body)
