"""Several processes that train one model: torchrun starts them, FSDP2 shards the model.

Weights, gradients and the optimiser's state are sharded by `fully_shard` (arXiv:2304.11277), each
decoder layer for itself and the rest together. How many passes a process makes over the model
depends on its stars: a prefix, micro-batches of leaves, the prefix again. Were weights gathered in
each pass, processes with different work would wait for each other for ever. So what is sent is the
same whatever the work:

    1. all weights are gathered, and stay                                       (`whole`)
    2. each process computes its stars; gradients add up there, and nothing is sent
    3. one backward of no loss at all, in which FSDP2 sends what was added up   (`sum_gradients`)

In memory are then all weights and gradients, but only a share of the optimiser's state and of the
float32 weights under bfloat16. Gradients are summed, never averaged: denominators are those of the
whole batch.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from transformers import PreTrainedModel

from learner.backends.base import Backend
from learner.config.settings import ComputeSettings
from learner.model.pretrained import device_of, layers_of
from learner.packing.batch import Leaf, Star

_T = TypeVar("_T")
# The others wait for process 0 while it collects episodes. A process that died closes its
# connections, and torchrun ends the rest; nobody waits for that long.
_PATIENCE = timedelta(days=7)
# Gloo's threads say that a collective is done before they give up its tensors, for which they need
# the interpreter. In a process that ends at once they meet one that is being taken down, and torch
# aborts (seen in every second run); nothing tells when they are through.
_LEAVING_S = 0.5


class Processes(NamedTuple):
    """Those that train together, and which of them this is."""

    rank: int = 0
    size: int = 1

    def gathered(self, value: _T) -> list[_T]:
        """The value of every process, by rank. All must ask."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def told(self, value: _T) -> _T:
        """What process 0 says, in every process. All must ask."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]


ALONE = Processes()


@contextmanager
def joined(compute: ComputeSettings) -> Iterator[Processes]:
    """The processes that torchrun started; without torchrun this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    backend = "gloo"
    if device_of(compute).type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"  # what is told and gathered goes by gloo, weights by NCCL
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
        time.sleep(_LEAVING_S)


def shard(model: PreTrainedModel, processes: Processes, compute: ComputeSettings) -> None:
    """Shard a model over the processes, in place. Does nothing in one process.

    Under bfloat16 layers are gathered in it: autocast, as in one process, would round them anyhow
    (norms' scales are rounded only here). Embeddings and head stay in float32.
    """
    if processes.size == 1:
        return
    mesh = init_device_mesh(model.device.type, (processes.size,))
    low = torch.bfloat16 if compute.dtype == "bfloat16" else None
    of_layers = MixedPrecisionPolicy(low, torch.float32, cast_forward_inputs=False)
    for layer in layers_of(model):
        fully_shard(layer, mesh=mesh, mp_policy=of_layers, reshard_after_forward=False)
    fully_shard(
        model,
        mesh=mesh,
        mp_policy=MixedPrecisionPolicy(None, torch.float32, cast_forward_inputs=False),
        reshard_after_forward=False,
    )
    for part in _parts(model):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)  # or it is a product with 1, which gloo lacks
        part.set_requires_gradient_sync(False, recurse=False)
        part.set_reshard_after_backward(False, recurse=False)


@contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """Within it every process has all weights. All must enter."""
    parts = _parts(model)
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()


def sum_gradients(model: nn.Module, backend: Backend) -> None:
    """Add up the processes' gradients, and give each its shard of the sum. All must call it, within
    `whole`."""
    parts = _parts(model)
    if not parts:
        return
    for part in parts:
        part.set_requires_gradient_sync(True, recurse=False)
    backend.backward(model, _NOTHING, lambda numbers, logprobs, entropy: logprobs.sum() * 0.0)
    for part in parts:
        part.set_requires_gradient_sync(False, recurse=False)


def local(value: Tensor) -> Tensor:
    """A sharded result, such as a norm over all gradients, as a plain tensor. All must ask."""
    full_tensor = getattr(value, "full_tensor", None)
    return value if full_tensor is None else full_tensor()


def _parts(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _nothing() -> Star:
    """A star of one row without a prefix: every backend makes one backward of it."""
    zeros, first = np.zeros(1, np.float32), np.zeros(1, np.int64)
    leaf = Leaf(np.zeros(2, np.int32), first + 1, zeros, zeros, zeros, first, first)
    return Star(np.zeros(0, np.int32), (leaf,))


_NOTHING = _nothing()
