"""One row at a time through the unmodified model: the reference that the other backends must equal.

It shares no code with them: it uses the model's own forward, its stock attention, positions from 0,
and torch's `log_softmax`.
"""

import torch
from torch import Tensor, nn

from rehearsal_room.learner.backends.base import LossOf
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix
from rehearsal_room.learner.packing.rows import rows_of


class Naive:
    """Backend `naive`."""

    @torch.no_grad()
    def score(self, model: nn.Module, prefix_group: PrefixGroup) -> Tensor:
        """See Backend."""
        return torch.cat([_scores(model, row)[0] for row in rows_of(prefix_group).suffixes])

    def backward(self, model: nn.Module, prefix_group: PrefixGroup, loss_of: LossOf) -> None:
        """See Backend."""
        for number, row in enumerate(rows_of(prefix_group).suffixes):
            loss_of([number], *_scores(model, row)).backward()  # type: ignore[no-untyped-call]


def _scores(model: nn.Module, row: Suffix) -> tuple[Tensor, Tensor]:
    """Log-probabilities `[N]` of the row's trained tokens, and entropies `[N]` without gradient."""
    device = next(model.parameters()).device
    tokens_T = torch.from_numpy(row.tokens).to(device).long()
    trained_N = torch.from_numpy(row.trained).to(device)
    done = model(input_ids=tokens_T[None], use_cache=False, logits_to_keep=trained_N - 1)
    logits_NV = done.logits[0]
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    logprobs_NV = logits_NV.log_softmax(-1)
    entropy_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1).detach()
    return logprobs_NV.gather(-1, tokens_T[trained_N][:, None])[:, 0], entropy_N
