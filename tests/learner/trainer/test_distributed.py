"""Several processes train the same as one."""

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

from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import TrainingError
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.learner.model.adapters import merged
from rehearsal_room.learner.model.distributed import SINGLE_PROCESS, Processes, join_processes
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.learner.trainer.trainer import StepReport, open_trainer
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.broker import free_port
from tests.support.budgets import IS_LONG
from tests.support.cli import Rehearse
from tests.support.made_once import made_once
from tests.support.tiny_model import write_model, write_model_for
from tests.support.train_distributed import CASES, settings_for, steps_of, train
from tests.support.trainer_runs import changed, largest_difference, random_batch, weights_after
from tests.support.warm_process import Job, WarmProcess, torchrun_environment

# Three interpreters start, on however busy a machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

# The order of summation differs, and AdamW divides a gradient by its own size: see TOLERANCE in
# test_trainer. bfloat16 also rounds norms' scales, which one process does not.
TOLERANCE = {"bfloat16": 1e-3 * steps_of("bfloat16")}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose sizes two processes cannot share evenly: 366 tokens, norms of 8 and 17."""

    def write(folder: Path) -> None:
        write_model(folder / "start", hidden=17, head_dim=8)

    return made_once(tmp_path_factory, "distributed-model", write) / "start"


@pytest.fixture(scope="module")
def together(
    model: Path, warm_process: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The results of two processes in torchrun's environment."""
    return made_once(
        tmp_path_factory, "together", lambda folder: train_together(model, warm_process, folder)
    )


def train_together(model: Path, warm_process: WarmProcess, folder: Path) -> None:
    """Train in two processes, each with its results in the folder."""
    port = free_port()
    outputs = [folder / f"output-{rank}.txt" for rank in range(2)]
    children = [
        warm_process.start(
            Job(
                "tests.support.train_distributed",
                "main",
                (str(model), str(folder)),
                str(output),
                torchrun_environment(rank, 2, port),
            )
        )
        for rank, output in enumerate(outputs)
    ]
    for child, output in zip(children, outputs, strict=True):
        assert child.wait(150) == 0, output.read_text()[-3000:]


def run_torchrun(module: str, *arguments: object) -> None:
    """Run a module in two processes under torchrun, until it ends."""
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", module]
    torchrun = subprocess.Popen(
        [sys.executable, "-m", *command, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, errors = torchrun.communicate(timeout=150)
        assert torchrun.returncode == 0, errors[-3000:]
    finally:
        torchrun.terminate()  # torchrun then ends its workers; after a kill they would stay
        torchrun.wait(timeout=40)


@pytest.mark.parametrize("name", list(CASES))
def test_two_processes_train_the_same_as_one(model: Path, together: Path, name: str) -> None:
    """Losses, norms, measurements and weights after some batches equal those of one process: for
    each backend (`packed`, and a third batch, in `just test-long`), with work for only one of them,
    in bfloat16, with adapters, and with all of several updates, a reference, ratios of episodes and
    checkpointing (updates and reference alone: `just test-long`)."""
    trainer = open_trainer(settings_for(name, model))
    alone = list(train(trainer, name))
    reports = msgspec.json.decode((together / f"{name}.json").read_bytes(), type=list[StepReport])
    tolerance = 1e-4 if name != "bfloat16" else 0.05
    for report, expected in zip(reports, alone, strict=True):
        assert numbers(report) == pytest.approx(numbers(expected), rel=tolerance, abs=tolerance)
    weights = weights_after(trainer.model)
    if name == "lora":
        weights = merged(trainer.model, weights)
    if name == "bfloat16":
        weights = {key: weight.to(torch.bfloat16) for key, weight in weights.items()}
    published = weights_after(open_model(together / name, ComputeSettings(device="cpu")))
    assert largest_difference(published, weights) < TOLERANCE.get(name, 3e-5)
    start = weights_after(open_model(model, ComputeSettings(device="cpu")))
    assert largest_difference(published, start) > 1e-3


def numbers(report: StepReport) -> dict[str, float]:
    """A report's numbers, without its duration."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return {key: value for key, value in fields.items() if key not in ("measures", "seconds")} | {
        f"measures/{key}": value for key, value in report.measures.items()
    }


def test_processes_resume_from_a_checkpoint(model: Path, together: Path) -> None:
    """Two processes save together, survive a broken batch and a checkpoint that cannot be written,
    and resume to exactly the weights of two uninterrupted processes; one process can also resume
    from their checkpoint."""
    found = msgspec.json.decode((together / "parts.json").read_bytes())
    assert found["progress"] == "YWZ0ZXIgMQ=="  # base64 of "after 1"
    broken, unwritten = found["faults"]
    assert broken.startswith("batch 2 cannot be trained on: the loss is nan")
    assert unwritten.endswith("checkpoint-000001: cannot be written: Not a directory")
    compute = ComputeSettings(device="cpu")
    parts, whole = (weights_after(open_model(together / n, compute)) for n in ("parts", "twopass"))
    assert largest_difference(parts, whole) == 0

    trainer = open_trainer(settings_for("twopass", model))
    assert trainer.resume(together / "checkpoints") == b"after 1"
    list(train(trainer, "twopass", first=1))
    assert largest_difference(weights_after(trainer.model), whole) < 3e-5


class RecordedBroadcasts(Processes):
    """One process that records what it would broadcast."""

    sent: ClassVar[list[object]] = []

    def broadcast(self, value: Any) -> Any:
        self.sent.append(value and value[0])
        return value


def test_the_other_processes_are_ended_only_if_they_can_be_reached(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error in all processes, closing sends them the end. After an error in process 0
    alone, such as running out of memory, the others wait for other data, and nothing is sent."""
    RecordedBroadcasts.sent.clear()
    batch = random_batch(0, prefix=9)
    broken = changed(
        batch, 0, 0, advantages=batch.prefix_groups[0].suffixes[0].advantages * math.nan
    )
    trainer = open_trainer(settings_for("twopass", model), processes=RecordedBroadcasts())
    with pytest.raises(TrainingError):
        trainer.step(broken)
    trainer.close()
    assert RecordedBroadcasts.sent == ["_step", None]

    def out_of_memory() -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(trainer.optimizer, "step", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        trainer.step(batch)
    trainer.close()
    assert RecordedBroadcasts.sent == ["_step", None, "_step"]


def test_one_process_needs_no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torchrun's environment there is only this process, and it needs no communication."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes(ComputeSettings(device="cpu")) as processes:
        assert processes == SINGLE_PROCESS == Processes(rank=0, size=1)
        assert processes.gather("own") == ["own"]
        assert processes.broadcast("own") == "own"
        assert not torch.distributed.is_initialized()


@pytest.mark.skipif(not IS_LONG, reason="three interpreters import torch: `just test-long`")
def test_a_whole_run_under_torchrun(rehearse: Rehearse, tmp_path: Path) -> None:
    """`rehearse train` under torchrun runs the rollouts in process 0 and trains in all processes;
    metrics and weights equal those of one process. (Nightly, in `just test-long`. In `just test`,
    test_train_kill has the same run in torchrun's environment, without its launcher.)"""
    [world] = write_microworlds(tmp_path, seed=3, count=1, split="train")
    model = write_model_for(world, tmp_path / "start", hidden=17, head_dim=8)
    rollouts = {"history": "last:1", "dialect": "hermes", "max_steps": 2, "max_tokens": 4}
    settings = {
        "model": str(model),
        "steps": 2,
        "rollouts": {"scenarios": [str(world)], "group_size": 2, "format_stop": False, **rollouts},
        "data": {"groups": 2, "keep_equal": True},
        "loss": {"entropy": 0.1},  # all rewards are 0 here: this changes the weights
        "optimizer": {"lr": 0.01},
        "loop": {"staleness": 0},  # or what is sampled would depend on timing
        "metrics": {"tensorboard": False},
    }
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(settings))
    run_torchrun("harness", "train", config, "-o", tmp_path / "two")
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
    assert largest_difference(*published) < 1e-3  # lr is 0.01, and see TOLERANCE
