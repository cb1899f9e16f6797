"""The shared prefix once, and its suffixes in micro-batches of bounded size.

    1. forward of the prefix: keys and values of every layer, with their graph
    2. the same numbers, detached from that graph; they collect gradients
    3. for every micro-batch of suffixes: forward against these, loss, backward; the gradients of
       the weights add up as usual, and so do those of the keys and values
    4. one backward through the prefix, from the collected gradients

This is the chain rule cut at the prefix's keys and values. A suffix depends on the prefix only
through these, so the result is exact: the sum of the micro-batches' gradients is the gradient of
their summed loss. The memory at any time holds the activations of the prefix and of one
micro-batch, and the gradients of the prefix's keys and values.

    Example: a group of 16 episodes of 15 steps, P = 6,000 shared tokens, turns of 433 tokens, 200
    of them sampled, windows of 3 turns: 1,500 tokens after the prefix. With one row per step, 1,758
    k tokens are computed; as a prefix group 324 k, 5.4 times fewer; with the first windows of an
    episode, which only grow, as one suffix, 294 k, 6.0 times fewer. The prefix is computed once,
    for any size of micro-batches; a block mask over [prefix, suffixes] computes it once per
    micro-batch (`flex`).
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from rehearsal_room.learner.backends.attention import KeysValues, use_attention
from rehearsal_room.learner.backends.base import LossOf
from rehearsal_room.learner.backends.forward import ScoredTokens, prefix_pass, suffix_pass
from rehearsal_room.learner.packing.batch import PrefixGroup, microbatches


class TwoPass:
    """Backend `twopass`. `max_tokens` bounds the suffixes of one micro-batch; a longer suffix gets
    a micro-batch alone."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    @torch.no_grad()
    def score(self, model: nn.Module, prefix_group: PrefixGroup) -> Tensor:
        """See Backend."""
        with use_attention(model):
            shared = (
                prefix_pass(model, prefix_group.prefix)[1] if len(prefix_group.prefix) else None
            )
            parts = [scored.logprobs for _, scored in self._parts(model, prefix_group, shared)]
        return torch.cat(parts)

    def backward(self, model: nn.Module, prefix_group: PrefixGroup, loss_of: LossOf) -> None:
        """See Backend."""
        with use_attention(model):
            if not len(prefix_group.prefix):
                self._suffixes_backward(model, prefix_group, None, loss_of)
                return
            hidden, shared = prefix_pass(model, prefix_group.prefix)
            detached = {
                layer: (key.detach().requires_grad_(), value.detach().requires_grad_())
                for layer, (key, value) in shared.items()
            }
            self._suffixes_backward(model, prefix_group, detached, loss_of)
            roots = [part for layer in shared.values() for part in layer]
            grads = [part.grad for layer in detached.values() for part in layer]
            # Nothing depends on the prefix's last hidden states. They are roots of the backward
            # with a gradient of zero, so that FSDP2, which hooks into a model's output, sees it.
            ends = [*zip(roots, grads, strict=True), (hidden, torch.zeros_like(hidden))]
            ends = [(root, grad) for root, grad in ends if root.requires_grad]  # above an adapter
            torch.autograd.backward([root for root, _ in ends], [grad for _, grad in ends])

    def _suffixes_backward(
        self,
        model: nn.Module,
        prefix_group: PrefixGroup,
        shared: KeysValues | None,
        loss_of: LossOf,
    ) -> None:
        for numbers, scored in self._parts(model, prefix_group, shared):
            loss_of(numbers, scored.logprobs, scored.entropy).backward()  # type: ignore[no-untyped-call]

    def _parts(
        self, model: nn.Module, prefix_group: PrefixGroup, shared: KeysValues | None
    ) -> Iterator[tuple[list[int], ScoredTokens]]:
        for numbers in microbatches(prefix_group.suffixes, self.max_tokens):
            suffixes = [prefix_group.suffixes[number] for number in numbers]
            yield (
                numbers,
                suffix_pass(model, suffixes, start=len(prefix_group.prefix), prefix=shared),
            )
