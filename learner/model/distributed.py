"""Several processes that train one model: torchrun starts them, FSDP2 shards the model.

Weights, gradients and the optimiser's state are sharded by `fully_shard` (arXiv:2304.11277): each
decoder layer separately, the rest together. The number of passes that a process makes over the
model depends on its prefix groups: a prefix, micro-batches of suffixes, the prefix again. If
weights were gathered in each pass, processes with different work would wait for each other forever.
Therefore the communication is the same for any work:

    1. all weights are gathered and kept                                       (`gathered_weights`)
    2. each process computes its prefix groups; gradients add up locally, and nothing is sent
    3. one backward of a loss of zero, in which FSDP2 sends the summed gradients  (`sum_gradients`)

Each process then holds all weights and gradients, but only a share of the optimiser's state and,
under bfloat16, of the float32 weights. Gradients are summed, never averaged: the denominators are
those of the whole batch.
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

from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.backends.forward import layer_list
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.model.pretrained import device_of
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix

_T = TypeVar("_T")
# The other processes wait for process 0 while it collects episodes. This long a wait never happens
# after a crash: a process that dies closes its connections, and torchrun ends the rest.
_TIMEOUT = timedelta(days=7)
# Gloo's threads report a collective as done before they release its tensors, for which they need
# the interpreter. If the process ends at once, they find an interpreter that is shutting down, and
# torch aborts (seen in every second run). There is no way to wait for them.
_TEARDOWN_S = 0.5


class Processes(NamedTuple):
    """The processes that train together, and the rank of this one."""

    rank: int = 0
    size: int = 1

    def gather(self, value: _T) -> list[_T]:
        """The values of all processes, by rank. All processes must call it."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: _T) -> _T:
        """The value of process 0, in every process. All processes must call it."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]


SINGLE_PROCESS = Processes()


@contextmanager
def join_processes(compute: ComputeSettings) -> Iterator[Processes]:
    """Join the processes that torchrun started; without torchrun, this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield SINGLE_PROCESS
        return
    backend = "gloo"
    if device_of(compute).type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"  # Python objects go through gloo, weights through NCCL
    dist.init_process_group(backend, timeout=_TIMEOUT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
        time.sleep(_TEARDOWN_S)


def shard(model: PreTrainedModel, processes: Processes, compute: ComputeSettings) -> None:
    """Shard a model over the processes, in place. With one process it does nothing.

    Under bfloat16, layers are gathered in bfloat16: autocast would round them anyway, as it does in
    one process (only the norms' scales are rounded here alone). Embeddings and head stay in
    float32.
    """
    if processes.size == 1:
        return
    mesh = init_device_mesh(model.device.type, (processes.size,))
    low = torch.bfloat16 if compute.dtype == "bfloat16" else None
    of_layers = MixedPrecisionPolicy(low, torch.float32, cast_forward_inputs=False)
    for layer in layer_list(model):
        fully_shard(layer, mesh=mesh, mp_policy=of_layers, reshard_after_forward=False)
    fully_shard(
        model,
        mesh=mesh,
        mp_policy=MixedPrecisionPolicy(None, torch.float32, cast_forward_inputs=False),
        reshard_after_forward=False,
    )
    for part in _parts(model):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)  # else FSDP2 premultiplies, which gloo lacks
        part.set_requires_gradient_sync(False, recurse=False)
        part.set_reshard_after_backward(False, recurse=False)


@contextmanager
def gathered_weights(model: nn.Module) -> Iterator[None]:
    """In this block every process has all weights. All processes must enter it."""
    parts = _parts(model)
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()


def sum_gradients(model: nn.Module, backend: Backend) -> None:
    """Add up the gradients of all processes; each process gets its shard of the sum. All processes
    must call it, inside `gathered_weights`."""
    parts = _parts(model)
    if not parts:
        return
    for part in parts:
        part.set_requires_gradient_sync(True, recurse=False)
    backend.backward(model, _EMPTY_GROUP, lambda numbers, logprobs, entropy: logprobs.sum() * 0.0)
    for part in parts:
        part.set_requires_gradient_sync(False, recurse=False)


def local(value: Tensor) -> Tensor:
    """A sharded result, such as a norm over all gradients, as a plain tensor. All processes must
    call it."""
    full_tensor = getattr(value, "full_tensor", None)
    return value if full_tensor is None else full_tensor()


def _parts(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _empty_group() -> PrefixGroup:
    """A prefix group of one row and no prefix: every backend makes one backward for it."""
    zeros, first = np.zeros(1, np.float32), np.zeros(1, np.int64)
    suffix = Suffix(np.zeros(2, np.int32), first + 1, zeros, zeros, zeros, first, first)
    return PrefixGroup(np.zeros(0, np.int32), (suffix,))


_EMPTY_GROUP = _empty_group()
