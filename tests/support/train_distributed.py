"""Train a few batches with one set of settings after another, in each of torchrun's processes.

`main` runs in each process, with the arguments MODEL FOLDER. For every case in CASES it publishes
the weights into FOLDER/NAME and writes the reports into FOLDER/NAME.json.
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.learner.config.settings import ComputeSettings, TrainSettings
from rehearsal_room.learner.core.errors import CheckpointError, TrainingError
from rehearsal_room.learner.model.distributed import Processes, join_processes
from rehearsal_room.learner.trainer.trainer import StepReport, Trainer, open_trainer
from tests.support.budgets import IS_LONG, repeats
from tests.support.trainer_runs import changed, in_parts, random_batch, settings_of

CARD = PolicyCard("v1", "last:3", "f00d", "hermes")
NAN = float("nan")
UNEVEN, EVEN = repeats(short=3, long=5), repeats(short=2, long=4)  # for two processes

# Name: settings, and the number of prefix groups in a batch; with one, a process has no work.
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "twopass": ({"compute": {"backend": "twopass", "max_tokens": 20}}, UNEVEN),
    "one_group": ({"compute": {"backend": "twopass", "max_tokens": 20}}, 1),
    "episodes": (
        {
            "loss": {"policy": "gspo", "scope": "episode", "gspo_low": 1e-4, "gspo_high": 1e-4}
            | {"kl": 0.1},
            "optimizer": {"minibatches": 2, "max_grad_norm": 0.1},
            "compute": {"max_tokens": 20, "gradient_checkpointing": True},
        },
        4,
    ),
    "bfloat16": ({"compute": {"dtype": "bfloat16"}}, EVEN),
}
if find_spec("peft"):
    CASES["lora"] = ({"compute": {"max_tokens": 20}, "lora": {"rank": 3}}, UNEVEN)
if IS_LONG:
    CASES["updates"] = ({"optimizer": {"minibatches": 2}, "loss": {"kl": 0.1}}, 4)
    CASES["packed"] = ({"compute": {"backend": "packed", "max_tokens": 40}}, UNEVEN)


def steps_of(name: str) -> int:
    """The number of a case's batches. In bfloat16 test_distributed's tolerance is for three."""
    return 3 if name == "bfloat16" else repeats(short=2, long=3)


def settings_for(name: str, model: Path) -> TrainSettings:
    """The settings of a case."""
    return settings_of(model, **CASES[name][0])


def train(trainer: Trainer, name: str, *, first: int = 0) -> Iterator[StepReport]:
    """Train a case's batches, starting with batch `first`."""
    for step in range(first, steps_of(name)):
        batch = random_batch(step, num_groups=CASES[name][1])
        # In case "episodes", the prefix groups of an episode are in both processes.
        yield trainer.step(in_parts(batch) if name == "episodes" else batch)


def run(name: str, model: Path, folder: Path, processes: Processes) -> None:
    """Train one case."""
    trainer = open_trainer(settings_for(name, model), processes=processes)
    if processes.rank:
        trainer.follow()
        return
    reports = list(train(trainer, name))
    trainer.publish(folder / name, CARD)
    trainer.close()
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(reports))


def run_in_parts(model: Path, folder: Path, processes: Processes) -> None:
    """Train case `twopass` with two trainers: the first one saves after one batch, then meets two
    faults; the second one resumes."""
    settings = settings_for("twopass", model)
    before, after = (open_trainer(settings, processes=processes) for _ in range(2))
    if processes.rank:
        before.follow()
        after.follow()
        return
    before.step(random_batch(0, num_groups=UNEVEN))
    before.save(folder / "checkpoints", b"after 1", keep=1)
    bad = random_batch(1, num_groups=UNEVEN)
    broken = changed(
        bad, UNEVEN - 1, 0, advantages=bad.prefix_groups[-1].suffixes[0].advantages * NAN
    )
    faults = []
    for fail in (
        lambda: before.step(broken),
        lambda: before.save(folder / "parts.json" / "checkpoints", b"", keep=1),
    ):
        (folder / "parts.json").touch()
        try:
            fail()
        except (TrainingError, CheckpointError) as exc:
            faults.append(str(exc))
    before.close()
    progress = after.resume(folder / "checkpoints")
    reports = list(train(after, "twopass", first=1))
    after.publish(folder / "parts", CARD)
    after.close()
    found = {"progress": progress, "faults": faults, "reports": reports}
    (folder / "parts.json").write_bytes(msgspec.json.encode(found))


def main() -> None:
    model, folder = map(Path, sys.argv[1:])
    with join_processes(ComputeSettings(device="cpu", threads=1)) as processes:
        for name in CASES:
            run(name, model, folder, processes)
        run_in_parts(model, folder, processes)
