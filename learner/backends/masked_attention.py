"""The attention of a row of suffixes where it is more than a softmax over all earlier tokens:
sliding windows, soft caps, sinks.

A window may end within the prefix. A suffix is computed in blocks of queries, each with the keys
that it can see and a mask over them, and computed again in the backward, so no scores are stored.

Shapes: L tokens of a suffix, P of the prefix, H heads, G heads of keys and values, D their size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rehearsal_room.learner.backends.attention_form import AttentionForm, attend_explicitly
from rehearsal_room.learner.backends.suffix_attention import Own, suffix_parts

BLOCK = 256  # queries that are computed at once


def attend_masked(
    own: Own, prefix: tuple[Tensor, Tensor] | None, lengths: Sequence[int], form: AttentionForm
) -> Tensor:
    """The row's attention `[1, H, N, D]`, suffix by suffix."""
    shared = _visible(prefix, own, form)
    outs = [
        checkpoint(_attend_one_suffix, *suffix, *shared, form, use_reentrant=False)
        for suffix in suffix_parts(own, lengths)
    ]
    return torch.cat(outs, 2)


def _visible(
    prefix: tuple[Tensor, Tensor] | None, own: Own, form: AttentionForm
) -> tuple[Tensor, Tensor]:
    """The part of the prefix that a suffix's first token sees; the later ones see less of it."""
    if prefix is None:
        return own[1][:, :, :0], own[2][:, :, :0]
    num = prefix[0].shape[2]
    first = 0 if form.window is None else max(0, num - form.window + 1)
    return prefix[0][:, :, first:], prefix[1][:, :, first:]


def _attend_one_suffix(
    query_1HLD: Tensor,
    key_1GLD: Tensor,
    value_1GLD: Tensor,
    prefix_key_1GPD: Tensor,
    prefix_value_1GPD: Tensor,
    form: AttentionForm,
) -> Tensor:
    before = prefix_key_1GPD.shape[2]
    key = torch.cat((prefix_key_1GPD, key_1GLD), 2)
    value = torch.cat((prefix_value_1GPD, value_1GLD), 2)
    groups = query_1HLD.shape[1] // key.shape[1]
    outs = []
    for start in range(0, query_1HLD.shape[2], BLOCK):
        query = query_1HLD[:, :, start : start + BLOCK]
        end = before + start + query.shape[2]
        first = 0 if form.window is None else max(0, before + start - form.window + 1)
        seen = sees(end - query.shape[2], end, first, form.window, key.device)
        keys, values = (part[:, :, first:end].repeat_interleave(groups, 1) for part in (key, value))
        outs.append(attend_explicitly(query, keys, values, form, seen))
    return torch.cat(outs, 2)


def sees(start: int, end: int, first: int, window: int | None, device: torch.device) -> Tensor:
    """Whether the tokens `start` to `end` see the tokens `first` to `end`: bool
    `[end - start, end - first]`. Each sees itself and what is before it, within the window.

    Example: start 2, end 4, first 1, window 2 -> [[True, True, False], [False, True, True]]
    """
    queries = torch.arange(start, end, device=device)[:, None]
    keys = torch.arange(first, end, device=device)
    seen = keys <= queries
    return seen if window is None else seen & (keys > queries - window)
