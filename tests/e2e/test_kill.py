"""The whole product, killed with SIGKILL again and again in the middle of a run."""

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from harness.core.events import EpisodeEnded
from harness.log.reader import open_reader
from harness.log.schema import LOG_NAME

EPISODES = 2_000
KILLS = 20
_FINISHED = re.compile(r"episode_finished.*?episode=(e\d+)")


def _command(folder: Path, *flags: str) -> list[str]:
    return [
        *(sys.executable, "-m", "harness", "-v", "run", "shop_support", "claims_desk"),
        *("-p", "oracle", "-n", str(EPISODES), "-g", "4", "-c", "256", "--seed", "11"),
        *("--think", "0:0.05", "-o", str(folder), *flags),
    ]


def _run_and_kill(folder: Path, errors: Path, wait: float) -> int | None:
    """Start or go on with the run and kill it `wait` seconds after it first reports something;
    gives the exit status, None when it was killed."""
    with errors.open("wb") as file:
        process = subprocess.Popen(_command(folder, "--resume"), stderr=file, stdout=file)
        while process.poll() is None and "episode_finished" not in _plain(errors):
            time.sleep(0.01)
        try:
            return process.wait(wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return None


def _plain(path: Path) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", path.read_text(errors="replace"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_twenty_times_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Every episode that was reported finished is in the log, none is there twice, and the final
    report equals that of a run which was left alone."""
    folder, errors, rng = tmp_path / "killed", tmp_path / "errors.txt", random.Random(5)
    reported: set[str] = set()
    kills = 0
    for _ in range(KILLS):
        status = _run_and_kill(folder, errors, rng.uniform(0.0, 0.06))
        reported |= set(_FINISHED.findall(_plain(errors)))
        if status is not None:
            assert status == 0, _plain(errors)[-2000:]
            break
        kills += 1
        assert (folder / LOG_NAME).exists()
        with open_reader(folder) as reader:
            progress = reader.progress()
        assert {e for e in reported if not (progress[e].ended and progress[e].judged)} == set()
    assert kills == KILLS
    assert 0 < len(reported) < EPISODES
    done = subprocess.run(_command(folder, "--resume"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

    again = set(_FINISHED.findall(re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)))
    assert again & reported == set()
    ended: Counter[str] = Counter()
    with open_reader(folder) as reader:
        position = 0
        while batch := reader.records_after(position):
            ended.update(r.episode for _, r in batch if isinstance(r.event, EpisodeEnded))
            position = batch[-1][0]
    assert len(ended) == EPISODES
    assert set(ended.values()) == {1}

    quiet = tmp_path / "quiet"
    subprocess.run(_command(quiet), check=True, capture_output=True)
    assert (folder / "report.json").read_bytes() == (quiet / "report.json").read_bytes()
