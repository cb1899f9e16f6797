"""The state that determines a trainer's next numbers: weights, optimiser, random states."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.optim import Optimizer

from rehearsal_room.learner.model.distributed import Processes

_TRAINED = StateDictOptions(ignore_frozen_params=True)  # with adapters, the others are frozen


def training_state(
    model: nn.Module, optimizer: Optimizer, processes: Processes, *, random: bool = True
) -> dict[str, Any]:
    """The state as tensors by name, which torch.distributed.checkpoint writes and reads in place.
    Weights that are not trained are left out.

    `random`: include the random state of this process. All processes must call it. An optimiser
    that has not made an update yet gets its initial state.
    """
    of_model, of_optimizer = get_state_dict(model, optimizer, options=_TRAINED)
    state: dict[str, Any] = {"model": of_model, "optimizer": of_optimizer}
    if random:
        state[f"random-{processes.rank}"] = _random_state()
    return state


def restore(
    model: nn.Module, optimizer: Optimizer, processes: Processes, state: Mapping[str, Any]
) -> None:
    """Restore a state that was read from a checkpoint."""
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=StateDictOptions(strict=False),  # of the weights that are not trained
    )
    for device, numbers in state.get(f"random-{processes.rank}", {}).items():
        if device == "cuda":
            torch.cuda.set_rng_state(numbers.cpu())
        else:
            torch.set_rng_state(numbers.cpu())


def full_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights as full tensors in process 0 (on the CPU if they are sharded), nothing in the
    other processes. All processes must call it."""
    weights = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    return cast(dict[str, Tensor], weights)


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
