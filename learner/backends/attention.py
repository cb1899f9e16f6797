"""How a transformers model is made to compute the attention of a star.

transformers hands the queries, keys and values of each layer to whatever function is registered
under the name in `config._attn_implementation`, builds no mask for a name that it does not know,
and passes on what else the model was called with: here a `Row`, which says where the leaves end,
gives them their prefix and keeps the keys and values of a prefix.

Shapes: N tokens of the row, P of the prefix, H heads, G heads of keys and values, D their size.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface

from learner.backends.suffix_attention import by_leaf, joined
from learner.core.errors import ModelError

NAME = "rehearsal_star"
KeysValues = Mapping[int, tuple[Tensor, Tensor]]  # by layer, after rotation: [1, G, P, D] each


class Row:
    """What the attention is told of a row: how long its leaves are, and what their prefix gave.

    With `keeps`, the keys and values of the row are kept by layer: those of the row's own graph,
    also under gradient checkpointing, whose second forward of a layer keeps nothing. `used` tells
    that a model did come here: one that has its own attention would mix up the leaves in silence.
    """

    __slots__ = ("keeps", "kept", "lengths", "prefix", "used")

    def __init__(
        self, lengths: Sequence[int], *, prefix: KeysValues | None = None, keeps: bool = False
    ) -> None:
        self.lengths = tuple(lengths)
        self.prefix = prefix or {}
        self.keeps = keeps
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.used = False


def attend(
    module: nn.Module,
    query_1HND: Tensor,
    key_1GND: Tensor,
    value_1GND: Tensor,
    attention_mask: Tensor | None,
    *,
    row: Row,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: the row's attention `[1, N, H, D]`, and no weights.

    Raises ModelError for a model whose attention drops tokens out or slides.
    """
    if dropout or sliding_window or attention_mask is not None:
        raise ModelError("a model with attention dropout or a sliding window cannot be trained")
    row.used = True
    layer: int = module.layer_idx  # type: ignore[assignment]
    # Under autocast the normalised queries and keys come as float32, the values as bfloat16.
    query_1HND, key_1GND = query_1HND.to(value_1GND.dtype), key_1GND.to(value_1GND.dtype)
    if row.keeps and layer not in row.kept:
        row.kept[layer] = (key_1GND, value_1GND)
    prefix = row.prefix.get(layer)
    own = (query_1HND, key_1GND, value_1GND)
    if query_1HND.device.type == "cpu":
        out_1HND = joined(own, prefix, row.lengths, scaling)
    else:
        out_1HND = by_leaf(own, prefix, row.lengths, scaling)
    return out_1HND.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


@contextmanager
def attending(model: nn.Module, name: str = NAME) -> Iterator[None]:
    """Within it the model computes attention by the function of that name, backward included."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
