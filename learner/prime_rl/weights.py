"""The weights that prime-rl's trainer publishes.

    FOLDER/broadcasts/step_1/    *.safetensors as in a Hugging Face folder, and last the file STABLE

`step_0` are the weights that it starts with. The older ones are removed by prime-rl, never by us.
Its trainer needs `weight_broadcast` "filesystem", without adapters.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import PreTrainedModel

from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.learner.core.atomic_dirs import write_atomic_folder
from rehearsal_room.learner.core.errors import CheckpointError, ModelError, TrainingError
from rehearsal_room.learner.model.pretrained import copy_other_files, open_plain

_EVERY = 0.2  # seconds between two looks
_COMPARED = torch.bfloat16  # what trainers of large models store


def wait_for(folder: Path, step: int, *, timeout: float, check: Callable[[], None]) -> Path:
    """The folder of a step's weights, as soon as it is complete. `check` is called at every look;
    what it raises ends the waiting. Raises TrainingError after `timeout` seconds."""
    source = folder / "broadcasts" / f"step_{step}"
    until = time.monotonic() + timeout
    while not (source / "STABLE").exists():
        check()
        if time.monotonic() > until:
            found = "has no file STABLE" if source.exists() else "does not exist"
            raise TrainingError(
                f"{source}: {found} after {timeout:g} s (engine.timeout): does prime-rl's trainer"
                " run, does it write to this folder, and does its log have an error? --resume goes"
                " on from here"
            )
        time.sleep(_EVERY)
    return source


def require_same(source: Path, start: Path) -> None:
    """Raise TrainingError where the weights that prime-rl starts with are not those of the model
    with which the run samples, in bfloat16."""
    with TemporaryDirectory() as folder:
        mine, other = open_plain(start, _COMPARED, torch.device("cpu")), Path(folder) / "model"
        other.mkdir()
        theirs = _open(source, start, other)
        for (name, one), two in zip(mine.named_parameters(), theirs.parameters(), strict=True):
            if not torch.equal(one, two):
                raise TrainingError(
                    f"{source}: prime-rl starts with other weights than {start}, for example in"
                    f" {name}: name the same model in its configuration"
                )


def publish(source: Path, folder: Path, card: PolicyCard, *, start: Path) -> None:
    """Write prime-rl's weights as a Hugging Face directory, with the files of the start directory
    and the card. The folder appears complete or not at all. Raises CheckpointError, also for
    weights that are damaged, of another model, or not finite."""
    with write_atomic_folder(folder) as partial:
        model = _open(source, start, partial)
        for name, weight in model.named_parameters():
            if not weight.isfinite().all():
                raise CheckpointError(f"{source}: the weight {name} is not finite")
        write_card(partial, card)


def _open(source: Path, start: Path, folder: Path) -> PreTrainedModel:
    """The model of a step's weights; an empty folder becomes its Hugging Face directory. Raises
    CheckpointError."""
    if (source / "adapter_config.json").exists():
        raise CheckpointError(
            f"{source}: prime-rl published adapters: leave out model.lora in its configuration"
        )
    try:
        for path in source.iterdir():
            if path.suffix in (".safetensors", ".json"):
                shutil.copyfile(path, folder / path.name)
        copy_other_files(start, folder)
    except OSError as exc:
        raise CheckpointError(f"{source}: cannot be copied: {exc.strerror or exc}") from exc
    try:
        return open_plain(folder, _COMPARED, torch.device("cpu"))
    except ModelError as exc:
        raise CheckpointError(str(exc).replace(str(folder), str(source))) from exc
