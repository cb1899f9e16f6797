"""One forward pass of a row of tokens through the model, inside an ordinary call of the model.

Code that wraps the model (FSDP2's hooks gather the weights before `forward` and free them after)
sees an ordinary call: `model()`. Inside the call this module's functions run: the decoder over the
row, and the head at the positions that predict a trained token. The head is the model's own forward
with the decoder's output given, so that what a family does to its logits (scaling, soft caps) is
done by its own code.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rehearsal_room.learner.backends.attention import KeysValues, RowContext
from rehearsal_room.learner.backends.heads import token_scores
from rehearsal_room.learner.backends.rope_limit import check_length
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.core.samples import Ids
from rehearsal_room.learner.packing.batch import Suffix

_T = TypeVar("_T")
Forward = Callable[..., Any]  # of a model


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
    check_length(model, len(prefix))
    row = RowContext([len(prefix)], records=True)
    device = device_of(model)
    tokens = torch.from_numpy(prefix).to(device, torch.int64)
    positions = torch.arange(len(prefix), device=device)
    done = call_as_forward(model, lambda _: _decoded(model, tokens, positions, row=row))
    _check_calls(model, row.calls)
    return done.last_hidden_state, row.recorded


def suffix_pass(
    model: nn.Module, suffixes: Sequence[Suffix], *, start: int, prefix: KeysValues | None
) -> ScoredTokens:
    """One pass over the suffixes of a micro-batch. Their positions start at `start`, and each one
    sees the prefix with these keys and values."""
    packed = pack(suffixes, start=start, device=device_of(model))
    check_length(model, start + max(packed.lengths))
    row = RowContext(packed.lengths, prefix=prefix)
    scored = call_as_forward(model, lambda own: _scored(model, own, packed, row=row))
    _check_calls(model, row.calls)
    return scored


def _check_calls(model: nn.Module, calls: int) -> None:
    """Every layer must have computed its attention here once, and so over the shared prefix."""
    num_layers = len(layer_list(model))
    if calls != num_layers:
        raise ModelError(
            f"{type(model).__name__}: its {num_layers} layers computed attention {calls} times by"
            " transformers' AttentionInterface. Layers with an attention of their own or a"
            " recurrent state cannot share a prefix: set compute.backend = 'naive'"
        )


def _scored(model: nn.Module, own: Forward, packed: PackedSuffixes, **how: Any) -> ScoredTokens:
    decoded = _decoded(model, packed.tokens, packed.positions, **how)
    hidden_ND = decoded.last_hidden_state[0, packed.trained - 1]
    targets_N = packed.tokens[packed.trained]
    table: Any = model.get_output_embeddings()  # type: ignore[operator]

    def head(hidden_MD: Tensor) -> Tensor:
        return _logits(model, own, type(decoded)(last_hidden_state=hidden_MD[None]))

    return ScoredTokens(*token_scores(head, hidden_ND, targets_N, vocab=table.weight.shape[0]))


def _logits(model: nn.Module, own: Forward, decoded: Any) -> Tensor:
    """The logits `[M, V]` that the model's own forward makes of a decoder's output."""
    with _replaced_forward(_decoder(model), lambda *_, **__: decoded):
        logits_MV: Tensor = own(input_ids=None, use_cache=False).logits[0]
    return logits_MV


def joint_pass(
    model: nn.Module, prefix: Ids, suffixes: Sequence[Suffix], **how: Any
) -> ScoredTokens:
    """One pass over prefix and suffixes as one row; `how` is passed on to the attention function
    and has its mask; `longest` tokens are seen by the last token of the longest suffix."""
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
    calls: list[int] = []
    how |= {"calls": calls, "longest": len(prefix) + max(packed.lengths)}
    check_length(model, how["longest"])
    scored = call_as_forward(model, lambda own: _scored(model, own, whole, **how))
    _check_calls(model, len(calls))
    return scored


def _decoded(model: nn.Module, tokens_T: Tensor, positions_T: Tensor, **how: Any) -> Any:
    """The decoder's output, with its last hidden states `[1, T, D]`; `how` goes to the attention
    function."""
    return _decoder(model)(
        input_ids=tokens_T[None], position_ids=positions_T[None], use_cache=False, **how
    )


def _decoder(model: nn.Module) -> nn.Module:
    decoder: nn.Module = model.get_decoder()  # type: ignore[operator]
    return decoder


def layer_list(model: nn.Module) -> nn.ModuleList:
    """The decoder's layers: the longest list among its parts, whatever its name (`layers`, `h`).

    Raises ModelError for an architecture without a list of layers.
    """
    parts = [part for part in _decoder(model).children() if isinstance(part, nn.ModuleList)]
    if not parts:
        raise ModelError(f"{type(model).__name__} has no decoder layers, so it cannot be trained")
    return max(parts, key=len)


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's weights."""
    return next(model.parameters()).device


def call_as_forward(model: nn.Module, forward: Callable[[Forward], _T]) -> _T:
    """Call the model with `forward` in place of its own forward, which `forward` is given; returns
    the result."""
    own = model.forward
    with _replaced_forward(model, lambda: forward(own)):
        done: _T = model()
    return done


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    # Python finds an attribute of the object before that of its class.
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before
