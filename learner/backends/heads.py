"""Log-probabilities of tokens from hidden states, in bounded memory.

The head is applied only at the trained tokens: perhaps 200 tokens of a suffix of 1,500. With a
vocabulary of V, the float32 logits of N such tokens take 4 * N * V bytes (N = 16,384 and V =
151,936: 10 GB), and their gradient takes as much again. Therefore the logits are computed in
chunks; with more than one chunk, a chunk's logits are dropped after the forward and computed again
in the backward.

Shapes: N trained tokens, D the hidden size, V the vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_LOGITS = 1 << 26  # in one chunk: 256 MiB in float32


Head = Callable[[Tensor], Tensor]  # from hidden states [N, D] to logits [N, V]


def token_scores(
    head: Head, hidden_ND: Tensor, targets_N: Tensor, *, vocab: int, max_logits: int = MAX_LOGITS
) -> tuple[Tensor, Tensor]:
    """Log-probabilities `[N]` of the targets, and entropies `[N]` of the distributions that predict
    them, at temperature 1, in float32 or better; the entropies without gradient."""
    rows = max(1, max_logits // vocab)
    if len(targets_N) <= rows:
        return _scores(head, hidden_ND, targets_N)
    chunks = [
        checkpoint(_scores, head, *chunk, use_reentrant=False, preserve_rng_state=False)
        for chunk in zip(torch.split(hidden_ND, rows), torch.split(targets_N, rows), strict=True)
    ]
    logprobs, entropies = zip(*chunks, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _scores(head: Head, hidden_ND: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor]:
    logits_NV = head(hidden_ND)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    total_N = logits_NV.logsumexp(-1)
    logprobs_N = logits_NV.gather(-1, targets_N[:, None])[:, 0] - total_N
    with torch.no_grad():
        mean_N = ((logits_NV - total_N[:, None]).exp() * logits_NV).sum(-1)
    return logprobs_N, total_N.detach() - mean_N
