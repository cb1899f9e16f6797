"""An entropy bonus, computed from the sampled tokens alone.

The gradient of a distribution's entropy H is -E[log p grad log p] over its tokens. The mean of
grad log p is 0, so H may be added to log p, which removes most of the variance. Therefore

    loss = stop(logprobs + H) * logprobs

has, in expectation, minus the entropy's gradient, without storing gradients for the whole
vocabulary. This holds for tokens that the model itself sampled; multiplied by the mismatch weights,
it holds for the model before a batch's first update.
"""

from torch import Tensor


def entropy_losses(logprobs: Tensor, entropy: Tensor) -> Tensor:
    """The loss of each token `[N]`. Only its gradient has a meaning; its value has none."""
    return (logprobs.detach() + entropy) * logprobs
