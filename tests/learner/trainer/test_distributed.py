"""Several processes train what one would."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import tomli_w
import torch

from learner.config.settings import ComputeSettings
from learner.core.errors import TrainingError
from learner.loop.metrics import read_metrics
from learner.model.distributed import ALONE, Processes, joined
from learner.model.pretrained import open_model
from learner.trainer.trainer import StepReport, open_trainer
from scenarios.microworlds.writing import write_microworlds
from tests.support.cli import Rehearse
from tests.support.tiny_model import write_model
from tests.support.train_distributed import CASES, STEPS, settings_for, trained
from tests.support.trainer_runs import changed, largest_difference, random_batch, weights_after

pytestmark = pytest.mark.timeout(200)  # three interpreters start, on however busy a machine

# The order of summation differs, and AdamW divides a gradient by its own size: see NEAR in
# test_learner_trainer. bfloat16 also rounds norms' scales, which one process does not.
NEAR = {"bfloat16": 1e-3 * STEPS}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sizes that two processes cannot share evenly: 366 tokens, norms of 8 and 17."""
    return write_model(tmp_path_factory.mktemp("model") / "start", hidden=17, head_dim=8)


@pytest.fixture(scope="module")
def together(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes under torchrun made."""
    folder = tmp_path_factory.mktemp("together")
    run_two("tests.support.train_distributed", model, folder)
    return folder


def run_two(module: str, *arguments: object) -> None:
    """Run a module in two processes under torchrun, to the end."""
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", module]
    torchrun = subprocess.Popen(
        [sys.executable, "-m", *command, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, told = torchrun.communicate(timeout=150)
        assert torchrun.returncode == 0, told[-3000:]
    finally:
        torchrun.terminate()  # torchrun then ends what it started; were it killed, that would stay
        torchrun.wait(timeout=40)


@pytest.mark.parametrize("name", list(CASES))
def test_two_processes_train_what_one_does(model: Path, together: Path, name: str) -> None:
    """Losses, norms, measures and weights after some batches are those of one process: for each
    backend, with work for one of them only, with several updates and a reference, for ratios of
    episodes, under checkpointing and in bfloat16."""
    trainer = open_trainer(settings_for(name, model))
    alone = list(trained(trainer, name))
    reports = msgspec.json.decode((together / f"{name}.json").read_bytes(), type=list[StepReport])
    tolerance = 1e-4 if name != "bfloat16" else 0.05
    for report, expected in zip(reports, alone, strict=True):
        assert told(report) == pytest.approx(told(expected), rel=tolerance, abs=tolerance)
    weights = weights_after(trainer.model)
    if name == "bfloat16":
        weights = {key: weight.to(torch.bfloat16) for key, weight in weights.items()}
    published = weights_after(open_model(together / name, ComputeSettings(device="cpu")))
    assert largest_difference(published, weights) < NEAR.get(name, 3e-5)
    start = weights_after(open_model(model, ComputeSettings(device="cpu")))
    assert largest_difference(published, start) > 1e-3


def told(report: StepReport) -> dict[str, float]:
    """A report's numbers, time aside."""
    numbers: dict[str, Any] = msgspec.to_builtins(report)
    return {key: value for key, value in numbers.items() if key not in ("measures", "seconds")} | {
        f"measures/{key}": value for key, value in report.measures.items()
    }


def test_processes_go_on_from_a_checkpoint(model: Path, together: Path) -> None:
    """Two processes save together, survive a broken batch and a checkpoint that cannot be written,
    and go on to exactly the weights of two that were not interrupted; one process can go on from
    their checkpoint, too."""
    told = msgspec.json.decode((together / "parts.json").read_bytes())
    assert told["place"] == "YWZ0ZXIgMQ=="  # base64 of "after 1"
    broken, unwritten = told["faults"]
    assert broken.startswith("batch 2 cannot be trained on: the loss is nan")
    assert unwritten.endswith("it cannot be written: Not a directory")
    compute = ComputeSettings(device="cpu")
    parts, whole = (weights_after(open_model(together / n, compute)) for n in ("parts", "twopass"))
    assert largest_difference(parts, whole) == 0

    trainer = open_trainer(settings_for("twopass", model))
    assert trainer.resume(together / "checkpoints") == b"after 1"
    list(trained(trainer, "twopass", first=1))
    assert largest_difference(weights_after(trainer.model), whole) < 3e-5


class Listened(Processes):
    """One process that keeps what it would tell others."""

    said: ClassVar[list[object]] = []

    def told(self, value: Any) -> Any:
        self.said.append(value and value[0])
        return value


def test_the_others_are_told_to_end_where_they_can_hear_it(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error that all processes have, they are told to end; after one that only the first
    has, such as memory that ran out, they wait for something else, and nothing is said to them."""
    Listened.said.clear()
    batch = random_batch(0, prefix=9)
    broken = changed(batch, 0, 0, advantages=batch.stars[0].leaves[0].advantages * math.nan)
    trainer = open_trainer(settings_for("twopass", model), processes=Listened())
    with pytest.raises(TrainingError):
        trainer.step(broken)
    trainer.close()
    assert Listened.said == ["_step", None]

    def out_of_memory() -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(trainer.optimizer, "step", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        trainer.step(batch)
    trainer.close()
    assert Listened.said == ["_step", None, "_step"]


def test_one_process_needs_no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torchrun's environment this process is all there are, and says everything itself."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(ComputeSettings(device="cpu")) as processes:
        assert processes == ALONE == Processes(rank=0, size=1)
        assert processes.gathered("own") == ["own"]
        assert processes.told("own") == "own"
        assert not torch.distributed.is_initialized()


@pytest.mark.slow
def test_a_whole_run_under_torchrun(rehearse: Rehearse, model: Path, tmp_path: Path) -> None:
    """`rehearse train` under torchrun plays in its first process and trains in all; figures and
    weights are those of one process."""
    [drill] = write_microworlds(tmp_path, seed=3, count=1, split="train")
    rollouts = {"history": "last:1", "dialect": "hermes", "max_steps": 2, "max_tokens": 4}
    settings = {
        "model": str(model),
        "steps": 2,
        "rollouts": {"scenarios": [str(drill)], "group_size": 2, "format_stop": False, **rollouts},
        "data": {"groups": 2, "keep_equal": True},
        "loss": {"entropy": 0.1},  # rewards are all 0 here: this moves the weights
        "optimizer": {"lr": 0.01},
        "loop": {"staleness": 0},  # or what is sampled would depend on timing
        "metrics": {"tensorboard": False},
    }
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(settings))
    run_two("harness", "train", config, "-o", tmp_path / "two")
    assert rehearse("train", config, "-o", tmp_path / "one")[0] == 0

    two, one = (
        [{name: line[name] for name in ("loss", "grad_norm", "entropy")} for line in lines[1:]]
        for lines in map(read_metrics, (tmp_path / "two", tmp_path / "one"))
    )
    assert len(two) == 2
    for of_two, of_one in zip(two, one, strict=True):
        assert of_two == pytest.approx(of_one, rel=1e-4, abs=1e-6)
    compute = ComputeSettings(device="cpu")
    published = [
        weights_after(open_model(tmp_path / run / "versions" / "v2", compute))
        for run in ("one", "two")
    ]
    assert largest_difference(*published) < 1e-3  # lr is 0.01, and see NEAR
