"""Attention of an engine's requests: each sees its own slot of the key-value cache.

transformers passes the model's queries, keys and values to the function that is registered under
the name in `config._attn_implementation`. So every architecture that gets its attention that way
can be sampled from, with its own forward.

Sliding windows, soft caps and sinks are computed as in
`rehearsal_room.learner.backends.attention_form`. The keys and values of tokens outside of a window
stay in their slots.

Shapes: R requests, T new tokens in total, S slots, H heads, G heads of keys and values, D their
size, C the capacity of a slot in tokens, L tokens that are attended to.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from rehearsal_room.learner.backends.attention_form import (
    AttentionForm,
    as_wide_as,
    attend_explicitly,
    capped,
    form_of,
    softmax_beside_sinks,
)
from rehearsal_room.learner.backends.masked_attention import sees
from rehearsal_room.learner.core.errors import ModelError

NAME = "rehearsal_slots"
_GROWTH = 256  # tokens; the capacity of slots is a multiple of this


class KeyValueSlots:
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

    __slots__ = ("calls", "device", "lengths", "masks", "slots", "starts", "store")

    def __init__(
        self,
        store: KeyValueSlots,
        slots: Sequence[int],
        starts: Sequence[int],
        lengths: Sequence[int],
        device: torch.device,
    ) -> None:
        self.store = store
        self.slots = slots
        self.starts = starts
        self.lengths = list(lengths)
        self.device = device
        self.masks: dict[tuple[int, int | None], Tensor] = {}  # by request and window
        self.calls = 0  # attentions that were computed

    def attend(
        self,
        layer: int,
        query_1HTD: Tensor,
        key_1GTD: Tensor,
        value_1GTD: Tensor,
        form: AttentionForm,
    ) -> Tensor:
        """The attention of the new tokens `[1, H, T, D]`; their keys and values are stored."""
        self.calls += 1
        keys, values = self.store.of_layer(layer, key_1GTD)
        parts = [torch.split(x, self.lengths, dim=2) for x in (query_1HTD, key_1GTD, value_1GTD)]
        groups = query_1HTD.shape[1] // key_1GTD.shape[1]
        outs = []
        for index, (query, key, value) in enumerate(zip(*parts, strict=True)):
            slot, start = self.slots[index], self.starts[index]
            end = start + self.lengths[index]
            keys[slot, :, start:end] = key[0]
            values[slot, :, start:end] = value[0]
            key = keys[slot : slot + 1, :, :end].repeat_interleave(groups, 1)
            value = values[slot : slot + 1, :, :end].repeat_interleave(groups, 1)
            if start == 0 and form.is_plain(end):
                out = scaled_dot_product_attention(
                    query, key, value, is_causal=True, scale=form.scaling
                )
            else:
                seen = self._mask(index, None if form.is_plain(end) else form.window)
                out = attend_explicitly(query, key, value, form, seen)
            outs.append(out)
        return torch.cat(outs, 2)

    def _mask(self, index: int, window: int | None) -> Tensor:
        """The earlier tokens that each new token of a request sees: `[T, L]` bool."""
        if (index, window) not in self.masks:
            start, length = self.starts[index], self.lengths[index]
            self.masks[index, window] = sees(start, start + length, 0, window, self.device)
        return self.masks[index, window]


class Decode:
    """One new token for each of slots 0 to R - 1, after the slot's tokens."""

    __slots__ = ("calls", "length", "masks", "positions", "rows", "store")

    def __init__(self, store: KeyValueSlots, lengths_R: Tensor, longest: int) -> None:
        """`lengths_R` has the number of tokens of each slot, int64; `longest` is the largest."""
        self.store = store
        self.positions = lengths_R
        self.rows = torch.arange(len(lengths_R), device=lengths_R.device)
        self.length = longest + 1
        self.masks: dict[int | None, Tensor] = {}  # by window
        self.calls = 0  # attentions that were computed

    def attend(
        self,
        layer: int,
        query_RH1D: Tensor,
        key_RG1D: Tensor,
        value_RG1D: Tensor,
        form: AttentionForm,
    ) -> Tensor:
        """The attention of the new tokens `[R, H, 1, D]`; their keys and values are stored."""
        self.calls += 1
        keys, values = self.store.of_layer(layer, key_RG1D)
        keys[self.rows, :, self.positions] = key_RG1D[:, :, 0]
        values[self.rows, :, self.positions] = value_RG1D[:, :, 0]
        num, heads, _, size = query_RH1D.shape
        keys, values = keys[:num, :, : self.length], values[:num, :, : self.length]
        # The heads that share keys become rows of one product, so that keys are read once.
        query = query_RH1D.view(num, keys.shape[1], -1, size)
        if form.is_plain(self.length):
            mask = self._mask(None).to(query.dtype)
            out = scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, scale=form.scaling
            )
        else:
            out = self._attend_explicitly(query, keys, values, form)
        return out.reshape(num, heads, 1, size)

    def _attend_explicitly(
        self, query_RGND: Tensor, keys: Tensor, values: Tensor, form: AttentionForm
    ) -> Tensor:
        seen = self._mask(None if form.is_plain(self.length) else form.window)
        scores = (query_RGND @ keys.transpose(-1, -2)).float() * form.scaling
        scores = capped(scores, form.softcap) + seen
        if form.sinks is None:
            return scores.softmax(-1).to(values.dtype) @ values
        sinks_GN1 = form.sinks.view(query_RGND.shape[1], -1, 1)
        return softmax_beside_sinks(scores, sinks_GN1).to(values.dtype) @ values

    def _mask(self, window: int | None) -> Tensor:
        """What is added to the scores of each slot's tokens `[R, 1, 1, L]`: 0, or -inf for those
        that the slot's new token does not see."""
        if window not in self.masks:
            tokens = torch.arange(self.length, device=self.positions.device)
            unseen = tokens > self.positions[:, None]
            if window is not None:
                unseen |= tokens <= self.positions[:, None] - window
            mask = torch.zeros(unseen.shape, device=unseen.device)
            self.masks[window] = mask.masked_fill_(unseen, float("-inf"))[:, None, None]
        return self.masks[window]


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    plan: Prefill | Decode | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls: the attention, with heads as the second-last dimension,
    and no weights.

    Raises ModelError for attention that is not computed here, see `form_of`.
    """
    if plan is None:
        raise ModelError(f"{type(module).__name__} is not given the arguments of the model's call")
    form = form_of(module, query, attention_mask, arguments)
    layer: int = module.layer_idx  # type: ignore[assignment]
    width = value.shape[3]
    value = as_wide_as(key, value)
    # Under autocast the normalised queries and keys arrive as float32, the values as bfloat16.
    out = plan.attend(layer, query.to(value.dtype), key.to(value.dtype), value, form)
    return out[..., :width].transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)
