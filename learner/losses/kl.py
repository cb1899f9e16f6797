"""The k3 estimate of the KL divergence from a reference model (as in GRPO, arXiv:2402.03300).

    d = reference - logprobs
    k3 = exp(d) - 1 - d

Over tokens that the model sampled, its mean is KL(model || reference), with little variance and
never below 0. It is minimised directly, with the gradient (1 - exp(d)) grad logprobs, as other
trainers do and as AWM's coefficient of 0.001 assumes. In expectation that is the gradient of
KL(reference || model), not of the estimated divergence (arXiv:2506.09477); it still pulls towards
the reference, and it vanishes at exactly the same point.
"""

from torch import Tensor


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """The estimate for each token `[N]`, with gradient with respect to `logprobs`."""
    log_ratios = reference - logprobs
    return log_ratios.expm1() - log_ratios
