"""One forward pass of a row of tokens through the model, inside an ordinary call of the model.

Code that wraps the model (FSDP2's hooks gather the weights before `forward` and free them after)
sees an ordinary call: `model()`. Inside the call this module's functions run: the decoder over the
row, and the head at the positions that predict a trained token.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from learner.backends.attention import KeysValues, RowContext
from learner.backends.heads import token_scores
from learner.core.errors import ModelError
from learner.core.samples import Ids
from learner.packing.batch import Suffix

_T = TypeVar("_T")


class PackedSuffixes(NamedTuple):
    """Concatenated suffixes, as tensors on the model's device."""

    tokens: Tensor  # [T] int64
    positions: Tensor  # [T] int64
    trained: Tensor  # [N] int64, indices into `tokens`
    lengths: list[int]  # of the suffixes


class ScoredTokens(NamedTuple):
    """The result of a pass over suffixes."""

    logprobs: Tensor  # [N], of the trained tokens, suffix by suffix, with gradient
    entropy: Tensor  # [N], without gradient


def pack(suffixes: Sequence[Suffix], *, start: int, device: torch.device) -> PackedSuffixes:
    """Concatenate suffixes; the positions of each one start at `start`.

    Example: suffixes [7, 8] and [9, 7, 8], both trained at [1], start 4 ->
        tokens 7 8 9 7 8, positions 4 5 4 5 6, trained 1 3, lengths 2 3
    """
    lengths = [len(suffix.tokens) for suffix in suffixes]
    firsts = np.cumsum([0, *lengths[:-1]])
    tokens = np.concatenate([suffix.tokens for suffix in suffixes])
    positions = np.concatenate([np.arange(start, start + length) for length in lengths])
    trained = [first + suffix.trained for first, suffix in zip(firsts, suffixes, strict=True)]

    def tensor(values: NDArray[np.integer[Any]]) -> Tensor:
        return torch.from_numpy(values).to(device, torch.int64)

    return PackedSuffixes(
        tensor(tokens), tensor(positions), tensor(np.concatenate(trained)), lengths
    )


def prefix_pass(model: nn.Module, prefix: Ids) -> tuple[Tensor, KeysValues]:
    """The last hidden states `[1, P, D]` of a prefix, and its keys and values by layer."""
    row = RowContext([len(prefix)], records=True)
    device = device_of(model)
    tokens = torch.from_numpy(prefix).to(device, torch.int64)
    positions = torch.arange(len(prefix), device=device)
    hidden = call_as_forward(model, lambda: hidden_states(model, tokens, positions, row=row))
    _check_used(model, row)
    return hidden, row.recorded


def suffix_pass(
    model: nn.Module, suffixes: Sequence[Suffix], *, start: int, prefix: KeysValues | None
) -> ScoredTokens:
    """One pass over the suffixes of a micro-batch. Their positions start at `start`, and each one
    sees the prefix with these keys and values."""
    packed = pack(suffixes, start=start, device=device_of(model))
    row = RowContext(packed.lengths, prefix=prefix)
    scored = call_as_forward(model, lambda: _scored(model, packed, row=row))
    _check_used(model, row)
    return scored


def _check_used(model: nn.Module, row: RowContext) -> None:
    if not row.used:
        raise ModelError(
            f"{type(model).__name__} does not use transformers' AttentionInterface for its"
            " attention: set compute.backend = 'naive'"
        )


def _scored(model: nn.Module, packed: PackedSuffixes, **how: Any) -> ScoredTokens:
    hidden_1TD = hidden_states(model, packed.tokens, packed.positions, **how)
    head: nn.Linear = model.get_output_embeddings()  # type: ignore[operator]
    hidden_ND = hidden_1TD[0, packed.trained - 1]
    return ScoredTokens(*token_scores(head, hidden_ND, packed.tokens[packed.trained]))


def joint_pass(
    model: nn.Module, prefix: Ids, suffixes: Sequence[Suffix], **how: Any
) -> ScoredTokens:
    """One pass over prefix and suffixes as one row; `how` is passed on to the attention function
    and has its mask."""
    device = device_of(model)
    packed = pack(suffixes, start=len(prefix), device=device)
    before = torch.from_numpy(prefix).to(device, torch.int64)
    positions = torch.arange(len(prefix), device=device)
    whole = PackedSuffixes(
        torch.cat((before, packed.tokens)),
        torch.cat((positions, packed.positions)),
        packed.trained + len(prefix),
        packed.lengths,
    )
    return call_as_forward(model, lambda: _scored(model, whole, **how))


def hidden_states(model: nn.Module, tokens_T: Tensor, positions_T: Tensor, **how: Any) -> Tensor:
    """The decoder's last hidden states `[1, T, D]`; `how` goes to the attention function."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
    done = decoder(input_ids=tokens_T[None], position_ids=positions_T[None], use_cache=False, **how)
    hidden: Tensor = done.last_hidden_state
    return hidden


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's weights."""
    return next(model.parameters()).device


def call_as_forward(model: nn.Module, forward: Callable[[], _T]) -> _T:
    """Call the model with `forward` in place of its own forward; returns the result."""
    with _as_forward(model, forward):
        done: _T = model()
    return done


@contextmanager
def _as_forward(model: nn.Module, forward: Callable[[], Any]) -> Iterator[None]:
    # Python finds an attribute of the object before that of its class.
    before = model.__dict__.get("forward")
    model.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del model.__dict__["forward"]
        else:
            model.__dict__["forward"] = before
