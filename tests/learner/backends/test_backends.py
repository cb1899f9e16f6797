"""Sharing a prefix changes only the amount of work: loss, scores and every gradient equal those of
rows that are computed one by one."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from rehearsal_room.learner.backends import attention, suffix_attention, twopass
from rehearsal_room.learner.backends import forward as forward_passes
from rehearsal_room.learner.backends.attention import RowContext
from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.backends.flex import Flex, prefix_group_mask
from rehearsal_room.learner.backends.naive import Naive
from rehearsal_room.learner.backends.packed import Packed
from rehearsal_room.learner.backends.registry import backend_of
from rehearsal_room.learner.backends.suffix_attention import attend_by_suffix, attend_merged
from rehearsal_room.learner.backends.twopass import TwoPass
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ConfigError, ModelError
from rehearsal_room.learner.packing.batch import PrefixGroup, microbatches
from rehearsal_room.learner.packing.rows import row_of
from tests.support.budgets import examples, only_long, repeats
from tests.support.prefix_groups import (
    Results,
    assert_equal,
    compute,
    prefix_group_of,
    prefix_groups,
    step_rows,
)
from tests.support.tiny_lm import TinyLM

EXACT = 1e-10  # float64, of the largest gradient
CLOSE = 1e-6  # float32

# Two suffixes of one step and one of two steps.
PREFIX_GROUP = prefix_group_of(9, [[(3, 4)], [(2, 2), (3, 3)], [(1, 5)]])


def tiny() -> TinyLM:
    return TinyLM().double()


def qwen(**changes: Any) -> Qwen3ForCausalLM:
    """A model of random weights, as transformers draws them."""
    torch.manual_seed(0)
    small = {"vocab_size": 23, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    return Qwen3ForCausalLM(Qwen3Config(**{**small, **heads, **changes}))


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def model32(request: pytest.FixtureRequest) -> Qwen3ForCausalLM:
    return qwen(tie_word_embeddings=request.param)


# Equality ---------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=repeats(short=12, long=500))
@given(prefix_groups(), st.integers(1, 70))
def test_twopass_is_exact(prefix_group: PrefixGroup, max_tokens: int) -> None:
    """In float64, `twopass` gives the loss, scores and gradients of rows of single steps, for any
    prefix, any suffixes of one or several steps, and any micro-batches."""
    model = tiny()
    assert_equal(
        compute(TwoPass(max_tokens), model, prefix_group),
        compute(Naive(), model, step_rows(prefix_group)),
        EXACT,
    )


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(prefix_groups(), st.integers(1, 70))
def test_packed_is_exact(prefix_group: PrefixGroup, max_tokens: int) -> None:
    """In float64, `packed` gives the same as rows of single steps."""
    model = tiny()
    assert_equal(
        compute(Packed(max_tokens), model, prefix_group),
        compute(Naive(), model, step_rows(prefix_group)),
        EXACT,
    )


@pytest.mark.slow
def test_long_rows_are_exact() -> None:
    """In float64, both back ends' gradients equal those of step rows also when attention is
    computed in several blocks; its kernel computes up to 256 queries and 512 keys at once."""
    model = tiny()
    prefix_group = prefix_group_of(700, [[(300, 20), (30, 9)], [(40, 5)]])
    expected = compute(Naive(), model, step_rows(prefix_group))
    for backend in (TwoPass(1000), Packed(1000)):
        assert_equal(compute(backend, model, prefix_group), expected, EXACT)


@settings(max_examples=examples(6))
@given(prefix_groups(min_prefix=1), st.integers(1, 70), st.randoms(use_true_random=False))
def test_the_order_of_suffixes_changes_nothing(
    prefix_group: PrefixGroup, max_tokens: int, chance: Any
) -> None:
    """In float64, suffixes in another order, and so in other micro-batches, give the same
    gradients, and the same scores in the new order."""
    model = tiny()
    order = list(range(len(prefix_group.suffixes)))
    chance.shuffle(order)
    shuffled = PrefixGroup(
        prefix_group.prefix, tuple(prefix_group.suffixes[number] for number in order)
    )
    expected = compute(TwoPass(max_tokens), model, prefix_group)
    scores = expected.scores.split([len(suffix.trained) for suffix in prefix_group.suffixes])
    assert_equal(
        compute(TwoPass(max_tokens), model, shuffled),
        expected._replace(scores=torch.cat([scores[number] for number in order])),
        EXACT,
    )


@settings(
    max_examples=repeats(short=4, long=160), derandomize=True
)  # rounding has no bound that a search cannot find
@given(prefix_group=prefix_groups(), max_tokens=st.integers(1, 70))
@pytest.mark.parametrize("backend", [TwoPass, Packed])
def test_float32_on_qwen3(
    model32: Qwen3ForCausalLM,
    backend: Callable[[int], Backend],
    prefix_group: PrefixGroup,
    max_tokens: int,
) -> None:
    """On transformers' Qwen3 in float32, differences are below a millionth of the largest gradient;
    the step rows use the model's stock attention."""
    assert model32.config._attn_implementation == "sdpa"
    expected = compute(Naive(), model32, step_rows(prefix_group))
    # Smaller gradients result from cancellation: the rows' own rounding then exceeds a millionth.
    assume(expected.largest_grad > 0.01)
    assert_equal(compute(backend(max_tokens), model32, prefix_group), expected, CLOSE)


@settings(max_examples=examples(6))
@given(prefix_groups(min_prefix=1), st.integers(1, 70))
def test_gradient_checkpointing_is_exact(prefix_group: PrefixGroup, max_tokens: int) -> None:
    """In float64, layers that are computed again in the backward, also those of the prefix, give
    the same gradients."""
    model = tiny()
    expected = compute(Naive(), model, step_rows(prefix_group))
    model.decoder.checkpointing = True
    assert_equal(compute(TwoPass(max_tokens), model, prefix_group), expected, EXACT)


def test_gradient_checkpointing_on_qwen3() -> None:
    """Gradient checkpointing also gives the same gradients on transformers' Qwen3, whose layers
    checkpoint themselves."""
    model = qwen()
    expected = compute(Naive(), model, step_rows(PREFIX_GROUP))
    model.train()
    model.activation_checkpointing_enable()
    assert model.model.layers[0].gradient_checkpointing
    assert_equal(compute(TwoPass(12), model, PREFIX_GROUP), expected, CLOSE)


def test_bfloat16_under_autocast() -> None:
    """Under autocast to bfloat16 the gradient has the same direction as in float32, as closely as
    the gradient of the rows does."""
    model = qwen()

    def cosine(one: Results, other: Results) -> float:
        a, b = (torch.cat([x.flatten() for x in m.grads.values()]) for m in (one, other))
        return torch.cosine_similarity(a, b, dim=0).item()

    exact = compute(Naive(), model, PREFIX_GROUP)
    with torch.autocast("cpu", torch.bfloat16):
        rows, shared = (
            compute(Naive(), model, PREFIX_GROUP),
            compute(TwoPass(12), model, PREFIX_GROUP),
        )
    assert cosine(rows, exact) > 0.999
    assert cosine(shared, exact) > 0.999
    assert shared.scores.dtype == torch.float32


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(prefix_groups(), st.integers(1, 70), st.booleans())
def test_other_devices_are_exact(
    prefix_group: PrefixGroup, max_tokens: int, checkpointing: bool
) -> None:
    """In float64, attention suffix by suffix, as on devices other than a CPU, gives the gradients
    of step rows, with and without gradient checkpointing."""
    model = tiny()
    expected = compute(Naive(), model, step_rows(prefix_group))
    model.decoder.checkpointing = checkpointing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "attend_merged", attend_by_suffix)
        assert_equal(compute(TwoPass(max_tokens), model, prefix_group), expected, EXACT)


# Faults that the comparison must find ------------------------------------------------------------


def suffixes_see_each_other(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        forward_passes, "RowContext", lambda lengths, **how: RowContext([sum(lengths)], **how)
    )


def keys_of_the_prefix_are_shifted(patch: pytest.MonkeyPatch) -> None:
    """The keys are shifted by one token against the values."""

    def row(lengths: Sequence[int], *, prefix: Any = None, records: bool = False) -> RowContext:
        shifted = {n: (key.roll(1, dims=2), value) for n, (key, value) in (prefix or {}).items()}
        return RowContext(lengths, prefix=shifted, records=records)

    patch.setattr(forward_passes, "RowContext", row)


def positions_are_shifted(patch: pytest.MonkeyPatch) -> None:
    right = forward_passes.pack
    patch.setattr(
        forward_passes,
        "pack",
        lambda suffixes, start, device: right(suffixes, start=start + 1, device=device),
    )


def a_label_is_predicted_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """The first trained token of a micro-batch is predicted at the position of the last one."""
    right = forward_passes.token_scores
    patch.setattr(
        forward_passes,
        "token_scores",
        lambda head, hidden, targets, vocab: right(
            head, torch.cat((hidden[-1:], hidden[1:])), targets, vocab=vocab
        ),
    )


def the_prefix_has_no_gradient(patch: pytest.MonkeyPatch) -> None:
    _weaken(patch, keys=0.0, values=0.0)


def keys_of_the_prefix_have_no_gradient(patch: pytest.MonkeyPatch) -> None:
    _weaken(patch, keys=0.0, values=1.0)


def _weaken(patch: pytest.MonkeyPatch, *, keys: float, values: float) -> None:
    def weak(part: Tensor, share: float) -> Tensor:
        return share * part + (1 - share) * part.detach()

    def prefix_pass(model: nn.Module, prefix: Any) -> Any:
        hidden, recorded = forward_passes.prefix_pass(model, prefix)
        return hidden, {n: (weak(k, keys), weak(v, values)) for n, (k, v) in recorded.items()}

    patch.setattr(twopass, "prefix_pass", prefix_pass)


def parts_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    """Prefix and suffix weigh the same, regardless of their scores."""
    patch.setattr(suffix_attention, "_weighted", lambda out, log_share: out / 2)


@pytest.mark.parametrize(
    "breaks",
    [
        *(suffixes_see_each_other, keys_of_the_prefix_are_shifted, positions_are_shifted),
        *(a_label_is_predicted_elsewhere, the_prefix_has_no_gradient),
        *(keys_of_the_prefix_have_no_gradient, parts_are_not_merged),
    ],
)
@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        pytest.param(tiny, EXACT, id="float64"),
        pytest.param(qwen, CLOSE, id="float32", marks=only_long),
    ],
)
def test_a_fault_is_found(
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[pytest.MonkeyPatch], None],
    make: Callable[[], nn.Module],
    tolerance: float,
) -> None:
    """The comparison that passes for the correct code fails for each injected fault. (`just
    test-long` also has float32.)"""
    model = make()
    expected = compute(Naive(), model, step_rows(PREFIX_GROUP))
    assert_equal(compute(TwoPass(16), model, PREFIX_GROUP), expected, tolerance)
    breaks(monkeypatch)
    with pytest.raises(AssertionError):
        assert_equal(compute(TwoPass(16), model, PREFIX_GROUP), expected, tolerance)


def test_a_model_with_its_own_attention_is_refused() -> None:
    """A model that never calls the attention function is an error; its suffixes would see each
    other."""
    model = qwen()
    for layer in model.model.layers:
        layer.self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    with pytest.raises(ModelError, match="its 2 layers computed attention 0 times"):
        TwoPass(16).score(model, PREFIX_GROUP)
    with pytest.raises(ModelError, match=r"set compute\.backend = 'naive'"):
        Packed(16).score(model, PREFIX_GROUP)


def test_dropout_is_refused() -> None:
    """The attention function does not compute dropout, and refuses it."""
    with pytest.raises(ModelError, match="dropout"):
        TwoPass(16).score(qwen(attention_dropout=0.1).train(), PREFIX_GROUP)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"position_bias": torch.ones(2)}, "its attention with 'position_bias', which is not"),
        ({"is_causal": False}, "is not causal"),
        ({"attention_mask": torch.ones(1)}, "an attention mask of its own"),
        ({"row": None}, "is not given the arguments of the model's call"),
    ],
)
def test_unknown_attention_is_refused(arguments: dict[str, Any], message: str) -> None:
    """An argument that the attention function does not compute is refused, and never ignored."""
    module = nn.Module()
    module.layer_idx = 0
    tokens = torch.ones(1, 1, 2, 4)
    usual: dict[str, Any] = {"attention_mask": None, "row": RowContext([2]), "scaling": 1.0}
    attention.attend(module, tokens, tokens, tokens, **usual, dropout=0.0, position_ids=tokens)
    with pytest.raises(ModelError, match=message):
        attention.attend(module, tokens, tokens, tokens, **{**usual, **arguments})


# Work and memory --------------------------------------------------------------------------------


def passes_of(model: TinyLM, compute: Callable[[], object]) -> list[tuple[int, int]]:
    """For each forward pass, the number of tokens in the decoder and in the head."""
    seen: list[list[int]] = []
    hooks = [
        model.decoder.embed.register_forward_hook(
            lambda _module, inputs, _out: seen.append([inputs[0].numel(), 0])
        ),
        model.head.register_forward_hook(
            lambda _module, inputs, _out: seen[-1].__setitem__(1, inputs[0].shape[-2])
        ),
    ]
    compute()
    for hook in hooks:
        hook.remove()
    return [(decoded, headed) for decoded, headed in seen]


def test_the_prefix_is_computed_once() -> None:
    """The prefix goes through the model once, suffixes in micro-batches within the limit, and the
    head sees only trained tokens. Rows of the same prefix group compute the prefix once per
    suffix."""
    model = tiny()
    prefix_group = prefix_group_of(50, [[(6, 2)]] * 5)
    shared, rows = [(50, 0), (16, 4), (16, 4), (8, 2)], [(58, 2)] * 5
    assert passes_of(model, lambda: compute(TwoPass(16), model, prefix_group)) == shared * 2
    assert passes_of(model, lambda: compute(Packed(16), model, prefix_group)) == rows * 2
    assert prefix_group.num_tokens == sum(decoded for decoded, _ in shared) == 90


def test_every_pass_is_a_call_of_the_model() -> None:
    """Hooks of the model, with which FSDP2 gathers its weights, run around every pass."""
    model = tiny()
    calls: list[str] = []
    model.register_forward_pre_hook(lambda *_: calls.append("before"))
    model.register_forward_hook(lambda *_: calls.append("after"))
    TwoPass(16).score(model, prefix_group_of(4, [[(6, 2)]] * 4))
    assert calls == ["before", "after"] * 3  # the prefix and two micro-batches


def test_the_model_is_left_as_it_was() -> None:
    """After a loss that raises, the model has its own attention and forward again."""
    model = qwen()

    def fails(_numbers: Sequence[int], _logprobs: Tensor, _entropy: Tensor) -> Tensor:
        raise ArithmeticError("a loss that is not finite")

    with pytest.raises(ArithmeticError):
        TwoPass(16).backward(model, PREFIX_GROUP, fails)
    assert model.config._attn_implementation == "sdpa"
    assert "forward" not in model.__dict__


# Parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [0, 1, 300])
def test_attention_by_suffix_equals_merged_attention(prefix: int) -> None:
    """Attention suffix by suffix, as on devices other than a CPU, equals the merged attention, and
    so do its gradients."""
    chance = torch.Generator().manual_seed(0)
    lengths = [5, 1, 12]

    def draw(heads: int, length: int) -> Tensor:
        drawn = torch.randn(1, heads, length, 8, generator=chance, dtype=torch.float64)
        return drawn.requires_grad_()

    own = (draw(4, 18), draw(2, 18), draw(2, 18))
    shared = (draw(2, prefix), draw(2, prefix)) if prefix else None
    suffixes = [*own, *(shared or ())]
    weight = torch.randn(1, 4, 18, 8, generator=chance, dtype=torch.float64)
    results = []
    for function in (attend_by_suffix, attend_merged):
        out = function(own, shared, lengths, 0.3)
        results.append([out, *torch.autograd.grad((out * weight).sum(), suffixes)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_row_of() -> None:
    """The prefix turns a suffix into a row; its trained indices are shifted."""
    suffix = prefix_group_of(0, [[(2, 2)]]).suffixes[0]
    row = row_of(np.array([1, 2, 3], np.int32), suffix)
    assert row.tokens.tolist() == [1, 2, 3, *suffix.tokens]
    assert row.trained.tolist() == [5, 6]
    assert row.sampler is suffix.sampler


@given(st.lists(st.integers(1, 50), max_size=8), st.integers(1, 60))
def test_microbatches(lengths: list[int], max_tokens: int) -> None:
    """Micro-batches have every suffix once and in order, are within the limit or have one suffix,
    and none has room for the first suffix of the next one."""
    suffixes = prefix_group_of(0, [[(length, 1)] for length in lengths]).suffixes
    parts = microbatches(suffixes, max_tokens)
    sizes = [[lengths[number] + 1 for number in part] for part in parts]
    assert [number for part in parts for number in part] == list(range(len(lengths)))
    assert all(sum(size) <= max_tokens or len(size) == 1 for size in sizes)
    assert all(sum(one) + other[0] > max_tokens for one, other in pairwise(sizes))


def test_backend_of() -> None:
    """Every name that the settings allow has its backend."""
    names = get_args(get_type_hints(ComputeSettings)["backend"])
    chosen = {name: type(backend_of(ComputeSettings(backend=name))) for name in names}
    assert chosen == {"naive": Naive, "packed": Packed, "twopass": TwoPass, "flex": Flex}


# FlexAttention ----------------------------------------------------------------------------------


def dense(query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float) -> Tensor:
    """The result of a kernel under a block mask, computed with the full mask."""
    length = query.shape[2]
    indices = torch.arange(length)
    seen = mask.mask_mod(0, 0, indices[:, None], indices[None, :])
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=seen, scale=scaling, enable_gqa=True
    )


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(prefix_groups(), st.integers(1, 70))
def test_flex_scores_are_exact(prefix_group: PrefixGroup, max_tokens: int) -> None:
    """In float64 on a CPU, FlexAttention under the prefix group's block mask gives the scores of
    rows."""
    model = tiny()
    torch.testing.assert_close(
        Flex(max_tokens).score(model, prefix_group),
        Naive().score(model, prefix_group),
        rtol=0,
        atol=EXACT,
    )


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(prefix_groups(), st.integers(1, 70))
def test_flex_rows_are_exact(prefix_group: PrefixGroup, max_tokens: int) -> None:
    """In float64, the rows, positions and mask of `flex` give the gradients of step rows, with a
    kernel that a CPU can differentiate."""
    model = tiny()
    found = compute(Flex(max_tokens, dense), model, prefix_group)
    assert_equal(found, compute(Naive(), model, step_rows(prefix_group)), EXACT)


def test_prefix_group_mask() -> None:
    """A token sees the prefix and the earlier tokens of its own suffix."""
    mask = prefix_group_mask(2, [2, 1], torch.device("cpu"))
    indices = torch.arange(5)
    assert mask.mask_mod(0, 0, indices[:, None], indices[None, :]).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]


def test_flex_has_no_backward_on_a_cpu() -> None:
    """Training with `flex` on a CPU is an error that names the alternative."""
    with pytest.raises(ConfigError, match=r"'flex' needs a GPU: .*; use 'twopass'"):
        compute(Flex(16), tiny(), PREFIX_GROUP)


# On a device ------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", [TwoPass, Packed, Flex])
def test_float32_on_a_device(backend: Callable[[int], Backend]) -> None:
    """On a GPU in float32, gradients differ from those of rows by less than 1e-4 of the largest
    one; its kernels may round products to fewer bits than a CPU's."""
    model = qwen(head_dim=16).cuda()
    assert_equal(
        compute(backend(16), model, PREFIX_GROUP),
        compute(Naive(), model, step_rows(PREFIX_GROUP)),
        1e-4,
    )
