"""`rehearse show profile` on runs of all kinds."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse, json_of
from tests.support.ledger_world import write_package
from tests.support.paths import ROOT

EPISODE = {"admission", "world", "model", "tools", "full_log", "rest"}
WALL = {"judge", "log", "bus", "loop_lag"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(tmp_path / "ledger")


def run(rehearse: Rehearse, package: Path, folder: Path, *more: object) -> Path:
    status, _, err = rehearse("run", package, "-p", "oracle", "-n", 6, "-o", folder, *more)
    assert status == 0, err
    return folder


def parts(stages: Any, of: str) -> float:
    return sum(float(one["share"]) for one in stages.values() if one["of"] == of)


def test_a_run(rehearse: Rehearse, package: Path, tmp_path: Path) -> None:
    """The model's share of a run that waits for it; every stage is there, and those of the episodes
    are the whole. The text ends with the verdict."""
    folder = run(rehearse, package, tmp_path / "run", "--think", "0.05")
    found = json_of(rehearse, "show", "profile", folder)
    assert set(found["stages"]) == EPISODE | WALL
    assert parts(found["stages"], "episodes") == pytest.approx(1.0)
    assert found["stages"]["model"]["share"] > 0.5
    assert found["verdict"].startswith("the policy (oracle) was the limit: ")
    assert 0 < found["wall_s"] <= found["measured_s"]
    assert (found["episodes"], found["unfinished"], found["notes"]) == (6, 0, [])
    assert [one["run"] for one in found["runs"]] == [str(folder)]
    status, out, _ = rehearse("show", "profile", folder)
    assert status == 0
    assert f"\n{found['verdict'].capitalize()}.\n" in out


def test_several_runs(rehearse: Rehearse, package: Path, tmp_path: Path) -> None:
    """Several runs have a profile each, and one of them all; the trace has each as a process."""
    one, two = (run(rehearse, package, tmp_path / name) for name in ("one", "two"))
    trace = tmp_path / "trace.json"
    found = json_of(rehearse, "show", "profile", one, two, "--trace", trace)
    assert found["episodes"] == 12
    assert found["wall_s"] == pytest.approx(sum(each["wall_s"] for each in found["runs"]))
    for name, stage in found["stages"].items():
        seconds = sum(each["stages"][name]["seconds"] for each in found["runs"])
        assert stage["seconds"] == pytest.approx(seconds, abs=1e-6)
    events = json.loads(trace.read_bytes())["traceEvents"]
    episodes = [event for event in events if event.get("cat") == "episode"]
    assert {event["pid"] for event in episodes} == {1, 2}
    assert len(episodes) == 12


def test_rollout_processes(rehearse: Rehearse, package: Path, tmp_path: Path) -> None:
    """With several processes the figures are of all of them: one loop each, and the CPU time."""
    folder = run(rehearse, package, tmp_path / "run", "--processes", 2)
    with open_reader(folder) as reader:
        (session,) = reader.sessions()
    assert session.loops == 3
    assert session.cpu_s > 0
    found = json_of(rehearse, "show", "profile", folder)
    assert set(found["stages"]) == EPISODE | WALL
    assert found["cpu_s"] == session.cpu_s


def test_an_old_log(rehearse: Rehearse, package: Path, tmp_path: Path) -> None:
    """A log of an older version, without the table, has a profile without what it lacks; a run that
    is resumed gets the table."""
    folder = run(rehearse, package, tmp_path / "run")
    with closing(sqlite3.connect(folder / "episodes.sqlite")) as log:
        log.execute("DROP TABLE sessions")
        log.execute("DELETE FROM events WHERE episode = 'e000005'")
        log.commit()
    found = json_of(rehearse, "show", "profile", folder)
    assert set(found["stages"]) == (EPISODE | WALL) - {
        *("admission", "full_log", "log", "bus", "loop_lag")
    }
    assert [note.partition(":")[0] for note in found["notes"]] == [
        "what the process measured (admission, log, bus, loop lag) is not in the log"
    ]
    status, _, err = rehearse("run", "-o", folder, "--resume")
    assert status == 0, err
    with open_reader(folder) as reader:
        assert len(reader.sessions()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_live_run_and_one_that_was_cut_off(
    rehearse: Rehearse, package: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """A live run has a profile up to now. A killed one has no figures of its process; one that was
    interrupted has."""
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "rehearsal_room",
        "run",
        str(package),
        "-p",
        "oracle",
        "-n",
        "40",
    ]
    command += ["-c", "4", "--think", "0.1", "-o", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONWARNINGS": "ignore"}, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while not _has_turns(folder):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        live = json_of(rehearse, "show", "profile", folder)
    finally:
        process.send_signal(how)
        process.wait()
    assert live["unfinished"] > 0
    assert set(live["stages"]) & {"log", "bus", "loop_lag"} == set()
    found = json_of(rehearse, "show", "profile", folder)
    assert found["turns"] >= live["turns"]
    assert ("loop_lag" in found["stages"]) is (how is signal.SIGINT)
    assert found["stages"]["model"]["share"] > 0.5


def _has_turns(folder: Path) -> bool:
    if not (folder / "episodes.sqlite").exists():
        return False
    with open_reader(folder) as reader:
        return reader.counts().get("step", 0) > 0


def test_bad_input(rehearse: Rehearse, tmp_path: Path) -> None:
    """A folder without a log, and a trace that cannot be written: a sentence each."""
    assert rehearse("show", "profile", tmp_path)[2] == (
        f"error: {tmp_path}: there is no log (episodes.sqlite) in this folder\n"
    )
    (tmp_path / "run").mkdir()
    status, _, err = rehearse(
        "show", "profile", tmp_path / "run", "--trace", tmp_path / "no" / "t.json"
    )
    assert status == 2
    assert err.startswith(f"error: --trace: {tmp_path}/no/t.json cannot be written: ")
