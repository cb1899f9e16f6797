"""Attention of an engine's requests: each sees its own slot of the key-value cache.

transformers passes the model's queries, keys and values to the function that is registered under
the name in `config._attn_implementation`. So every architecture that gets its attention that way
can be sampled from, with its own forward.

Shapes: R requests, T new tokens in total, S slots, H heads, G heads of keys and values, D their
size, C the capacity of a slot in tokens, L tokens that are attended to.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from learner.core.errors import ModelError

NAME = "rehearsal_slots"
_GROWTH = 256  # tokens; the capacity of slots is a multiple of this


class Slots:
    """Keys and values of the live requests, one slot each, by layer `[S, G, C, D]`.

    Slots 0 to R - 1 are in use, so the requests of one step are contiguous in memory.
    """

    def __init__(self) -> None:
        self.num_slots = 0
        self.capacity = 0  # tokens of a slot
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def reserve(self, num_slots: int, num_tokens: int) -> None:
        """Make room for this many slots of this many tokens."""
        if num_slots <= self.num_slots and num_tokens <= self.capacity:
            return
        # Grown well beyond the need, so that copying stays rare.
        if num_slots > self.num_slots:
            self.num_slots = max(num_slots, 2 * self.num_slots)
        if num_tokens > self.capacity:
            self.capacity = -(-(num_tokens + num_tokens // 4) // _GROWTH) * _GROWTH
        self.keys = [self._grown(tensor) for tensor in self.keys]
        self.values = [self._grown(tensor) for tensor in self.values]

    def _grown(self, tensor: Tensor) -> Tensor:
        slots, groups, tokens, size = tensor.shape
        grown = tensor.new_zeros((self.num_slots, groups, self.capacity, size))
        grown[:slots, :, :tokens] = tensor
        return grown

    def of_layer(self, layer: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's keys and values. They are allocated on first use, with the type and device of
        `like` `[_, G, _, D]`."""
        while len(self.keys) <= layer:
            shape = (self.num_slots, like.shape[1], self.capacity, like.shape[3])
            self.keys.append(like.new_zeros(shape))
            self.values.append(like.new_zeros(shape))
        return self.keys[layer], self.values[layer]

    def read(self, slot: int, num_tokens: int) -> Tensor:
        """A copy of a slot's first tokens: `[layers, 2, G, num_tokens, D]`."""
        parts = [
            torch.stack((keys[slot, :, :num_tokens], values[slot, :, :num_tokens]))
            for keys, values in zip(self.keys, self.values, strict=True)
        ]
        return torch.stack(parts)

    def write(self, slot: int, stored: Tensor, num_tokens: int) -> None:
        """Write the first tokens of a copy that `read` made into a slot."""
        for layer, (keys, values) in enumerate(stored):
            of_keys, of_values = self.of_layer(layer, keys[None])
            of_keys[slot, :, :num_tokens] = keys[:, :num_tokens]
            of_values[slot, :, :num_tokens] = values[:, :num_tokens]

    def copy(self, source: int, slot: int, num_tokens: int) -> None:
        """Copy the first tokens of one slot into another."""
        for tensors in (self.keys, self.values):
            for tensor in tensors:
                tensor[slot, :, :num_tokens] = tensor[source, :, :num_tokens]


class Prefill:
    """Concatenated new tokens of several requests: `lengths[i]` of them are appended to slot
    `slots[i]`, after its `starts[i]` tokens."""

    __slots__ = ("lengths", "masks", "slots", "starts", "store")

    def __init__(
        self,
        store: Slots,
        slots: Sequence[int],
        starts: Sequence[int],
        lengths: Sequence[int],
        device: torch.device,
    ) -> None:
        self.store = store
        self.slots = slots
        self.starts = starts
        self.lengths = list(lengths)
        self.masks = [
            None if start == 0 else _causal_mask(start, length, device)
            for start, length in zip(starts, lengths, strict=True)
        ]

    def attend(
        self, layer: int, query_1HTD: Tensor, key_1GTD: Tensor, value_1GTD: Tensor, scaling: float
    ) -> Tensor:
        """The attention of the new tokens `[1, H, T, D]`; their keys and values are stored."""
        keys, values = self.store.of_layer(layer, key_1GTD)
        parts = [torch.split(x, self.lengths, dim=2) for x in (query_1HTD, key_1GTD, value_1GTD)]
        groups = query_1HTD.shape[1] // key_1GTD.shape[1]
        outs = []
        for index, (query, key, value) in enumerate(zip(*parts, strict=True)):
            slot, start = self.slots[index], self.starts[index]
            end = start + self.lengths[index]
            keys[slot, :, start:end] = key[0]
            values[slot, :, start:end] = value[0]
            mask = self.masks[index]
            outs.append(
                scaled_dot_product_attention(
                    query,
                    keys[slot : slot + 1, :, :end].repeat_interleave(groups, 1),
                    values[slot : slot + 1, :, :end].repeat_interleave(groups, 1),
                    attn_mask=mask,
                    is_causal=mask is None,
                    scale=scaling,
                )
            )
        return torch.cat(outs, 2)


class Decode:
    """One new token for each of slots 0 to R - 1, after the slot's tokens."""

    __slots__ = ("length", "mask", "positions", "rows", "store")

    def __init__(self, store: Slots, lengths_R: Tensor, longest: int) -> None:
        """`lengths_R` has the number of tokens of each slot, int64; `longest` is the largest."""
        device = lengths_R.device
        self.store = store
        self.positions = lengths_R
        self.rows = torch.arange(len(lengths_R), device=device)
        self.length = longest + 1
        unseen = torch.arange(self.length, device=device) > lengths_R[:, None]
        mask = torch.zeros(unseen.shape, device=device)
        self.mask = mask.masked_fill_(unseen, float("-inf"))[:, None, None]  # [R, 1, 1, L]

    def attend(
        self, layer: int, query_RH1D: Tensor, key_RG1D: Tensor, value_RG1D: Tensor, scaling: float
    ) -> Tensor:
        """The attention of the new tokens `[R, H, 1, D]`; their keys and values are stored."""
        keys, values = self.store.of_layer(layer, key_RG1D)
        keys[self.rows, :, self.positions] = key_RG1D[:, :, 0]
        values[self.rows, :, self.positions] = value_RG1D[:, :, 0]
        num, heads, _, size = query_RH1D.shape
        # The heads that share keys become rows of one product, so that keys are read once.
        query = query_RH1D.view(num, keys.shape[1], -1, size)
        out = scaled_dot_product_attention(
            query,
            keys[:num, :, : self.length],
            values[:num, :, : self.length],
            attn_mask=self.mask.to(query.dtype),
            scale=scaling,
        )
        return out.reshape(num, heads, 1, size)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    plan: Prefill | Decode,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls: the attention, with heads as the second-last dimension,
    and no weights.

    Raises ModelError for a model with a sliding window.
    """
    if sliding_window or attention_mask is not None:
        raise ModelError("models with a sliding window cannot be sampled in process")
    layer: int = module.layer_idx  # type: ignore[assignment]
    # Under autocast the normalised queries and keys arrive as float32, the values as bfloat16.
    out = plan.attend(layer, query.to(value.dtype), key.to(value.dtype), value, scaling)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


def _causal_mask(start: int, length: int, device: torch.device) -> Tensor:
    """The mask by which each of the last `length` of `start + length` tokens sees itself and the
    tokens before it: `[length, start + length]` bool."""
    return torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)
