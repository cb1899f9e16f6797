"""The interface of policy losses: the trained tokens of one micro-batch in, their losses out.

Shapes: N trained tokens, in the order of their suffixes. All float tensors are on the model's
device and have the precision of the loss (float32, or float64 in tests).
"""

from typing import NamedTuple, Protocol

from torch import Tensor


class TokenBatch(NamedTuple):
    """The trained tokens of one micro-batch."""

    logprobs: Tensor  # [N], from the model that is trained, with gradient
    old: Tensor  # [N], the denominators of the ratios: from the trainer's model before the batch's
    # first update
    sampler: Tensor  # [N], as the sampler reported them
    advantages: Tensor  # [N]
    weights: Tensor  # [N], the loss is sum(weights * losses); they include global denominators
    steps: Tensor  # [N] int64, the number of each token's sample in the batch
    episodes: Tensor  # [N] int64, the number of its episode in the batch
    entropy: Tensor  # [N], of the distribution that predicted the token, without gradient
    reference: Tensor | None = None  # [N], from the reference model; None: no reference model
    episode_log_ratios: Tensor | None = None  # [N], without gradient, for gspo over episodes: the
    # mean of logprobs - old over the episode's tokens at the start of the update; None: unused
    episode_mismatch: Tensor | None = None  # [N], without gradient, for mismatch "episode": the sum
    # of old - sampler over the episode's tokens; None: unused
    episode_mismatch_mean: Tensor | None = None  # [N], the same for `reject` "episode": the mean


# Measurements: name -> (sum, count). They are added up over micro-batches and processes, and
# divided at the end (learner.losses.metrics).
Measures = dict[str, tuple[Tensor, Tensor]]


class PolicyLoss(Protocol):
    """A policy gradient loss."""

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        """The unweighted loss of each token `[N]`, and the measurements (detached)."""
