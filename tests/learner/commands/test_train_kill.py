"""Training in a process of its own, killed in the middle and interrupted."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from safetensors.numpy import load_file

from harness.core.events import WEIGHTS_EPISODE, Ending, EpisodeEnded
from harness.log.reader import open_reader
from learner.loop.metrics import FILE_NAME, read_metrics
from scenarios.microworlds.writing import write_microworlds
from tests.support.tiny_model import write_model

STEPS, GROUPS, SIZE = 8, 2, 2
COMPARED = ("reward", "groups", "loss", "entropy", "grad_norm", "num_trained", "mismatch_max")
# Sums of floats come in another order where other requests were computed beside; the tokens that
# are sampled are the same.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training file: strictly on policy, so that what is sampled does not depend on timing."""
    folder = tmp_path_factory.mktemp("kill")
    model = write_model(folder / "start", hidden=16, layers=1)
    [drill] = write_microworlds(folder, seed=3, count=1, split="train")
    table = {
        "model": str(model),
        "steps": STEPS,
        "rollouts": {
            "scenarios": [str(drill)],
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


def started(config: Path, out: Path, errors: Path, *program: str) -> "subprocess.Popen[bytes]":
    named = program or ("harness",)
    command = [sys.executable, "-m", *named, "train", config, "-o", out, "--resume"]
    with errors.open("wb") as file:
        return subprocess.Popen(list(map(str, command)), stdout=file, stderr=file)


def num_told(out: Path) -> int:
    """Batches whose figures are written."""
    path = out / FILE_NAME
    return sum('"loss"' in line for line in path.read_text().splitlines()) if path.exists() else 0


def wait_for(process: "subprocess.Popen[bytes]", out: Path, batches: int, errors: Path) -> None:
    while num_told(out) < batches:
        assert process.poll() is None, errors.read_text()[-3000:]
        time.sleep(0.01)


def figures(out: Path) -> list[dict[str, Any]]:
    return [{name: one[name] for name in COMPARED} for one in read_metrics(out) if one["step"]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_again_and_again_it_trains_the_same(config: Path, tmp_path: Path) -> None:
    """Killed in several places, a run goes on to the batches, figures and weights of one that was
    left alone: no group is trained twice, none is lost, no finished episode is run again."""
    quiet, killed, errors = tmp_path / "quiet", tmp_path / "killed", tmp_path / "errors.txt"
    process = started(config, quiet, errors)
    assert process.wait() == 0, errors.read_text()[-3000:]
    for batches, wait in ((1, 0.0), (3, 0.02), (4, 0.05)):
        process = started(config, killed, errors)
        wait_for(process, killed, batches, errors)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    process = started(config, killed, errors)
    assert process.wait() == 0, errors.read_text()[-3000:]
    assert_same(killed, quiet)


def assert_same(killed: Path, quiet: Path) -> None:
    """That a run which was killed became the one that was not."""
    assert [one["step"] for one in read_metrics(killed)] == list(range(STEPS + 1))
    for found, expected in zip(figures(killed), figures(quiet), strict=True):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    report = json.loads((killed / "report.json").read_text())
    assert (report["steps"], report["groups"]) == (STEPS, STEPS * GROUPS)
    assert report["episodes"] == STEPS * GROUPS * SIZE
    weights, same = (
        load_file(folder / "versions" / f"v{STEPS}" / "model.safetensors")
        for folder in (killed, quiet)
    )
    for name, value in weights.items():
        np.testing.assert_allclose(value, same[name], rtol=0, atol=TOLERANCE)
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
    told = [record.event.version for record in records if record.episode == WEIGHTS_EPISODE]  # type: ignore[union-attr]
    assert told[-1] == f"v{STEPS}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_where_it_hurts_it_trains_the_same(config: Path, tmp_path: Path) -> None:
    """Between the end of an episode, its verdict, its group and its update, between publishing,
    evaluating, telling and saving: a run goes on to the same, evaluations included."""
    quiet, killed, errors = tmp_path / "quiet", tmp_path / "killed", tmp_path / "errors.txt"
    table = tomllib.loads(config.read_text())
    table["loop"]["evaluate_every"] = 4
    table["evaluation"] = {"episodes": 2}
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(table))
    assert started(config, quiet, errors).wait() == 0, errors.read_text()[-3000:]
    for point in ("ended", "judged", "taken", "published", "evaluated", "told", "saved"):
        process = started(config, killed, errors, "tests.support.train_victim", point)
        assert process.wait() == -signal.SIGKILL, (point, errors.read_text()[-3000:])
    assert started(config, killed, errors).wait() == 0, errors.read_text()[-3000:]
    assert_same(killed, quiet)
    for out in (killed, quiet):
        told = [one["step"] for one in read_metrics(out) if "evaluation/reward" in one]
        assert told == [0, 4, 8]
    evaluated, expected = (
        json.loads((out / "report.json").read_text())["evaluations"] for out in (killed, quiet)
    )
    assert evaluated == expected


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_interrupted_it_saves_and_goes_on(config: Path, tmp_path: Path) -> None:
    """Ctrl-C ends a run with one sentence, status 130 and a checkpoint of the last whole batch,
    from which it goes on."""
    out, errors = tmp_path / "run", tmp_path / "errors.txt"
    process = started(config, out, errors)
    wait_for(process, out, 1, errors)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130, errors.read_text()[-3000:]
    said = errors.read_text().splitlines()
    assert said[-1].startswith("interrupted; ")
    assert "Traceback" not in errors.read_text()
    last = num_told(out)
    manifests = sorted((out / "checkpoints").glob("*/checkpoint.json"))
    assert json.loads(manifests[-1].read_text())["step"] >= last
    process = started(config, out, errors)
    assert process.wait() == 0, errors.read_text()[-3000:]
    assert [one["step"] for one in read_metrics(out)] == list(range(STEPS + 1))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_train_as_one(config: Path, tmp_path: Path) -> None:
    """Under torchrun the first process runs the rollouts and the other follows: figures and
    published weights are those of one process."""
    alone, both, errors = tmp_path / "alone", tmp_path / "both", tmp_path / "errors.txt"
    assert started(config, alone, errors).wait() == 0, errors.read_text()[-3000:]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
    ]
    command += ["-m", "harness", "train", str(config), "-o", str(both)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for found, expected in zip(figures(both), figures(alone), strict=True):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    assert done.stdout.count("run folder") == 1
    weights, same = (
        load_file(folder / "versions" / f"v{STEPS}" / "model.safetensors")
        for folder in (both, alone)
    )
    for name, value in weights.items():
        np.testing.assert_allclose(value, same[name], rtol=0, atol=TOLERANCE)
