"""What a layer's attention computes beyond softmax(q k) v, read from the arguments of the model.

transformers passes the particulars of a family as keyword arguments to the attention function: the
sliding window of Mistral, the soft caps of Gemma 2, the sinks of gpt-oss. An argument that is not
known here is refused. To ignore it would be a wrong result without any error.

Shapes: H heads, K keys.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from rehearsal_room.learner.core.errors import ModelError

# Arguments that do not change the result: positions are in the queries and keys already.
_HARMLESS = frozenset({"position_ids", "cache_position", "use_cache", "output_router_logits"})


class AttentionForm(NamedTuple):
    """The attention of a layer.

    score = scaling * q k;  softcap: score = softcap * tanh(score / softcap)
    A token sees itself and the `window` - 1 tokens before it. A sink is a score without a value.
    """

    scaling: float
    window: int | None = None  # None: every earlier token is seen
    softcap: float | None = None
    sinks: Tensor | None = None  # [H]

    def is_plain(self, num_tokens: int) -> bool:
        """Whether the attention of that many tokens is softmax(scaling * q k) v, causally."""
        sees_all = self.window is None or num_tokens <= self.window
        return sees_all and self.softcap is None and self.sinks is None


def form_of(
    module: nn.Module, query: Tensor, attention_mask: Tensor | None, arguments: Mapping[str, Any]
) -> AttentionForm:
    """The attention of a layer, from the arguments with which the model calls it for these queries
    `[…, D]`.

    Raises ModelError for dropout, a mask that the model made itself, attention that is not causal,
    and every argument that is not known here.
    """
    rest = dict(arguments)
    scaling = rest.pop("scaling", None)
    form = AttentionForm(
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        window=rest.pop("sliding_window", None) or None,
        softcap=rest.pop("softcap", None) or None,
        sinks=rest.pop("s_aux", None),
    )
    if rest.pop("dropout", 0.0):
        raise ModelError("models with attention dropout cannot be trained: set it to 0")
    if attention_mask is not None:
        raise ModelError(f"{_name(module)} makes an attention mask of its own")
    causal = rest.pop("is_causal", None)
    if causal is False or (causal is None and not getattr(module, "is_causal", True)):
        raise ModelError(f"{_name(module)} is not causal")
    unknown = sorted(
        name
        for name, value in rest.items()
        if name not in _HARMLESS and value is not None and value is not False
    )
    if unknown:
        raise ModelError(
            f"{_name(module)} computes its attention with {', '.join(map(repr, unknown))}, which"
            " is not known here"
        )
    return form


def attend_explicitly(
    query: Tensor, key: Tensor, value: Tensor, form: AttentionForm, seen: Tensor
) -> Tensor:
    """The attention `[B, H, L, D]` of queries `[B, H, L, D]` to keys and values `[B, H, K, D]`.

    `seen` bool, expandable to `[B, H, L, K]`: which keys a query sees. Stores all scores if the
    form has a soft cap or sinks.
    """
    if form.softcap is None and form.sinks is None:
        return scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=form.scaling)
    scores = (query @ key.transpose(-1, -2)).to(torch.promote_types(query.dtype, torch.float32))
    scores = capped(scores * form.scaling, form.softcap).masked_fill(~seen, float("-inf"))
    if form.sinks is None:
        return scores.softmax(-1).to(value.dtype) @ value
    return softmax_beside_sinks(scores, form.sinks[:, None, None]).to(value.dtype) @ value


def capped(scores: Tensor, softcap: float | None) -> Tensor:
    """The scores, bounded smoothly by the soft cap (Gemma 2, arXiv:2408.00118)."""
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def softmax_beside_sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    """The softmax over the scores `[…, K]` and a sink `[…, 1]` (arXiv:2309.17453), without the
    sink's share: the rows' sums are below 1."""
    column = sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)
    return torch.cat((scores, column), -1).softmax(-1)[..., :-1]


def as_wide_as(key: Tensor, value: Tensor) -> Tensor:
    """The values with zeros behind them, as wide as the keys: kernels want equal widths, and the
    values of multi-head latent attention (DeepSeek) are narrower than its keys."""
    missing = key.shape[-1] - value.shape[-1]
    return pad(value, (0, missing)) if missing > 0 else value


def _name(module: nn.Module) -> str:
    return type(module).__name__
