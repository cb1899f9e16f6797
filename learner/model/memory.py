"""How much memory a training run needs, said before its first batch.

    weights       4 bytes each: models are opened in float32
    trained       per trained weight 12 bytes more: its gradient and AdamW's two moments
    reference     the weights of the reference model, if the loss needs one
    rows          what a micro-batch keeps for its backward: a fixed part (under bfloat16 the cast
                  weights) and a part per token
    logits        of the trained tokens that are computed at once: three arrays of float32

The parts of `rows` are measured, not derived: the model computes two short rows, and the bytes that
autograd keeps are counted. Attention keeps nothing that grows with the square of a row. With
gradient checkpointing the layer that is computed again comes on top.

The peak is lower where batches have fewer tokens than `compute.max_tokens`, and higher by what is
not counted: temporary arrays (a sixth, measured), Python, torch, the run's worlds, a sampler in
this process, and on Linux the C library's heap, which keeps what it cannot give back (docs/lora.md)
"""

import msgspec
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from rehearsal_room.learner.backends.forward import device_of
from rehearsal_room.learner.backends.heads import MAX_LOGITS
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.losses.registry import needs_reference
from rehearsal_room.learner.model.optimizer import trainable

_SHORT, _LONG = 32, 96  # tokens of the rows that are measured
_MB, _GB = 1e6, 1e9


class MemoryNeed(msgspec.Struct, frozen=True):
    """Bytes that one process needs for training, by what they are for."""

    weights: int
    trained: int
    reference: int
    row_fixed: int
    row_per_token: int
    max_tokens: int  # suffix tokens of a micro-batch
    logits: int

    @property
    def rows(self) -> int:
        """Of a micro-batch of `max_tokens`; a shared prefix has its own tokens besides."""
        return self.row_fixed + self.row_per_token * self.max_tokens

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.trained + self.reference + self.rows + self.logits

    def __str__(self) -> str:
        """For people: the total, and its parts."""
        parts = {
            "weights": self.weights,
            "gradients and optimizer": self.trained,
            "reference model": self.reference,
            f"a micro-batch of {self.max_tokens:,} tokens": self.rows,
            "logits": self.logits,
        }
        listed = ", ".join(f"{name} {size_of(count)}" for name, count in parts.items() if count)
        return f"{size_of(self.total)}: {listed}; {size_of(self.row_per_token)} a token"


def memory_need(model: nn.Module, settings: TrainSettings) -> MemoryNeed:
    """The need of a model that is ready for training; to be computed before sharding."""
    weights = sum(weight.numel() for weight in model.parameters())
    trained = sum(weight.numel() for weight in trainable(model))
    short, long = (_kept_bytes(model, length) for length in (_SHORT, _LONG))
    per_token = max(0, long - short) // (_LONG - _SHORT)
    compute = settings.compute
    vocab = _vocabulary(model)
    chunk = min(compute.max_tokens, max(1, MAX_LOGITS // vocab))
    return MemoryNeed(
        weights=4 * weights,
        trained=12 * trained,
        reference=4 * weights if needs_reference(settings.loss) else 0,
        row_fixed=max(0, short - per_token * _SHORT),
        row_per_token=per_token,
        max_tokens=compute.max_tokens,
        logits=3 * 4 * chunk * vocab,
    )


def size_of(count: int) -> str:
    """A number of bytes for people.

    Example: 1_234_567_890 -> "1.23 GB", 5_600_000 -> "5.6 MB"
    """
    if count >= _GB:
        return f"{count / _GB:.2f} GB"
    return f"{count / _MB:.1f} MB" if count >= _MB else f"{count / 1e3:.0f} kB"


def _vocabulary(model: nn.Module) -> int:
    table: nn.Module = model.get_output_embeddings()  # type: ignore[operator]
    weight: Tensor = table.weight  # type: ignore[assignment]
    return weight.shape[0]


def _kept_bytes(model: nn.Module, length: int) -> int:
    """The bytes that autograd keeps for the backward of a row, without the model's weights."""
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = torch.zeros((1, length), dtype=torch.int64, device=device_of(model))
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        done = model(input_ids=tokens, use_cache=False, logits_to_keep=1)
    del done
    return sum(kept.values())
