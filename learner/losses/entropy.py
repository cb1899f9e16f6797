"""A bonus for entropy, from sampled tokens alone.

The gradient of a distribution's entropy H is -E[log p grad log p] over its tokens; as the mean of
grad log p is 0, H may be added to log p, which takes most of the variance off. So

    loss = stop(logprobs + H) * logprobs

has minus the entropy's gradient in the mean, without keeping the gradients of all the vocabulary.
This holds for tokens that the model itself samples; multiplied by the mismatch's weights it holds
for the model before a batch's first update.
"""

from torch import Tensor


def entropy_losses(logprobs: Tensor, entropy: Tensor) -> Tensor:
    """The loss of each token `[N]`. Only its gradient means something; its value does not."""
    return (logprobs.detach() + entropy) * logprobs
