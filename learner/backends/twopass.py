"""The shared prefix once, and its leaves in micro-batches of bounded size.

    1. forward of the prefix: keys and values of every layer, with their graph
    2. the same numbers cut off from that graph, which gather gradients
    3. for every micro-batch of leaves: forward against these, loss, backward; the gradients of
       the weights are added up as ever, and so are those of the keys and values
    4. one backward through the prefix, from the gradients that were gathered

This is the chain rule cut at the prefix's keys and values, the only way by which a leaf depends on
the prefix; so it is exact, and the sum of the micro-batches' gradients is that of their summed
loss. In memory at one time are the activations of the prefix and of one micro-batch, and the
gradients of the prefix's keys and values.

    A group of 16 episodes of 15 steps, P = 6,000 shared tokens, turns of 433 tokens, 200 of them
    sampled, windows of 3 turns: 1,500 tokens after the prefix. As a row for each step 1,758 k
    tokens; as a star 324 k, 5.4 times fewer; where the first windows of an episode, which only
    grow, are one leaf, 294 k, 6.0 times fewer. The prefix is paid once at any micro-batch size; a
    block mask over [prefix, leaves] pays it once a micro-batch (`flex`).
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from learner.backends.attention import KeysValues, attending
from learner.backends.base import LossOf
from learner.backends.forward import Scored, leaves_pass, prefix_pass
from learner.packing.batch import Star, microbatches


class TwoPass:
    """Backend `twopass`. `max_tokens` bounds the leaves of one micro-batch; a longer leaf is one of
    its own."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    @torch.no_grad()
    def score(self, model: nn.Module, star: Star) -> Tensor:
        """See Backend."""
        with attending(model):
            shared = prefix_pass(model, star.prefix)[1] if len(star.prefix) else None
            parts = [scored.logprobs for _, scored in self._parts(model, star, shared)]
        return torch.cat(parts)

    def backward(self, model: nn.Module, star: Star, loss_of: LossOf) -> None:
        """See Backend."""
        with attending(model):
            if not len(star.prefix):
                self._leaves_backward(model, star, None, loss_of)
                return
            hidden, shared = prefix_pass(model, star.prefix)
            cut = {
                layer: (key.detach().requires_grad_(), value.detach().requires_grad_())
                for layer, (key, value) in shared.items()
            }
            self._leaves_backward(model, star, cut, loss_of)
            roots = [part for layer in shared.values() for part in layer]
            grads = [part.grad for layer in cut.values() for part in layer]
            # Nothing depends on the prefix's last hidden states. With a gradient of zero they are
            # still a root, so that FSDP2, which hooks into a model's output, sees this backward.
            torch.autograd.backward([*roots, hidden], [*grads, torch.zeros_like(hidden)])

    def _leaves_backward(
        self, model: nn.Module, star: Star, shared: KeysValues | None, loss_of: LossOf
    ) -> None:
        for numbers, scored in self._parts(model, star, shared):
            loss_of(numbers, scored.logprobs, scored.entropy).backward()  # type: ignore[no-untyped-call]

    def _parts(
        self, model: nn.Module, star: Star, shared: KeysValues | None
    ) -> Iterator[tuple[list[int], Scored]]:
        for numbers in microbatches(star.leaves, self.max_tokens):
            leaves = [star.leaves[number] for number in numbers]
            yield numbers, leaves_pass(model, leaves, start=len(star.prefix), prefix=shared)
