"""All in memory that decides a trainer's next numbers: weights, optimiser, random numbers."""

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

from learner.model.distributed import Processes


def training_state(
    model: nn.Module, optimizer: Optimizer, processes: Processes, *, random: bool = True
) -> dict[str, Any]:
    """The state as tensors by name, which torch.distributed.checkpoint writes and reads in place;
    `random` numbers are each process's own. All processes must ask.

    An optimiser that has made no update yet is given the state that it would begin with.
    """
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state: dict[str, Any] = {"model": of_model, "optimizer": of_optimizer}
    if random:
        state[f"random-{processes.rank}"] = _random_state()
    return state


def restore(
    model: nn.Module, optimizer: Optimizer, processes: Processes, state: Mapping[str, Any]
) -> None:
    """Take over a state that was read."""
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    for device, numbers in state.get(f"random-{processes.rank}", {}).items():
        if device == "cuda":
            torch.cuda.set_rng_state(numbers.cpu())
        else:
            torch.set_rng_state(numbers.cpu())


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights in process 0, on the CPU where they are sharded; nothing in the others. All
    processes must ask."""
    weights = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    return cast(dict[str, Tensor], weights)


def _random_state() -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state
