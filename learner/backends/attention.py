"""Make a transformers model compute the attention of a prefix group.

transformers passes the queries, keys and values of each layer to the function that is registered
under the name in `config._attn_implementation`. For a name that it does not know it builds no mask,
and it passes on all other arguments of the model's call: here a `RowContext`, which has the lengths
of the suffixes and their prefix's keys and values, or records those of a prefix.

Shapes: N tokens of the row, P of the prefix, H heads, G heads of keys and values, D their size.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface

from rehearsal_room.learner.backends.attention_form import as_wide_as, form_of
from rehearsal_room.learner.backends.masked_attention import attend_masked
from rehearsal_room.learner.backends.suffix_attention import attend_by_suffix, attend_merged
from rehearsal_room.learner.core.errors import ModelError

NAME = "rehearsal_prefix_group"
KeysValues = Mapping[int, tuple[Tensor, Tensor]]  # by layer, after rotation: [1, G, P, D] each


class RowContext:
    """What the attention function must know about a row: the lengths of its suffixes, and their
    prefix's keys and values.

    With `records`, the row's own keys and values are recorded by layer. They belong to the row's
    graph, also under gradient checkpointing: the second forward of a layer records nothing. `calls`
    counts the attentions that were computed here: a layer that mixes tokens in another way would
    let suffixes see each other without any error.
    """

    __slots__ = ("calls", "lengths", "longest", "prefix", "recorded", "records")

    def __init__(
        self, lengths: Sequence[int], *, prefix: KeysValues | None = None, records: bool = False
    ) -> None:
        self.lengths = tuple(lengths)
        self.prefix = prefix or {}
        # Tokens that the last token of the longest suffix can look back on, itself included.
        shared = next((key.shape[2] for key, _ in self.prefix.values()), 0)
        self.longest = shared + max(self.lengths)
        self.records = records
        self.recorded: dict[int, tuple[Tensor, Tensor]] = {}
        self.calls = 0


def attend(
    module: nn.Module,
    query_1HND: Tensor,
    key_1GND: Tensor,
    value_1GND: Tensor,
    attention_mask: Tensor | None,
    *,
    row: RowContext | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls: the row's attention `[1, N, H, D]`, and no weights.

    Raises ModelError for attention that is not computed here, see `form_of`.
    """
    if row is None:
        raise ModelError(f"{type(module).__name__} is not given the arguments of the model's call")
    form = form_of(module, query_1HND, attention_mask, arguments)
    layer: int = module.layer_idx  # type: ignore[assignment]
    row.calls += 1
    width = value_1GND.shape[3]
    value_1GND = as_wide_as(key_1GND, value_1GND)
    # Under autocast the normalised queries and keys arrive as float32, the values as bfloat16.
    query_1HND, key_1GND = query_1HND.to(value_1GND.dtype), key_1GND.to(value_1GND.dtype)
    if row.records and layer not in row.recorded:
        row.recorded[layer] = (key_1GND, value_1GND)
    prefix = row.prefix.get(layer)
    own = (query_1HND, key_1GND, value_1GND)
    if not form.is_plain(row.longest):
        out_1HND = attend_masked(own, prefix, row.lengths, form)
    elif query_1HND.device.type == "cpu":
        out_1HND = attend_merged(own, prefix, row.lengths, form.scaling)
    else:
        out_1HND = attend_by_suffix(own, prefix, row.lengths, form.scaling)
    return out_1HND[..., :width].transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


@contextmanager
def use_attention(model: nn.Module, name: str = NAME) -> Iterator[None]:
    """In this block the model computes attention with the function of that name, in forward and
    backward."""
    config: Any = model.config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
