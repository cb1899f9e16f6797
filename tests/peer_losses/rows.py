"""Rows that both a peer's loss and ours are computed for: groups of episodes of one reply each, a
model in float64, and our loss and gradients of them.

Shapes: B rows, T tokens of the longest reply.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rehearsal_room.learner.backends.registry import backend_of
from rehearsal_room.learner.config.settings import ComputeSettings, LossSettings
from rehearsal_room.learner.core.samples import Group, Rollout, Sample
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.losses.registry import (
    loss_of,
    needs_episode_mismatch,
    needs_episode_ratios,
)
from rehearsal_room.learner.packing.batch import PrefixGroup
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.learner.packing.token_batches import Scores, token_batch
from tests.support.tiny_model import write_model

LENGTHS = (7, 3, 5, 6, 4, 9, 2, 5)  # of the replies; two groups of four
GROUP = 4
VOCABULARY = 300
REWARDS = (1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.0, 0.25)


class Rows(NamedTuple):
    """The tokens of the rows, and what the sampler said of them."""

    prompts: list[list[int]]
    replies: list[list[int]]
    sampler: list[list[float]]


def model_in(folder: Path) -> Path:
    """A model of a few thousand weights, as a Hugging Face folder."""
    return write_model(folder, hidden=16, head_dim=8)


def rows_for(model: nn.Module, *, apart: float) -> Rows:
    """Random rows. The sampler's log-probabilities differ from the model's by normal noise of this
    size, and for some rows all in one direction."""
    chance = np.random.default_rng(3)
    prompts = [chance.integers(3, VOCABULARY, 6).tolist() for _ in range(len(LENGTHS) // GROUP)]
    prompts = [prompt for prompt in prompts for _ in range(GROUP)]
    replies = [chance.integers(3, VOCABULARY, length).tolist() for length in LENGTHS]
    sampler = []
    for number, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        noise = chance.normal(size=len(reply)) + (0.8 if number % 3 == 0 else 0.0)
        logprobs = logprobs_of(model, prompt, reply).detach().numpy()
        sampler.append((logprobs - apart * noise).tolist())
    return Rows(prompts, replies, sampler)


def logprobs_of(model: nn.Module, prompt: Sequence[int], reply: Sequence[int]) -> Tensor:
    """Log-probabilities of a reply's tokens, by the model's own forward."""
    row = torch.tensor([*prompt, *reply])
    logits = model(input_ids=row[None]).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, row[len(prompt) :, None])[:, 0]


def padded(values: Sequence[Sequence[float]], *, dtype: torch.dtype = torch.float64) -> Tensor:
    """The values of the rows `[B, T]`, zeros behind them."""
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(one, dtype=dtype) for one in values], batch_first=True
    )


def perturb(model: nn.Module) -> None:
    """Change the weights a little, as an update does: ratios are then other than 1."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(0.03 * noise)


class Result(NamedTuple):
    """A loss and the gradients of the model's weights."""

    loss: float
    gradient: dict[str, Tensor]


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the gradients; they are then reset."""
    found = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }
    model.zero_grad()
    return found


def ours(
    model: nn.Module,
    old: Sequence[Sequence[float]],
    rows: Rows,
    advantages: Sequence[float],
    settings: LossSettings,
    *,
    length: int = 0,
) -> Result:
    """Our loss of the rows and its gradients: rows packed into prefix groups, computed by `twopass`
    in micro-batches, as in training. `old` are the log-probabilities before the update."""
    groups = [
        Group(str(first), "s", "t", tuple(_rollout(rows, n) for n in range(first, first + GROUP)))
        for first in range(0, len(rows.replies), GROUP)
    ]
    by_group = [
        [[advantages[int(group.group) + member]] for member in range(GROUP)] for group in groups
    ]
    weights = weights_of(groups, settings.aggregate, length=length)
    backend = backend_of(ComputeSettings(max_tokens=20, device="cpu"))
    loss, total = loss_of(settings), 0.0
    model.zero_grad()
    for one in batch_of(groups, by_group, weights).prefix_groups:
        scores = _scores(model, one, old, rows, settings)

        def loss_of_part(
            numbers: Sequence[int],
            logprobs: Tensor,
            entropy: Tensor,
            one: PrefixGroup = one,
            scores: Scores = scores,
        ) -> Tensor:
            nonlocal total
            tokens = token_batch(one, numbers, logprobs, entropy, scores)
            part = (tokens.weights * loss(tokens)[0]).sum()
            total += part.item()
            return part

        backend.backward(model, one, loss_of_part)
    return Result(total, gradients_of(model))


def assert_same(found: Result, expected: Result, *, bound: float) -> None:
    """Loss and every weight's gradient are equal, relative to the largest gradient."""
    size = max(float(one.abs().max()) for one in expected.gradient.values())
    assert size > 1e-3  # something is learned, so the comparison says something
    assert abs(found.loss - expected.loss) < bound * max(1.0, abs(expected.loss))
    for name, gradient in expected.gradient.items():
        assert float((found.gradient[name] - gradient).abs().max()) < bound * size, name


def _rollout(rows: Rows, number: int) -> Rollout:
    sample = Sample(
        np.array(rows.prompts[number], np.int32),
        np.array(rows.replies[number], np.int32),
        np.array(rows.sampler[number], np.float32),
        reward=REWARDS[number],
        turn=0,
        weights="v0",
    )
    return Rollout(str(number), number % GROUP, REWARDS[number], (sample,), "answered", "completed")


def _scores(
    model: nn.Module,
    group: PrefixGroup,
    old: Sequence[Sequence[float]],
    rows: Rows,
    settings: LossSettings,
) -> Scores:
    """The old log-probabilities and the values of whole episodes, which are rows here, in the order
    of the group's suffixes; the trainer computes these over all processes."""
    numbers = [
        rows.replies.index(suffix.tokens[suffix.trained].tolist()) for suffix in group.suffixes
    ]
    parts: dict[str, Any] = {"old": [old[number] for number in numbers]}
    if needs_episode_ratios(settings):
        now = [
            logprobs_of(model, rows.prompts[n], rows.replies[n]).detach().tolist() for n in numbers
        ]
        means = [np.mean(np.subtract(a, old[n])) for a, n in zip(now, numbers, strict=True)]
        parts["episode_log_ratios"] = [
            [mean] * len(old[n]) for mean, n in zip(means, numbers, strict=True)
        ]
    if needs_episode_mismatch(settings):
        apart = [np.subtract(old[n], np.float32(rows.sampler[n]).astype(float)) for n in numbers]
        parts["episode_mismatch"] = [[float(one.sum())] * len(one) for one in apart]
        parts["episode_mismatch_mean"] = [[float(one.mean())] * len(one) for one in apart]
    return Scores(
        **{
            name: torch.tensor(np.concatenate(values), dtype=torch.float64)
            for name, values in parts.items()
        }
    )
