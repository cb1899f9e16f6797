"""Windows, soft caps and sinks: the attention of suffixes equals one dense attention per suffix."""

import pytest
import torch
from torch import Tensor

from rehearsal_room.learner.backends import masked_attention
from rehearsal_room.learner.backends.attention_form import AttentionForm, as_wide_as
from rehearsal_room.learner.backends.masked_attention import attend_masked, sees

LENGTHS = [5, 1, 12]
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64)
FORMS = {
    "window": AttentionForm(0.3, window=4),
    "window of one": AttentionForm(0.3, window=1),
    "window over the prefix": AttentionForm(0.3, window=19),
    "soft cap": AttentionForm(0.3, softcap=0.7),
    "sinks": AttentionForm(0.3, sinks=SINKS),
    "all": AttentionForm(0.3, window=9, softcap=0.7, sinks=SINKS),
}


def draw(heads: int, length: int, seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    drawn = torch.randn(1, heads, length, 8, generator=chance, dtype=torch.float64)
    return drawn.requires_grad_()


def dense(
    own: tuple[Tensor, Tensor, Tensor], prefix: tuple[Tensor, Tensor], form: AttentionForm
) -> Tensor:
    """The attention of each suffix with the whole prefix, written out."""
    outs = []
    start = 0
    for length in LENGTHS:
        query, key, value = (part[:, :, start : start + length] for part in own)
        key, value = torch.cat((prefix[0], key), 2), torch.cat((prefix[1], value), 2)
        key, value = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
        scores = query @ key.transpose(2, 3) * form.scaling
        if form.softcap is not None:
            scores = form.softcap * (scores / form.softcap).tanh()
        distance = torch.arange(key.shape[2])[-length:, None] - torch.arange(key.shape[2])
        unseen = (distance < 0) | (distance >= (form.window or 10_000))
        weights = scores.masked_fill(unseen, -torch.inf).exp()
        total = weights.sum(-1, keepdim=True)
        if form.sinks is not None:
            total = total + form.sinks.exp()[:, None, None]
        outs.append(weights / total @ value)
        start += length
    return torch.cat(outs, 2)


@pytest.mark.parametrize("block", [2, 3, 256])
@pytest.mark.parametrize("prefix", [0, 1, 7])
@pytest.mark.parametrize("name", FORMS)
def test_it_equals_dense_attention(
    monkeypatch: pytest.MonkeyPatch, name: str, prefix: int, block: int
) -> None:
    """In float64, the attention and all its gradients, those of the sinks too, equal the formula,
    for any number of queries in a block and windows that end within the prefix."""
    monkeypatch.setattr(masked_attention, "BLOCK", block)
    form = FORMS[name]
    if form.sinks is not None:
        form = form._replace(sinks=form.sinks.clone().requires_grad_())
    own = (draw(4, 18, 0), draw(2, 18, 1), draw(2, 18, 2))
    shared = (draw(2, prefix, 3), draw(2, prefix, 4))
    inputs = [*own, *(shared if prefix else ()), *([form.sinks] if form.sinks is not None else [])]
    results = []
    for out in (
        attend_masked(own, shared if prefix else None, LENGTHS, form),
        dense(own, shared, form),
    ):
        weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
        grads = torch.autograd.grad((out * weight).sum(), inputs, allow_unused=True)
        results.append(
            [out, *(0 * x if g is None else g for g, x in zip(grads, inputs, strict=True))]
        )
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_no_more_than_a_window_of_the_prefix_is_read() -> None:
    """A suffix reads only the part of the prefix that its first token sees."""
    shared = (draw(2, 100, 3), draw(2, 100, 4))
    own = (draw(4, 18, 0), draw(2, 18, 1), draw(2, 18, 2))
    out = attend_masked(own, shared, LENGTHS, AttentionForm(0.3, window=6))
    [grad] = torch.autograd.grad(out.sum(), [shared[1]])
    used = grad.abs().sum((0, 1, 3)).nonzero()[:, 0]
    assert used.tolist() == [95, 96, 97, 98, 99]


def test_sees() -> None:
    """A token sees itself and what is before it, within the window."""
    found = sees(2, 4, 1, 2, torch.device("cpu"))
    assert found.tolist() == [[True, True, False], [False, True, True]]
    assert sees(2, 4, 0, None, torch.device("cpu")).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_when_attention_is_plain() -> None:
    """A window has no effect on rows that fit into it; soft caps and sinks always have one."""
    assert AttentionForm(1.0, window=5).is_plain(5)
    assert not AttentionForm(1.0, window=5).is_plain(6)
    assert not AttentionForm(1.0, softcap=30.0).is_plain(1)
    assert not AttentionForm(1.0, sinks=SINKS).is_plain(1)


def test_narrow_values_are_widened() -> None:
    """Values that are narrower than keys get zeros behind them; others stay as they are."""
    key, value = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 2)
    assert as_wide_as(key, value)[0, 0].tolist() == [[1, 1, 0]] * 2
    assert as_wide_as(key, key) is key
