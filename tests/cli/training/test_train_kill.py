"""Training in a separate process, killed in the middle and interrupted."""

import json
import signal
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from safetensors.numpy import load_file

from rehearsal_room.harness.core.events import WEIGHTS_EPISODE, Ending, EpisodeEnded
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.core.training_folder import METRICS_NAME, SETTINGS_NAME
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.broker import free_port
from tests.support.budgets import IS_LONG, repeats
from tests.support.cli import Rehearse
from tests.support.tiny_model import write_model_for
from tests.support.warm_process import (
    Child,
    Job,
    WarmProcess,
    torchrun_environment,
)

STEPS, GROUPS, SIZE = repeats(short=4, long=8), 2, 2
COMPARED = ("reward", "groups", "loss", "entropy", "grad_norm", "num_trained", "mismatch_max")
POINTS = ("judged", "published", "saved")
if IS_LONG:
    POINTS = ("ended", "judged", "taken", "published", "evaluated", "reported", "saved")
# Batches, seconds.
MOMENTS = ((1, 0.0), (3, 0.02), (4, 0.05)) if IS_LONG else ((1, 0.0), (3, 0.0))
# Sums of floats have another order when other requests are computed together; the sampled tokens
# are the same.
TOLERANCE = 1e-4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training file: strictly on policy, so that the samples do not depend on timing."""
    return write_config(tmp_path_factory.mktemp("kill"))


def write_config(folder: Path) -> Path:
    """A world, a model and a training file in a folder; returns the file."""
    [world] = write_microworlds(folder, seed=3, count=1, split="train")
    model = write_model_for(world, folder / "start", hidden=16, layers=1)
    table = {
        "model": str(model),
        "steps": STEPS,
        "rollouts": {
            "scenarios": [str(world)],
            "group_size": SIZE,
            "history": "last:1",
            "dialect": "hermes",
            "max_steps": 2,
            "max_tokens": 4,
            "format_stop": False,
        },
        "data": {"groups": GROUPS, "keep_equal": True},
        "loss": {"entropy": 0.1},
        "optimizer": {"lr": 0.01},
        "loop": {"staleness": 0},
        "save": {"every": 2},
        "metrics": {"tensorboard": False},
    }
    path = folder / "train.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def start(
    warm: WarmProcess,
    config: Path,
    out: Path,
    errors: Path,
    *,
    point: str | None = None,
    **environment: str,
) -> Child:
    """Start `rehearse train` in a child, or resume the run that is there; `point` is where it kills
    itself."""
    module = "rehearsal_room.cli.main" if point is None else "tests.support.train_victim"
    resume = ("--resume",) if (out / SETTINGS_NAME).exists() else ()
    arguments = ("train", str(config), "-o", str(out), *resume)
    points = () if point is None else (point,)
    return warm.start(Job(module, "main", (*points, *arguments), str(errors), environment))


def num_reported(out: Path) -> int:
    """Batches whose metrics are written."""
    path = out / METRICS_NAME
    return sum('"loss"' in line for line in path.read_text().splitlines()) if path.exists() else 0


def wait_for(child: Child, out: Path, batches: int, errors: Path) -> None:
    while num_reported(out) < batches:
        assert child.poll() is None, errors.read_text()[-3000:]
        time.sleep(0.01)


def metrics_of(out: Path) -> list[dict[str, Any]]:
    return [{name: one[name] for name in COMPARED} for one in read_metrics(out) if one["step"]]


@pytest.fixture(scope="module")
def uninterrupted(
    config: Path, warm_process: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run that is not killed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    errors = folder / "errors.txt"
    assert start(warm_process, config, folder / "run", errors).wait() == 0, errors.read_text()
    return folder / "run"


def test_killed_again_and_again_a_run_trains_the_same(
    config: Path, warm_process: WarmProcess, uninterrupted: Path, tmp_path: Path
) -> None:
    """Killed at several moments, its newest checkpoint and version damaged, a run resumes to the
    batches, metrics and weights of an uninterrupted run: no group is trained twice, none is lost,
    no finished episode is repeated. (Two kills in four batches; three in eight in
    `just test-long`.)"""
    killed, errors = tmp_path / "killed", tmp_path / "errors.txt"
    config = changed(config, tmp_path / "often.toml", every=1)
    for batches, wait in MOMENTS:
        child = start(warm_process, config, killed, errors)
        wait_for(child, killed, batches, errors)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    damaged = [flip_byte(killed, "checkpoints/c*/*.distcp"), flip_byte(killed, "versions/v*/*rs")]
    assert start(warm_process, config, killed, errors).wait() == 0, errors.read_text()[-3000:]
    assert f"{damaged[0]}: the file is damaged: its checksum is" in errors.read_text()
    assert_same(killed, uninterrupted)


def changed(config: Path, path: Path, **save: object) -> Path:
    """A training file with other settings of saving."""
    table = tomllib.loads(config.read_text())
    table["save"] |= save
    path.write_text(tomli_w.dumps(table))
    return path


def flip_byte(run: Path, pattern: str, place: float = 0.5) -> Path:
    """Flip a byte at this share of the newest file of a pattern; returns the file."""
    file = sorted(run.glob(pattern))[-1]
    data = bytearray(file.read_bytes())
    data[int(len(data) * place)] ^= 16
    file.write_bytes(data)
    return file


def test_a_second_process_leaves_the_first_alone(
    config: Path, warm_process: WarmProcess, uninterrupted: Path, tmp_path: Path
) -> None:
    """Started in the folder of a run that goes on, it says so with status 2, and the first ends as
    if nothing had been: its metrics and partial checkpoints are not touched."""
    out, errors, others = tmp_path / "run", tmp_path / "errors.txt", tmp_path / "others.txt"
    first = start(warm_process, config, out, errors)
    wait_for(first, out, 1, errors)
    while first.poll() is None:
        second = start(warm_process, config, out, others)
        if second.wait() == 0:  # the first had ended meanwhile: there was nothing left to do
            break
        assert others.read_text().endswith(
            f"error: {out}: another process is writing to this run\n"
        )
        others.write_text("")
    assert first.wait() == 0, errors.read_text()[-3000:]
    assert_same(out, uninterrupted)


def test_a_run_ends_with_a_checkpoint_before_its_time_is_over(
    config: Path, warm_process: WarmProcess, uninterrupted: Path, tmp_path: Path
) -> None:
    """`save.must_save_by` ends it like an interruption, and it can be resumed with more time. Where
    the time did not suffice for one batch, nothing is left."""
    out, errors, short = (tmp_path / name for name in ("run", "errors.txt", "short.toml"))
    for seconds in (0, 1, 2, 3):
        changed(config, short, must_save_by=f"00:00:0{seconds}")
        status = start(warm_process, short, out, errors).wait()
        assert status == 130 or (seconds and status == 0), errors.read_text()[-3000:]
        if status == 0:
            break
        *_, why, hint = errors.read_text().splitlines()
        assert why.startswith("save.must_save_by: there is no time for another batch; ")
        assert ("the checkpoint after batch" in why) is (out / "checkpoints").exists()
        if (out / SETTINGS_NAME).exists():
            assert hint == f"interrupted; to continue: rehearse train {short} -o {out} --resume"
        else:
            assert hint == "interrupted"
    assert start(warm_process, config, out, errors).wait() == 0, errors.read_text()[-3000:]
    assert_same(out, uninterrupted)


def assert_same(killed: Path, uninterrupted: Path) -> None:
    """Assert that a killed run ended like the uninterrupted one."""
    assert [one["step"] for one in read_metrics(killed)] == list(range(STEPS + 1))
    for found, expected in zip(metrics_of(killed), metrics_of(uninterrupted), strict=True):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    report = json.loads((killed / "report.json").read_text())
    assert (report["steps"], report["groups"]) == (STEPS, STEPS * GROUPS)
    assert report["episodes"] == STEPS * GROUPS * SIZE
    assert report["shared"] > 0.4  # prefixes were shared
    assert_same_weights(killed, uninterrupted)
    with open_reader(killed / "rollouts") as reader:
        records = [record for _, record in reader.records_after(0, 1_000_000)]
        rows = reader.episodes()
    ended = Counter(
        record.episode
        for record in records
        if isinstance(record.event, EpisodeEnded) and record.event.ending is not Ending.CANCELLED
    )
    assert set(ended.values()) == {1}
    assert len(ended) == len(rows) == STEPS * GROUPS * SIZE
    versions = [record.event.version for record in records if record.episode == WEIGHTS_EPISODE]  # type: ignore[union-attr]
    assert versions[-1] == f"v{STEPS}"


def assert_same_weights(one: Path, other: Path) -> None:
    weights, expected = (
        load_file(folder / "versions" / f"v{STEPS}" / "model.safetensors")
        for folder in (one, other)
    )
    for name, value in weights.items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=TOLERANCE)


def test_killed_at_critical_points_a_run_trains_the_same(
    config: Path, warm_process: WarmProcess, rehearse: Rehearse, tmp_path: Path
) -> None:
    """Killed between the end of an episode, its verdict, its group and its update, and between
    publishing, evaluating, reporting and saving, a run resumes to the same result, evaluations
    included. (`just test` takes three of these points, `just test-long` all of them.)"""
    uninterrupted, killed = tmp_path / "uninterrupted", tmp_path / "killed"
    errors = tmp_path / "errors.txt"
    table = tomllib.loads(config.read_text())
    table["loop"]["evaluate_every"] = STEPS // 2
    table["evaluation"] = {"episodes": 2}
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(table))
    # In the test's own process, whose hash seed is not that of the children.
    status, _, stderr = rehearse("train", config, "-o", uninterrupted)
    assert status == 0, stderr
    for point in POINTS:
        child = start(warm_process, config, killed, errors, point=point)
        assert child.wait() == -signal.SIGKILL, (point, errors.read_text()[-3000:])
    assert start(warm_process, config, killed, errors).wait() == 0, errors.read_text()[-3000:]
    assert_same(killed, uninterrupted)
    for out in (killed, uninterrupted):
        evaluated = [one["step"] for one in read_metrics(out) if "evaluation/reward" in one]
        assert evaluated == [0, STEPS // 2, STEPS]
    found, expected = (
        json.loads((out / "report.json").read_text())["evaluations"]
        for out in (killed, uninterrupted)
    )
    assert found == expected


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_and_can_be_resumed(
    config: Path, warm_process: WarmProcess, tmp_path: Path, by: signal.Signals
) -> None:
    """Ctrl-C or SIGTERM ends a run with the command that resumes it, status 130 and a checkpoint of
    the last complete batch, from which it resumes."""
    out, errors = tmp_path / "run", tmp_path / "errors.txt"
    child = start(warm_process, config, out, errors)
    wait_for(child, out, 1, errors)
    child.send_signal(by)
    assert child.wait() == 130, errors.read_text()[-3000:]
    lines = errors.read_text().splitlines()
    assert lines[-1].startswith("interrupted; to continue: rehearse train ")
    assert "Traceback" not in errors.read_text()
    last = num_reported(out)
    manifests = sorted((out / "checkpoints").glob("*/checkpoint.json"))
    assert json.loads(manifests[-1].read_text())["step"] >= last
    assert start(warm_process, config, out, errors).wait() == 0, errors.read_text()[-3000:]
    assert [one["step"] for one in read_metrics(out)] == list(range(STEPS + 1))


def test_two_processes_save_when_all_get_a_signal(
    config: Path, warm_process: WarmProcess, tmp_path: Path
) -> None:
    """torchrun passes SIGTERM on to all of its processes: the first one writes its checkpoint with
    the help of the others, which end with it."""
    both, port = tmp_path / "both", free_port()
    outputs = [tmp_path / f"output-{rank}.txt" for rank in range(2)]
    children = [
        start(warm_process, config, both, output, **torchrun_environment(rank, 2, port))
        for rank, output in enumerate(outputs)
    ]
    wait_for(children[0], both, 1, outputs[0])
    for child in children:
        child.send_signal(signal.SIGTERM)
    assert children[0].wait() == 130, outputs[0].read_text()[-3000:]
    assert children[1].wait() == 0, outputs[1].read_text()[-3000:]
    manifests = sorted((both / "checkpoints").glob("*/checkpoint.json"))
    assert json.loads(manifests[-1].read_text())["step"] >= 1


def test_two_processes_train_the_same_as_one(
    config: Path, warm_process: WarmProcess, uninterrupted: Path, tmp_path: Path
) -> None:
    """In torchrun's environment the first process runs the rollouts and the other one follows:
    metrics and published weights are those of one process (test_distributed starts torchrun)."""
    both, port = tmp_path / "both", free_port()
    outputs = [tmp_path / f"output-{rank}.txt" for rank in range(2)]
    children = [
        start(warm_process, config, both, output, **torchrun_environment(rank, 2, port))
        for rank, output in enumerate(outputs)
    ]
    for child, output in zip(children, outputs, strict=True):
        assert child.wait() == 0, output.read_text()[-3000:]
    for found, expected in zip(metrics_of(both), metrics_of(uninterrupted), strict=True):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    assert [output.read_text().count("run folder") for output in outputs] == [1, 0]
    assert_same_weights(both, uninterrupted)
