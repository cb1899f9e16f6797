"""Log-probabilities from hidden states, in chunks that bound memory."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from rehearsal_room.learner.backends.heads import token_scores


def head_of(weight: list[list[float]]) -> nn.Linear:
    head = nn.Linear(len(weight[0]), len(weight), bias=False)
    head.weight.data = torch.tensor(weight)
    return head


def test_scores_by_hand() -> None:
    """Logits 0, 0 and log 2 give probabilities 1/4, 1/4 and 1/2."""
    head = head_of([[0.0], [0.0], [math.log(2)]])
    logprobs, entropy = token_scores(
        head, torch.tensor([[1.0], [1.0], [0.0]]), torch.tensor([2, 0, 1]), vocab=3
    )
    quarter, half, third = math.log(1 / 4), math.log(1 / 2), math.log(1 / 3)
    torch.testing.assert_close(logprobs.detach(), torch.tensor([half, quarter, third]))
    torch.testing.assert_close(entropy, -torch.tensor([(half + quarter) / 2] * 2 + [third]))
    assert not entropy.requires_grad


@pytest.mark.parametrize("rows", [1, 3, 10, 11])
def test_chunks_change_nothing(rows: int) -> None:
    """In float64, chunks of any size give the scores and gradients of torch's log_softmax."""
    torch.manual_seed(0)
    head = nn.Linear(4, 7, bias=True).double()
    hidden = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    targets, weights = torch.randint(7, (10,)), torch.randn(10, dtype=torch.float64)

    def grads(logprobs: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(logprobs @ weights, [hidden, *head.parameters()])

    whole = log_softmax(head(hidden), -1)
    expected = whole.gather(-1, targets[:, None])[:, 0]
    entropies = -(whole.exp() * whole).sum(-1).detach()
    logprobs, entropy = token_scores(head, hidden, targets, vocab=7, max_logits=7 * rows)
    torch.testing.assert_close(logprobs, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(entropy, entropies, rtol=0, atol=1e-14)
    torch.testing.assert_close(grads(logprobs), grads(expected), rtol=0, atol=1e-14)


def test_the_number_of_logits_is_bounded() -> None:
    """No more logits are computed at once than the limit, and none are stored between forward and
    backward; if all fit into the limit, they are computed once."""
    head, computed = nn.Linear(4, 7), []
    head.register_forward_hook(lambda _module, _inputs, logits: computed.append(len(logits)))
    hidden, targets = torch.randn(10, 4, requires_grad=True), torch.zeros(10, dtype=torch.int64)
    stored: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: stored.append(x.numel()) or x, lambda x: x
    ):
        logprobs, _ = token_scores(head, hidden, targets, vocab=7, max_logits=21)
        assert max(stored, default=0) < 21
        assert computed == [3, 3, 3, 1]
        logprobs.sum().backward()
        assert sorted(computed) == [1, 1, 3, 3, 3, 3, 3, 3]
        computed.clear()
        token_scores(head, hidden, targets, vocab=7, max_logits=70)[0].sum().backward()
    assert computed == [10]


def test_half_precision_is_summed_in_float32() -> None:
    """The softmax over logits of a bfloat16 model is computed in float32."""
    head = nn.Linear(4, 7).bfloat16()
    logprobs, entropy = token_scores(
        head, torch.randn(3, 4).bfloat16(), torch.tensor([0, 1, 2]), vocab=7
    )
    assert (logprobs.dtype, entropy.dtype) == (torch.float32, torch.float32)
