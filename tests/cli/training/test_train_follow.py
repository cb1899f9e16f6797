"""`rehearse train --follow`: a run, its judge and training in three processes that may stop."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal_room.learner.core.training_folder import COPY
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.broker import Mosquitto, running_broker
from tests.support.cli import Rehearse
from tests.support.commands import Commands, end_of
from tests.support.followed_runs import check_copied, check_judged_once, until, until_num
from tests.support.followed_training import FLAGS, SIZE, metrics_of, training_file
from tests.support.tiny_model import write_model_for
from tests.support.warm_process import WarmProcess

STEPS, GROUPS = 4, 2
NUM = STEPS * GROUPS * SIZE

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def commands(warm_process: WarmProcess, tmp_path: Path) -> Commands:
    return Commands(warm_process, tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [folder] = write_microworlds(tmp_path_factory.mktemp("worlds"), seed=3, count=1, split="train")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, world: Path) -> Path:
    return write_model_for(world, tmp_path_factory.mktemp("models") / "start", hidden=16, layers=1)


def config(path: Path, model: Path, logs: str) -> Path:
    """A training file for the groups of a run that is played elsewhere."""
    return training_file(path, model, logs, steps=STEPS, groups=GROUPS)


def played(world: Path, model: Path, folder: Path) -> tuple[object, ...]:
    return (
        *("run", world, "-p", "local", "-m", model, *FLAGS, "--no-format-stop", "-c", 2),
        *("-g", SIZE, "-n", NUM, "--judge", "elsewhere", "--think", "0.1", "-o", folder),
    )


@pytest.mark.slow
def test_training_comes_and_goes(
    commands: Commands, rehearse: Rehearse, world: Path, model: Path, tmp_path: Path
) -> None:
    """Training follows a run while it is played and judged by two other processes: killed and
    resumed, it makes the batches and losses of training on the finished log."""
    run, out = tmp_path / "run", tmp_path / "trained"
    training = ("train", config(tmp_path / "t.toml", model, str(run)), "--follow", "-o")
    playing = commands.start(*played(world, model, run))
    until_num(run, "started", 1)
    judging = commands.start("judge", run, "--follow")
    child, output = commands.start(*training, out)
    until(lambda: len(metrics_of(out)) >= 1, "the first batch")
    child.send_signal(signal.SIGKILL)
    assert child.wait() in (-signal.SIGKILL, 0), output.read_text()
    end_of(commands.start(*training, out, "--resume"))
    end_of(judging)
    end_of(playing)
    check_judged_once(run)
    status, _, err = rehearse(*training[:2], "-o", tmp_path / "later")
    assert status == 0, err
    assert len(metrics_of(out)) == STEPS
    for found, expected in zip(metrics_of(out), metrics_of(tmp_path / "later"), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_training_over_a_broker(
    commands: Commands, world: Path, model: Path, tmp_path: Path, broker: Mosquitto
) -> None:
    """Over a broker training learns from a copy of the run; it begins late, the broker restarts,
    and it is interrupted and resumed without the broker once the copy is complete. (The judge, for
    which the run waits, begins last: so the run is not over before.)"""
    run, out = tmp_path / "here" / "night", tmp_path / "trained"
    training = ("train", config(tmp_path / "t.toml", model, "night"), "--follow", "-o", out)
    playing = commands.start(*played(world, model, run), "--bus", broker.url)
    until_num(run, "started", 1)
    child, output = commands.start(*training, "--bus", broker.url)
    until_num(out / COPY, "started", 1)
    judging = commands.start("judge", run, "--follow")
    until_num(out / COPY, "judged", 2)
    broker.kill()
    broker.start()
    until_num(out / COPY, "judged", NUM)
    child.send_signal(signal.SIGINT)
    if child.wait() == 130:
        assert f"--resume --follow --bus {broker.url}" in output.read_text()
        end_of(commands.start(*training, "--resume"))
    end_of(judging)
    end_of(playing)
    check_copied(run, out / COPY)
    assert len(metrics_of(out)) == STEPS


_DEAD = "mqtt://127.0.0.1:9"


@pytest.mark.parametrize(
    ("logs", "flags", "sentence"),
    [
        ([], ("--follow",), "--follow: there is no run to follow; name it in data.logs"),
        (["a"], ("--bus", _DEAD), "--bus: needs --follow, and the name of one run in data.logs"),
        (["a", "b"], ("--follow", "--bus", _DEAD), "--bus: needs --follow, and the name of one"),
        (["a"], ("--follow",), "a: there is no log (episodes.sqlite) in this folder"),
        (["a"], ("--follow", "--bus", _DEAD), f"the broker at {_DEAD} cannot be reached"),
        (["a"], ("--follow", "--bus", "http://x"), "bus: the broker's URL does not have the form"),
    ],
)
def test_what_cannot_be_followed(
    rehearse: Rehearse,
    model: Path,
    tmp_path: Path,
    logs: list[str],
    flags: tuple[str, ...],
    sentence: str,
) -> None:
    """It is refused by one sentence, and leaves no folder."""
    path = config(tmp_path / "t.toml", model, "x")
    path.write_text(path.read_text().replace('logs = [\n    "x",\n]', f"logs = {logs}"))
    status, _, err = rehearse("train", path, *flags, "-o", tmp_path / "out")
    assert status == 2
    *said, error = err.splitlines()
    assert error.startswith(f"error: {sentence}")
    assert all(line.startswith("memory for training") for line in said)
    assert not (tmp_path / "out").exists()
