"""The attention of a row of leaves: each sees a shared prefix and, causally, itself.

A row holds the tokens of several leaves behind each other, without padding. A leaf must not see its
neighbours. Instead of a mask over the whole row, which would be dense and almost empty, a leaf's
attention is computed in two parts, and these are put together by their log-sum-exp (l):

    to the prefix: all tokens of the row at once, no mask     -> o1, l1
    to itself:     leaf by leaf, causal                       -> o2, l2
    l = log(exp(l1) + exp(l2)),   o = exp(l1 - l) o1 + exp(l2 - l) o2

This is the softmax over both, since each part is normalised by its own l. A flash kernel's backward
recomputes exp(scores - l) from l and takes o only through the sum of o * do; given the joined l and
o, the backward of either part gives its share of the joined gradient (ring attention,
arXiv:2310.01889). So the prefix is read once per row, however many leaves the row has, and nothing
is copied. The kernels are torch's own for CPU, in float64, float32 and bfloat16. Elsewhere each
leaf is one call of `scaled_dot_product_attention` with the prefix put before its keys.

transformers hands the model's queries, keys and values to whatever function is registered under the
name in `config._attn_implementation`, and builds no mask for a name that it does not know.

Shapes: N tokens of the row, P of the prefix, H heads, G heads of keys and values, D their size.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

from learner.errors import ModelError

NAME = "rehearsal_star"
KeysValues = Mapping[int, tuple[Tensor, Tensor]]  # by layer, after rotation: [1, G, P, D] each


class Row:
    """What the attention is told of a row: how long its leaves are, and what their prefix gave.

    With `keeps`, the keys and values of the row are kept by layer: those of the row's own graph,
    also under gradient checkpointing, whose second forward of a layer keeps nothing. `used` tells
    that a model did come here: one that has its own attention would mix up the leaves in silence.
    """

    __slots__ = ("keeps", "kept", "lengths", "prefix", "used")

    def __init__(
        self, lengths: Sequence[int], *, prefix: KeysValues | None = None, keeps: bool = False
    ) -> None:
        self.lengths = tuple(lengths)
        self.prefix = prefix or {}
        self.keeps = keeps
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.used = False


def attend(
    module: nn.Module,
    query_1HND: Tensor,
    key_1GND: Tensor,
    value_1GND: Tensor,
    attention_mask: Tensor | None,
    *,
    row: Row,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: the row's attention `[1, N, H, D]`, and no weights.

    Raises ModelError for a model whose attention drops tokens out or slides.
    """
    if dropout or sliding_window or attention_mask is not None:
        raise ModelError("a model with attention dropout or a sliding window cannot be trained")
    row.used = True
    layer: int = module.layer_idx  # type: ignore[assignment]
    # Under autocast the normalised queries and keys come as float32, the values as bfloat16.
    query_1HND, key_1GND = query_1HND.to(value_1GND.dtype), key_1GND.to(value_1GND.dtype)
    if row.keeps and layer not in row.kept:
        row.kept[layer] = (key_1GND, value_1GND)
    prefix = row.prefix.get(layer)
    own = (query_1HND, key_1GND, value_1GND)
    if query_1HND.device.type == "cpu":
        out_1HND = joined(own, prefix, row.lengths, scaling)
    else:
        out_1HND = by_leaf(own, prefix, row.lengths, scaling)
    return out_1HND.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


@contextmanager
def attending(model: nn.Module, name: str = NAME) -> Iterator[None]:
    """Within it the model computes attention by the function of that name, backward included."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


Own = tuple[Tensor, Tensor, Tensor]  # queries [1, H, N, D], keys and values [1, G, N, D]


def by_leaf(
    own: Own, prefix: tuple[Tensor, Tensor] | None, lengths: Sequence[int], scaling: float
) -> Tensor:
    """The row's attention `[1, H, N, D]` with torch's public function, one call a leaf.

    Each leaf's call is made again in the backward: what it would keep until then is the prefix's
    keys and values, once for each leaf.
    """
    shared = prefix or (own[1][:, :, :0], own[2][:, :, :0])
    outs = [
        checkpoint(_one_leaf, *leaf, *shared, scaling, use_reentrant=False)
        for leaf in _by_leaf(own, lengths)
    ]
    return torch.cat(outs, 2)


def _one_leaf(
    query_1HLD: Tensor,
    key_1GLD: Tensor,
    value_1GLD: Tensor,
    prefix_key_1GPD: Tensor,
    prefix_value_1GPD: Tensor,
    scaling: float,
) -> Tensor:
    groups = query_1HLD.shape[1] // key_1GLD.shape[1]
    # Repeated, since with enable_gqa and a mask only the kernel that holds all scores is left.
    key = torch.cat((prefix_key_1GPD, key_1GLD), 2).repeat_interleave(groups, 1)
    value = torch.cat((prefix_value_1GPD, value_1GLD), 2).repeat_interleave(groups, 1)
    if not prefix_key_1GPD.shape[2]:
        return scaled_dot_product_attention(query_1HLD, key, value, is_causal=True, scale=scaling)
    sees = torch.ones(query_1HLD.shape[2], key.shape[2], dtype=torch.bool, device=key.device)
    sees = sees.tril(prefix_key_1GPD.shape[2])
    return scaled_dot_product_attention(query_1HLD, key, value, attn_mask=sees, scale=scaling)


def joined(
    own: Own, prefix: tuple[Tensor, Tensor] | None, lengths: Sequence[int], scaling: float
) -> Tensor:
    """The row's attention `[1, H, N, D]` on a CPU, in two parts."""
    shared = prefix or (None, None)
    out: Tensor = _Joined.apply(*own, *shared, tuple(lengths), scaling)  # type: ignore[no-untyped-call]
    return out


def _by_leaf(parts: Sequence[Tensor], lengths: Sequence[int]) -> Iterator[tuple[Tensor, ...]]:
    """For every leaf its stretch of each part; the row's tokens are in dimension 2."""
    return zip(*(torch.split(part, list(lengths), dim=2) for part in parts), strict=True)


_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _Joined(torch.autograd.Function):
    """The row's attention in two parts, as the module's docstring has it."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor | None,
        prefix_value: Tensor | None,
        lengths: tuple[int, ...],
        scaling: float,
    ) -> Tensor:
        leaves = _by_leaf((query, key, value), lengths)
        done = [_forward(*leaf, 0.0, True, scale=scaling) for leaf in leaves]
        out = torch.cat([out for out, _ in done], 2)  # [1, H, N, D]
        lse = torch.cat([lse for _, lse in done], 2)  # [1, H, N]
        if prefix_key is not None:
            shared, shared_lse = _forward(
                query, prefix_key, prefix_value, 0.0, False, scale=scaling
            )
            both = torch.logaddexp(lse, shared_lse)
            out = _weighted(out, lse - both) + _weighted(shared, shared_lse - both)
            lse = both
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value, out, lse)
        ctx.lengths, ctx.scaling = lengths, scaling
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value, out, lse = ctx.saved_tensors
        split = [part.split(ctx.lengths, dim=2) for part in (grad, query, key, value, out, lse)]
        done = [_backward(*leaf, 0.0, True, scale=ctx.scaling) for leaf in zip(*split, strict=True)]
        d_query, d_key, d_value = (torch.cat(parts, 2) for parts in zip(*done, strict=True))
        if prefix_key is None:
            return d_query, d_key, d_value, None, None, None, None
        shared, d_prefix_key, d_prefix_value = _backward(
            grad, query, prefix_key, prefix_value, out, lse, 0.0, False, scale=ctx.scaling
        )
        return d_query + shared, d_key, d_value, d_prefix_key, d_prefix_value, None, None


def _weighted(out_1HND: Tensor, log_share_1HN: Tensor) -> Tensor:
    return out_1HND * log_share_1HN.exp().to(out_1HND.dtype)[..., None]
