"""A model's own plain forward: what every back end and sampler must equal.

Only the token ids are given. Attention, positions and head are the model's own.

Shapes: T tokens of a row, N sampled tokens of all rows, V the vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

PromptAndReply = tuple[
    list[int], list[int]
]  # the tokens of a prompt, and those that were sampled after it


def plain_logits(
    model: nn.Module, rows: Sequence[Sequence[int]], *, together: bool = False
) -> list[Tensor]:
    """The logits `[T, V]` of each row. Each row is computed alone, or `together` as one batch.

    No mask hides the padding of a batch: a token does not see those after it.
    """
    device = next(model.parameters()).device
    ids = [torch.tensor(row, dtype=torch.int64, device=device) for row in rows]
    if not together:
        return [model(input_ids=row[None], use_cache=False).logits[0] for row in ids]
    padded = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=rows[0][0])
    logits = model(input_ids=padded, use_cache=False).logits
    return [of_row[: len(row)] for of_row, row in zip(logits, rows, strict=True)]


@torch.no_grad()
def plain_logprobs(
    model: nn.Module, replies: Sequence[PromptAndReply], *, together: bool = False
) -> Tensor:
    """The log-probabilities `[N]` of the sampled tokens, at temperature 1: float32, on the CPU."""
    rows = [[*prompt, *tokens] for prompt, tokens in replies]
    scores = []
    logits = plain_logits(model, rows, together=together)
    for (prompt, tokens), logits_TV in zip(replies, logits, strict=True):
        logprobs_NV = logits_TV[len(prompt) - 1 : -1].float().log_softmax(-1)
        targets_N = torch.tensor(tokens, device=logits_TV.device)
        scores.append(logprobs_NV.gather(-1, targets_N[:, None])[:, 0].cpu())
    return torch.cat(scores)
