"""Prefix and suffixes as one row under a block mask (FlexAttention, arXiv:2412.05496), on a GPU.

The row is [prefix, suffix, suffix, …]; a token sees the prefix and the earlier tokens of its own
suffix. The mask is stored by blocks of 128 x 128, empty blocks are not computed, and positions in
every suffix count from the end of the prefix. A row has as many suffixes as fit into the
micro-batch, and the prefix is computed once per row: with 6,000 tokens of prefix, suffixes of 1,500
and 16,384 tokens in a micro-batch, that is 408 k tokens against 294 k of `twopass`. In return there
is no second pass; which of the two is faster depends on the device.

On a CPU torch computes it unfused and without a backward: it can only score.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from transformers import AttentionInterface

from rehearsal_room.learner.backends.attention import use_attention
from rehearsal_room.learner.backends.attention_form import as_wide_as, form_of
from rehearsal_room.learner.backends.base import LossOf
from rehearsal_room.learner.backends.forward import ScoredTokens, device_of, joint_pass
from rehearsal_room.learner.core.errors import ConfigError, ModelError
from rehearsal_room.learner.packing.batch import PrefixGroup, microbatches

NAME = "rehearsal_flex"
Kernel = Callable[[Tensor, Tensor, Tensor, BlockMask, float], Tensor]


class Flex:
    """Backend `flex`. `max_tokens` bounds the suffix tokens of one row; a longer suffix gets a row
    alone. `kernel` computes attention under a mask; None: FlexAttention."""

    def __init__(self, max_tokens: int, kernel: Kernel | None = None) -> None:
        self.max_tokens = max_tokens
        self._kernel = kernel or _fused

    @torch.no_grad()
    def score(self, model: nn.Module, prefix_group: PrefixGroup) -> Tensor:
        """See Backend."""
        kernel = _unfused if device_of(model).type == "cpu" else self._kernel
        with use_attention(model, NAME):
            return torch.cat(
                [done.logprobs for _, done in self._parts(model, prefix_group, kernel)]
            )

    def backward(self, model: nn.Module, prefix_group: PrefixGroup, loss_of: LossOf) -> None:
        """See Backend. Raises ConfigError on a CPU."""
        if device_of(model).type == "cpu" and self._kernel is _fused:
            raise ConfigError(
                "compute.backend = 'flex' needs a GPU: on a CPU FlexAttention has no backward;"
                " use 'twopass'"
            )
        with use_attention(model, NAME):
            for numbers, done in self._parts(model, prefix_group, self._kernel):
                loss_of(numbers, done.logprobs, done.entropy).backward()  # type: ignore[no-untyped-call]

    def _parts(
        self, model: nn.Module, prefix_group: PrefixGroup, kernel: Kernel
    ) -> Iterator[tuple[list[int], ScoredTokens]]:
        for numbers in microbatches(prefix_group.suffixes, self.max_tokens):
            suffixes = [prefix_group.suffixes[number] for number in numbers]
            lengths = [len(suffix.tokens) for suffix in suffixes]
            mask = prefix_group_mask(len(prefix_group.prefix), lengths, device_of(model))
            yield (
                numbers,
                joint_pass(model, prefix_group.prefix, suffixes, block_mask=mask, kernel=kernel),
            )


def prefix_group_mask(prefix: int, lengths: Sequence[int], device: torch.device) -> BlockMask:
    """The mask of a row that has a prefix and suffixes of these lengths."""
    owners = torch.arange(len(lengths) + 1, device=device)
    counts = torch.tensor([prefix, *lengths], device=device)
    owner = owners.repeat_interleave(counts)  # [T]: 0 in the prefix, else the suffix's number

    def sees(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        shared = (owner[key] == 0) | (owner[key] == owner[query])
        return (query >= key) & shared

    length = prefix + sum(lengths)
    # Compiled, the mask is reduced to blocks while it is made; otherwise it is made in full first.
    return create_block_mask(
        sees, None, None, length, length, device, _compile=device.type != "cpu"
    )


def attend(
    module: nn.Module,
    query_1HTD: Tensor,
    key_1GTD: Tensor,
    value_1GTD: Tensor,
    attention_mask: Tensor | None,
    *,
    block_mask: BlockMask,
    kernel: Kernel,
    longest: int,
    calls: list[int],
    **arguments: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls: attention `[1, T, H, D]` under the mask, no weights.

    Raises ModelError for soft caps, sinks and a window that is shorter than the row.
    """
    form = form_of(module, query_1HTD, attention_mask, arguments)
    if not form.is_plain(longest):
        raise ModelError(
            "backend 'flex' does not compute soft caps, sinks or sliding windows:"
            " set compute.backend = 'twopass'"
        )
    calls.append(1)
    width = value_1GTD.shape[3]
    value_1GTD = as_wide_as(key_1GTD, value_1GTD)
    # Under autocast the normalised queries and keys arrive as float32, the values as bfloat16.
    query_1HTD, key_1GTD = query_1HTD.to(value_1GTD.dtype), key_1GTD.to(value_1GTD.dtype)
    out_1HTD = kernel(query_1HTD, key_1GTD, value_1GTD, block_mask, form.scaling)
    return out_1HTD[..., :width].transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


@cache
def _compiled() -> Callable[..., Tensor]:
    """FlexAttention as one kernel. Compiled on first use: torch's compiler takes seconds to
    import."""
    return torch.compile(flex_attention)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scaling: float) -> Tensor:
    out: Tensor = _compiled()(query, key, value, block_mask=mask, scale=scaling, enable_gqa=True)
    return out


def _unfused(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scaling: float) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        out: Tensor = flex_attention(
            query, key, value, block_mask=mask, scale=scaling, enable_gqa=True
        )
    return out
