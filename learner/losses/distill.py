"""On-policy distillation: the model samples, and a teacher says how likely each token was.

    loss = -r stop(reference - old),    r = exp(logprobs - old)

The reference model is the teacher. Over tokens that the model samples, the mean gradient is that of
KL(model || teacher) (GKD, arXiv:2306.13649; as a policy gradient with one reward per token: Lu,
Thinking Machines 2025). The episodes' rewards play no part, so every group teaches something, also
where nobody succeeds.
"""

from torch import Tensor

from rehearsal_room.learner.losses.base import Measures, TokenBatch
from rehearsal_room.learner.losses.metrics import sum_and_count


class Distill:
    """Pulls the model towards the teacher on the model's own tokens."""

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        if tokens.reference is None:
            raise ValueError("loss 'distill' needs the reference model's log-probabilities")
        apart = (tokens.reference - tokens.old).detach()
        ratios = (tokens.logprobs - tokens.old).exp()
        # Its mean over sampled tokens estimates KL(model || teacher); single ones may be below 0.
        return -ratios * apart, {"teacher_kl": sum_and_count(-apart)}
