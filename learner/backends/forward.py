"""One forward pass of a row of tokens through the model, inside the model's own call.

Whatever wraps the model (FSDP2's hooks gather the weights before `forward` and free them after)
sees an ordinary call: `model()`. What runs within it is ours: the decoder over the row, and the
head at the places where a trained token is predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from learner.backends.attention import KeysValues, Row
from learner.backends.heads import token_scores
from learner.core.errors import ModelError
from learner.core.samples import Ids
from learner.packing.batch import Leaf

_T = TypeVar("_T")


class Packed(NamedTuple):
    """Leaves behind each other, as tensors on the model's device."""

    tokens: Tensor  # [T] int64
    positions: Tensor  # [T] int64
    trained: Tensor  # [N] int64, places in `tokens`
    lengths: list[int]  # of the leaves


class Scored(NamedTuple):
    """What a pass over leaves gives."""

    logprobs: Tensor  # [N] of the trained tokens, leaf by leaf, with gradient
    entropy: Tensor  # [N], without


def packed(leaves: Sequence[Leaf], *, start: int, device: torch.device) -> Packed:
    """Leaves that each begin at position `start`, behind each other.

    Example: leaves [7, 8] and [9, 7, 8], both trained at [1], start 4 ->
        tokens 7 8 9 7 8, positions 4 5 4 5 6, trained 1 3, lengths 2 3
    """
    lengths = [len(leaf.tokens) for leaf in leaves]
    firsts = np.cumsum([0, *lengths[:-1]])
    tokens = np.concatenate([leaf.tokens for leaf in leaves])
    positions = np.concatenate([np.arange(start, start + length) for length in lengths])
    trained = [first + leaf.trained for first, leaf in zip(firsts, leaves, strict=True)]

    def tensor(values: NDArray[np.integer[Any]]) -> Tensor:
        return torch.from_numpy(values).to(device, torch.int64)

    return Packed(tensor(tokens), tensor(positions), tensor(np.concatenate(trained)), lengths)


def prefix_pass(model: nn.Module, prefix: Ids) -> tuple[Tensor, KeysValues]:
    """The last hidden states `[1, P, D]` of a prefix, and its keys and values by layer."""
    row = Row([len(prefix)], keeps=True)
    device = device_of(model)
    tokens = torch.from_numpy(prefix).to(device, torch.int64)
    positions = torch.arange(len(prefix), device=device)
    hidden = called(model, lambda: hidden_states(model, tokens, positions, row=row))
    _check_used(model, row)
    return hidden, row.kept


def leaves_pass(
    model: nn.Module, leaves: Sequence[Leaf], *, start: int, prefix: KeysValues | None
) -> Scored:
    """The leaves of one micro-batch as one row; each begins at position `start` and sees the
    prefix whose keys and values are given."""
    pack = packed(leaves, start=start, device=device_of(model))
    row = Row(pack.lengths, prefix=prefix)
    scored = called(model, lambda: _scored(model, pack, row=row))
    _check_used(model, row)
    return scored


def _check_used(model: nn.Module, row: Row) -> None:
    if not row.used:
        raise ModelError(
            f"{type(model).__name__} does not take its attention from transformers'"
            " AttentionInterface: use the backend 'naive'"
        )


def _scored(model: nn.Module, pack: Packed, **how: Any) -> Scored:
    hidden_1TD = hidden_states(model, pack.tokens, pack.positions, **how)
    head: nn.Linear = model.get_output_embeddings()  # type: ignore[operator]
    hidden_ND = hidden_1TD[0, pack.trained - 1]
    return Scored(*token_scores(head, hidden_ND, pack.tokens[pack.trained]))


def star_pass(model: nn.Module, prefix: Ids, leaves: Sequence[Leaf], **how: Any) -> Scored:
    """Prefix and leaves as one row; `how` tells the attention who sees whom."""
    device = device_of(model)
    pack = packed(leaves, start=len(prefix), device=device)
    before = torch.from_numpy(prefix).to(device, torch.int64)
    positions = torch.arange(len(prefix), device=device)
    whole = Packed(
        torch.cat((before, pack.tokens)),
        torch.cat((positions, pack.positions)),
        pack.trained + len(prefix),
        pack.lengths,
    )
    return called(model, lambda: _scored(model, whole, **how))


def hidden_states(model: nn.Module, tokens_T: Tensor, positions_T: Tensor, **how: Any) -> Tensor:
    """The decoder's last hidden states `[1, T, D]`; `how` reaches the attention function."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
    done = decoder(input_ids=tokens_T[None], position_ids=positions_T[None], use_cache=False, **how)
    hidden: Tensor = done.last_hidden_state
    return hidden


def device_of(model: nn.Module) -> torch.device:
    """Where the model's weights are."""
    return next(model.parameters()).device


def called(model: nn.Module, forward: Callable[[], _T]) -> _T:
    """What `forward` gives when it runs as the model's own forward."""
    with _as_forward(model, forward):
        done: _T = model()
    return done


@contextmanager
def _as_forward(model: nn.Module, forward: Callable[[], Any]) -> Iterator[None]:
    # An attribute of the object is found before that of its class.
    before = model.__dict__.get("forward")
    model.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del model.__dict__["forward"]
        else:
            model.__dict__["forward"] = before
