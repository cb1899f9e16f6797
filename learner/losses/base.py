"""What a policy loss is: the trained tokens of one micro-batch in, their losses out.

Shapes: N trained tokens, in the order of their leaves; all float tensors have the model's loss
precision (float32, or float64 in tests) and the model's device.
"""

from typing import NamedTuple, Protocol

from torch import Tensor


class TokenBatch(NamedTuple):
    """The trained tokens of one micro-batch."""

    logprobs: Tensor  # [N], of the model that is trained, with gradient
    old: Tensor  # [N], those that ratios are taken against: the trainer's before the batch's
    # first update
    sampler: Tensor  # [N], those with which the tokens were sampled
    advantages: Tensor  # [N]
    weights: Tensor  # [N], the loss is sum(weights * losses); global denominators are in them
    steps: Tensor  # [N] int64, the number of each token's sample in the batch
    episodes: Tensor  # [N] int64, of its episode
    entropy: Tensor  # [N], of the distribution that predicted it, without gradient
    reference: Tensor | None = None  # [N], of the reference model; None: there is none
    episode_log_ratios: Tensor | None = None  # [N], for gspo over episodes, without gradient: the
    # mean of logprobs - old over all tokens of the episode at the update's start; None: not needed


# What was measured: name -> (sum, count), to be added up over micro-batches and processes and
# divided at the end (learner.losses.metrics).
Measures = dict[str, tuple[Tensor, Tensor]]


class PolicyLoss(Protocol):
    """A policy gradient loss."""

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        """The loss of each token `[N]`, not yet weighted, and what was measured (detached)."""
