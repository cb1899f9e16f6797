"""The whole product, killed with SIGKILL again and again in the middle of a run."""

import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from rehearsal_room.harness.core.events import EpisodeEnded
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.budgets import repeats
from tests.support.warm_process import WarmProcess

EPISODES = repeats(short=600, long=2_000)
KILLS = repeats(short=4, long=20)
_FINISHED = re.compile(r"episode_finished.*?episode=(e\d+)")


def _arguments(folder: Path, *flags: str) -> list[str]:
    return [
        *("-v", "run", "shop_support", "claims_desk"),
        *("-p", "oracle", "-n", str(EPISODES), "-g", "4", "-c", "256", "--seed", "11"),
        *("--think", "0:0.05", "-o", str(folder), *flags),
    ]


def _run_and_kill(warm: WarmProcess, folder: Path, output: Path, wait: float) -> int:
    """Start or resume the run and kill it `wait` seconds after its first report; return its exit
    status, which is that of the signal when it was killed."""
    victim = warm.start_command(*_arguments(folder, "--resume"), output=output)
    while victim.poll() is None and "episode_finished" not in _plain(output):
        time.sleep(0.005)
    time.sleep(wait)
    victim.kill()
    return victim.wait()


def _plain(path: Path) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", path.read_text(errors="replace"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_killed_many_times_loses_nothing_and_repeats_nothing(
    warm_cli: WarmProcess, tmp_path: Path
) -> None:
    """Every episode that was reported finished is in the log, none is there twice, no logged reply
    is asked for again, and the final report, results and digests equal those of a run that was left
    alone."""
    folder, output, rng = tmp_path / "killed", tmp_path / "output.txt", random.Random(5)
    reported: set[str] = set()
    for _ in range(KILLS):
        status = _run_and_kill(warm_cli, folder, output, rng.uniform(0.0, 0.06))
        reported |= set(_FINISHED.findall(_plain(output)))
        assert status == -signal.SIGKILL, _plain(output)[-2000:]
        assert (folder / LOG_NAME).exists()
        with open_reader(folder) as reader:
            progress = reader.progress()
        assert {e for e in reported if not (progress[e].ended and progress[e].judged)} == set()
    assert 0 < len(reported) < EPISODES
    last = warm_cli.start_command(*_arguments(folder, "--resume"), output=output)
    quiet = warm_cli.start_command(*_arguments(tmp_path / "quiet"), output=tmp_path / "quiet.txt")
    assert last.wait() == 0, _plain(output)[-2000:]
    assert quiet.wait() == 0

    assert set(_FINISHED.findall(_plain(output))) & reported == set()
    ended: Counter[str] = Counter()
    with open_reader(folder) as reader:
        position = 0
        while batch := reader.records_after(position):
            ended.update(r.episode for _, r in batch if isinstance(r.event, EpisodeEnded))
            position = batch[-1][0]
    assert len(ended) == EPISODES
    assert set(ended.values()) == {1}
    assert (folder / "report.json").read_bytes() == (tmp_path / "quiet/report.json").read_bytes()
    assert check_attempts(records_of(folder))
    assert outcomes_of(folder) == outcomes_of(tmp_path / "quiet")
