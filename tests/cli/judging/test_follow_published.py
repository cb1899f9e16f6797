"""`rehearse judge --follow --bus`: a judge on another machine, which shares only a broker."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.harness.log.reader import open_reader
from tests.support.broker import Mosquitto, running_broker
from tests.support.cli import Rehearse
from tests.support.commands import Commands, end_of
from tests.support.followed_runs import check_copied, check_judged_once, num_of, until, until_num
from tests.support.judged_runs import script
from tests.support.paths import LIBRARY
from tests.support.warm_process import WarmProcess

GROUP = 8
NUM = 6 * GROUP


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
def commands(warm_cli: WarmProcess, tmp_path: Path) -> Commands:
    return Commands(warm_cli, tmp_path)


def played(
    broker: Mosquitto, tmp_path: Path, judge: str, *, think: float = 0.05
) -> tuple[object, ...]:
    calls = script(tmp_path / "script.jsonl")
    (tmp_path / "bus.toml").write_text("[bus]\nlinger_s = 0.5\n")
    return (
        *("run", LIBRARY, "-p", "scripted", "--script", calls, "-g", GROUP, "-c", 4),
        *("--think", think, "--judge", judge, "-o", tmp_path / "here" / "night"),
        *("--bus", broker.url, "--config", tmp_path / "bus.toml"),
    )


@pytest.mark.slow
def test_a_judge_elsewhere_comes_and_goes(
    commands: Commands, broker: Mosquitto, tmp_path: Path
) -> None:
    """A judge that starts late, is killed, loses the broker and comes back judges each episode
    once; run and judge end with the same log, whose verdicts are the judge's."""
    run_folder, copy = tmp_path / "here" / "night", tmp_path / "there"
    follow = ("judge", "night", "--follow", "--bus", broker.url, "-o", copy)
    run = commands.start(*played(broker, tmp_path, "elsewhere"))
    until_num(run_folder, "ended", 4)
    judge, _ = commands.start(*follow)
    until_num(copy / FOLDER, "judged", 3)
    judge.kill()
    assert judge.wait() in (-signal.SIGKILL, 0)
    judging = commands.start(*follow)
    until_num(run_folder, "judged", 8)
    broker.kill()
    before = num_of(copy / FOLDER, "judged")
    time.sleep(0.3)  # the network is away; the run plays on
    broker.start()
    until_num(copy / FOLDER, "judged", min(before + 3, NUM))
    assert f"{NUM} episodes judged by code" in end_of(judging)
    end_of(run)
    check_copied(run_folder, copy)
    check_judged_once(run_folder, copy / FOLDER)


@pytest.mark.slow
def test_the_run_is_interrupted(commands: Commands, broker: Mosquitto, tmp_path: Path) -> None:
    """A run that is interrupted tells its followers that it has ended; an external judge waits for
    the missing episodes, and goes on when the run is resumed."""
    run_folder, copy = tmp_path / "here" / "night", tmp_path / "there"
    run, output = commands.start(*played(broker, tmp_path, "elsewhere", think=0.5))
    until_num(run_folder, "ended", 3)
    follow = ("judge", "night", "--follow", "--bus", broker.url, "-o", copy)
    judging = commands.start(*follow)
    until_num(run_folder, "judged", 3)
    run.send_signal(signal.SIGINT)
    assert run.wait() == 130, output.read_text()
    until(lambda: "run_interrupted" in judging[1].read_text(), "the judge waits")
    settings = run_folder / "run.toml"  # so long a run, that it is not over before; so short a rest
    settings.write_text(settings.read_text().replace('think = "0.5"', 'think = "0"'))
    run_again = commands.start("run", "-o", run_folder, "--resume", "--trust-run")  # it was edited
    end_of(judging)
    end_of(run_again)
    check_copied(run_folder, copy)
    check_judged_once(run_folder, copy / FOLDER)


def test_a_run_that_takes_no_verdicts(
    commands: Commands, rehearse: Rehearse, broker: Mosquitto, tmp_path: Path
) -> None:
    """A run with another judge takes none from the broker; neither run nor folder is disturbed by
    one who tries, nor by one who names a run that is not there."""
    run = commands.start(*played(broker, tmp_path, "code"))
    until_num(tmp_path / "here" / "night", "judged", 1)
    follow = ("judge", "--follow", "--bus", broker.url, "-o", tmp_path / "there")
    status, _, err = rehearse(*follow, "night")
    assert (status, err) == (
        2,
        "error: run 'night' takes no verdicts from the broker (its judge is 'code'): play it with"
        " --judge elsewhere, or judge it in its own folder\n",
    )
    assert not (tmp_path / "there").exists()
    status, _, err = rehearse(*follow, "day")
    assert status == 2
    assert err.startswith(f"error: there is no run 'day' on {broker.url}; its runs: night (live)")
    run[0].kill()


def test_a_folder_of_another_run(
    commands: Commands, rehearse: Rehearse, broker: Mosquitto, tmp_path: Path
) -> None:
    """A copy is not mixed with another run: a folder that has one is refused and left as it is."""
    there = tmp_path / "there"
    rehearse("run", LIBRARY, "-p", "noop", "-o", there)
    with open_reader(there) as reader:
        before = reader.last_position()
    run, _ = commands.start(*played(broker, tmp_path, "elsewhere"))
    until_num(tmp_path / "here" / "night", "ended", 1)
    status, _, err = rehearse("judge", "night", "--follow", "--bus", broker.url, "-o", there)
    run.kill()
    assert (status, err) == (
        2,
        f"error: {there}: has another run than 'night'; choose another folder\n",
    )
    with open_reader(there) as reader:
        assert reader.last_position() == before


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--bus", "mqtt://localhost"), "--bus: is for --follow; a run that has ended is judged"),
        (("--follow", "-o", "x"), "--output: is for --bus; verdicts on RUN are written"),
    ],
)
def test_flags_that_do_not_go_together(
    rehearse: Rehearse, flags: tuple[str, ...], sentence: str
) -> None:
    """They are refused by one sentence."""
    status, _, err = rehearse("judge", "night", *flags)
    assert status == 2
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1
