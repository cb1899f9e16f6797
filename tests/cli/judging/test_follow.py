"""`rehearse judge --follow`: a judge in a process of its own, beside the run."""

import json
import os
import signal
from pathlib import Path
from random import Random

import pytest

from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse, json_of
from tests.support.commands import Commands, end_of
from tests.support.followed_runs import check_judged_once, num_of, until, until_num
from tests.support.judged_runs import run_of_oracles, script, verdicts_of
from tests.support.paths import LIBRARY
from tests.support.warm_process import WarmProcess

GROUP = 8  # members of each of the six groups: half of them stop half-way
NUM = 6 * GROUP


@pytest.fixture
def commands(warm_cli: WarmProcess, tmp_path: Path) -> Commands:
    return Commands(warm_cli, tmp_path)


def played(tmp_path: Path, judge: str, *flags: object) -> tuple[object, ...]:
    """A run of the mini world in which half of the episodes stop half-way."""
    calls = script(tmp_path / "script.jsonl")
    return (
        *("run", LIBRARY, "-p", "scripted", "--script", calls, "-g", GROUP, "-c", 4),
        *("--think", "0.02", "--judge", judge, "-o", tmp_path / "run", *flags),
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_judge_that_comes_and_goes(commands: Commands, tmp_path: Path, processes: int) -> None:
    """A judge may start late, be killed, be interrupted and come back while the run plays: the
    run's log gets each verdict once, the judge judges nothing twice, and the labels are those of a
    run that judges by itself."""
    random, folder = Random(processes), tmp_path / "run"
    run = commands.start(*played(tmp_path, "elsewhere", "--processes", processes))
    until_num(folder, "ended", random.randint(1, NUM // 3))
    for by, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        before = num_of(folder / FOLDER, "judged")
        if before + 5 > NUM:  # this machine is so busy that the judge was done before
            break
        judge, output = commands.start("judge", folder, "--follow")
        until_num(folder / FOLDER, "judged", before + 5)
        judge.send_signal(by)
        ended = judge.wait()
        text = output.read_text()
        assert ended in (status, 0), text  # 0: this machine is so busy that it was done before
        assert "Traceback" not in text
        assert ended != 130 or f"to continue: rehearse judge {folder} --follow" in text
    assert f"{NUM} episodes judged by code" in end_of(commands.start("judge", folder, "--follow"))
    end_of(run)
    check_judged_once(folder)
    assert json.loads((folder / "report.json").read_text())["labels"] == {
        "completed": 6 * GROUP // 2,
        "agent_error": 5 * GROUP // 2,
        "partially_completed": GROUP // 2,
    }


@pytest.mark.slow
def test_a_run_without_a_judge(commands: Commands, tmp_path: Path) -> None:
    """What a run does not take, the judge appends to its log when the run has ended: also when it
    is started after that, and with nothing left to do it changes nothing."""
    folder = tmp_path / "run"
    run = commands.start(*played(tmp_path, "none"))
    until_num(folder, "ended", 10)
    judge = commands.start("judge", folder, "--follow")
    until_num(folder / FOLDER, "judged", 10)
    num_judged = num_of(folder, "judged")
    assert num_judged == 0 or run[0].poll() is not None
    end_of(run)
    assert f"{NUM} episodes judged by code" in end_of(judge)
    check_judged_once(folder)
    with open_reader(folder) as reader:
        position = reader.last_position()
    end_of(commands.start("judge", folder, "--follow"))
    with open_reader(folder) as reader:
        assert reader.last_position() == position


@pytest.mark.slow
def test_the_run_is_killed(commands: Commands, tmp_path: Path) -> None:
    """A run that is killed while a judge follows it goes on with --resume, and the judge, which has
    waited, with it: what had ended is judged meanwhile, and each episode has one verdict."""
    folder = tmp_path / "run"
    run, _ = commands.start(*played(tmp_path, "elsewhere"))
    until_num(folder, "ended", 5)
    os.kill(run.pid, signal.SIGSTOP)  # it has no time to take verdicts
    judging = commands.start("judge", folder, "--follow")
    until_num(folder / FOLDER, "judged", num_of(folder, "ended"))
    assert num_of(folder, "judged") == 0
    run.kill()
    run.wait()
    until_num(folder, "judged", num_of(folder, "ended"))
    before = verdicts_of(folder, "code")
    until(lambda: "run_interrupted" in judging[1].read_text(), "the judge waits")
    resumed = commands.start("run", "-o", folder, "--resume")
    end_of(judging)
    end_of(resumed)
    check_judged_once(folder)
    assert {name: verdicts_of(folder, "code")[name] for name in before} == before


@pytest.mark.slow
def test_a_second_judge_is_refused(commands: Commands, tmp_path: Path) -> None:
    """Two processes that follow and judge one run would judge everything twice: the second one is
    refused by a sentence, and the first one goes on."""
    folder = tmp_path / "run"
    run = commands.start(*played(tmp_path, "elsewhere"))
    until_num(folder, "ended", 5)
    os.kill(run[0].pid, signal.SIGSTOP)  # so that it does not end meanwhile
    judge, _ = commands.start("judge", folder, "--follow")
    until_num(folder / FOLDER, "judged", 1)
    second, output = commands.start("judge", folder, "--follow")
    assert second.wait() == 2
    os.kill(run[0].pid, signal.SIGCONT)
    text = output.read_text()
    assert text == f"error: {folder}: another process follows and judges this run already\n"
    assert judge.wait(60) == 0
    end_of(run)
    check_judged_once(folder)


@pytest.mark.parametrize("flag", ["--disagreements", "--only=unjudged"])
def test_flags_of_ended_runs(rehearse: Rehearse, tmp_path: Path, flag: str) -> None:
    """What is for a run that has ended is refused beside --follow, by one sentence."""
    run_of_oracles(rehearse, tmp_path / "run")
    status, _, err = rehearse("judge", tmp_path / "run", "--follow", flag)
    name = flag.partition("=")[0]
    assert status == 2
    assert err == f"error: {name}: is for a run that has ended; leave it or --follow out\n"


def test_a_run_that_ended_with_all_verdicts(rehearse: Rehearse, tmp_path: Path) -> None:
    """A finished run is judged by --follow as without it, and the report is renewed."""
    folder = run_of_oracles(rehearse, tmp_path / "run")
    summary = json_of(rehearse, "judge", folder, "--follow")
    assert summary["labels"]["completed"] == summary["judged_now"] == 6
    again = json_of(rehearse, "judge", folder, "--follow")
    assert (again["episodes"], again["judged_now"]) == (6, 0)
    check_judged_once(folder)
