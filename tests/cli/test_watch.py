"""`rehearse show watch RUN`: a run on its log, without a broker."""

import signal
from pathlib import Path

import pytest

from tests.support.cli import Rehearse
from tests.support.commands import Commands, end_of
from tests.support.followed_runs import until, until_num
from tests.support.paths import LIBRARY
from tests.support.warm_process import WarmProcess

NUM = 48


@pytest.fixture
def commands(warm_cli: WarmProcess, tmp_path: Path) -> Commands:
    return Commands(warm_cli, tmp_path)


def played(folder: Path) -> tuple[object, ...]:
    return ("run", LIBRARY, "-p", "oracle", "-n", NUM, "-c", 4, "--think", "0.02", "-o", folder)


def keys(text: str) -> list[str]:
    """The episode and the number of each event that was printed."""
    lines = text.splitlines()[:-1]
    return [" ".join(line.split()[:4]) for line in lines]


@pytest.mark.slow
def test_watching_comes_and_goes(commands: Commands, rehearse: Rehearse, tmp_path: Path) -> None:
    """Watching may begin late, stop and begin again: each time it shows every event from the first
    one on, once, and ends with the run."""
    folder = tmp_path / "run"
    run = commands.start(*played(folder))
    until_num(folder, "ended", 5)
    watch, output = commands.start("show", "watch", folder, "--events")
    until(lambda: output.read_text().count(" ended ") > 8, "eight ends are shown")
    watch.send_signal(signal.SIGINT)
    if watch.wait() == 130:  # it was still watching
        assert (
            f"interrupted; to continue: rehearse show watch {folder} --events" in output.read_text()
        )
    shown = end_of(commands.start("show", "watch", folder, "--events"))
    end_of(run)
    status, later, _ = rehearse("show", "watch", folder, "--events")
    assert status == 0
    assert keys(shown) == keys(later)
    assert len(set(keys(shown))) == len(keys(shown))
    last = f"run ended · {NUM} of {NUM} started, {NUM} ended, {NUM} judged"
    assert shown.splitlines()[-1].startswith(last)


def test_an_interrupted_run(commands: Commands, rehearse: Rehearse, tmp_path: Path) -> None:
    """A run that was killed is shown as lost, with what it did."""
    folder = tmp_path / "run"
    run, _ = commands.start(*played(folder))
    until_num(folder, "ended", 5)
    run.kill()
    run.wait()
    status, out, _ = rehearse("show", "watch", folder)
    assert status == 0
    assert "run lost · " in out
    assert f" of {NUM} started" in out
