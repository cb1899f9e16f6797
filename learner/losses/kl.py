"""The k3 estimate of the divergence from a reference model (as in GRPO, arXiv:2402.03300).

    d = reference - logprobs
    k3 = exp(d) - 1 - d

Of tokens that the model sampled its mean is KL(model || reference), with little variance and never
below 0. It is minimised as it stands, with the gradient (1 - exp(d)) grad logprobs, as the field's
trainers do and AWM's coefficient of 0.001 means. In the mean that is the gradient of
KL(reference || model), not of what is estimated (arXiv:2506.09477); it pulls towards the reference
all the same, and is exact about where it vanishes.
"""

from torch import Tensor


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """The estimate for each token `[N]`, with gradient in `logprobs`."""
    log_ratios = reference - logprobs
    return log_ratios.expm1() - log_ratios
