"""Prefix and leaves as one row under a block mask (FlexAttention, arXiv:2412.05496), on a GPU.

The row is [prefix, leaf, leaf, …]; a token sees what stands before it in its own leaf and in the
prefix. The mask is kept by blocks of 128 x 128, those that are empty are not computed, and
positions count from the prefix's end in every leaf. A row has as many leaves as fit the
micro-batch, and the prefix is computed once a row: with 6,000 tokens of prefix, leaves of 1,500 and
16,384 tokens in a micro-batch 408 k tokens for the 294 k of `twopass`. What is saved instead is the
second pass; which of them is faster depends on the device.

On a CPU torch computes it without a backward and unfused: scores only.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from transformers import AttentionInterface

from learner.backends.attention import attending
from learner.backends.base import LossOf
from learner.backends.forward import Scored, device_of, star_pass
from learner.core.errors import ConfigError
from learner.packing.batch import Star, microbatches

NAME = "rehearsal_flex"
Kernel = Callable[[Tensor, Tensor, Tensor, BlockMask, float], Tensor]


class Flex:
    """Backend `flex`. `max_tokens` bounds the leaves of one row; a longer leaf has its own.
    `kernel` computes attention under a mask; None: FlexAttention."""

    def __init__(self, max_tokens: int, kernel: Kernel | None = None) -> None:
        self.max_tokens = max_tokens
        self._kernel = kernel or _fused

    @torch.no_grad()
    def score(self, model: nn.Module, star: Star) -> Tensor:
        """See Backend."""
        kernel = _unfused if device_of(model).type == "cpu" else self._kernel
        with attending(model, NAME):
            return torch.cat([done.logprobs for _, done in self._parts(model, star, kernel)])

    def backward(self, model: nn.Module, star: Star, loss_of: LossOf) -> None:
        """See Backend. Raises ConfigError on a CPU."""
        if device_of(model).type == "cpu" and self._kernel is _fused:
            raise ConfigError(
                "compute.backend = 'flex' needs a GPU: on a CPU FlexAttention has no backward;"
                " use 'twopass'"
            )
        with attending(model, NAME):
            for numbers, done in self._parts(model, star, self._kernel):
                loss_of(numbers, done.logprobs, done.entropy).backward()  # type: ignore[no-untyped-call]

    def _parts(
        self, model: nn.Module, star: Star, kernel: Kernel
    ) -> Iterator[tuple[list[int], Scored]]:
        for numbers in microbatches(star.leaves, self.max_tokens):
            leaves = [star.leaves[number] for number in numbers]
            lengths = [len(leaf.tokens) for leaf in leaves]
            mask = star_mask(len(star.prefix), lengths, device_of(model))
            yield (
                numbers,
                star_pass(model, star.prefix, leaves, block_mask=mask, kernel=kernel),
            )


def star_mask(prefix: int, lengths: Sequence[int], device: torch.device) -> BlockMask:
    """Who sees whom in a row of a prefix and leaves of these lengths."""
    owners = torch.arange(len(lengths) + 1, device=device)
    counts = torch.tensor([prefix, *lengths], device=device)
    owner = owners.repeat_interleave(counts)  # [T]: 0 of the prefix, then the leaf's number

    def sees(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        shared = (owner[key] == 0) | (owner[key] == owner[query])
        return (query >= key) & shared

    length = prefix + sum(lengths)
    # Compiled, the mask is reduced to blocks as it is made; else it is made whole first.
    return create_block_mask(
        sees, None, None, length, length, device, _compile=device.type != "cpu"
    )


def attend(
    _module: nn.Module,
    query_1HTD: Tensor,
    key_1GTD: Tensor,
    value_1GTD: Tensor,
    attention_mask: Tensor | None,
    *,
    block_mask: BlockMask,
    kernel: Kernel,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: attention `[1, T, H, D]` under the mask, and no weights."""
    # Under autocast the normalised queries and keys come as float32, the values as bfloat16.
    query_1HTD, key_1GTD = query_1HTD.to(value_1GTD.dtype), key_1GTD.to(value_1GTD.dtype)
    out_1HTD = kernel(query_1HTD, key_1GTD, value_1GTD, block_mask, scaling)
    return out_1HTD.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


@cache
def _compiled() -> Callable[..., Tensor]:
    """FlexAttention as one kernel; torch's compiler takes seconds to import, so not before."""
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
