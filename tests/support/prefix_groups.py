"""Prefix groups for the tests of backends: random ones, their samples as rows, and a loss."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix

Stretch = tuple[int, int]  # part of a suffix: the number of prompt tokens, then of sampled tokens


class Results(NamedTuple):
    """The results of a backend for one prefix group."""

    loss: float
    scores: Tensor  # [N]
    grads: dict[str, Tensor]  # by parameter

    @property
    def largest_grad(self) -> float:
        """The largest absolute gradient of all parameters."""
        return max(grad.abs().max().item() for grad in self.grads.values())


def prefix_group_of(
    prefix: int, suffixes: Sequence[Sequence[Stretch]], *, vocab: int = 23, seed: int = 0
) -> PrefixGroup:
    """A prefix group of random tokens. A suffix of several stretches has several steps, and the
    prompt of each one extends the previous one."""
    chance = np.random.default_rng(seed)
    return PrefixGroup(
        _ids(chance, prefix, vocab), tuple(_suffix(chance, suffix, vocab) for suffix in suffixes)
    )


def _suffix(chance: np.random.Generator, stretches: Sequence[Stretch], vocab: int) -> Suffix:
    trained, steps, length = [], [], 0
    for step, (shown, sampled) in enumerate(stretches):
        trained += range(length + shown, length + shown + sampled)
        steps += [step] * sampled
        length += shown + sampled
    count = len(trained)
    return Suffix(
        tokens=_ids(chance, length, vocab),
        trained=np.array(trained, np.int64),
        sampler=(chance.normal(size=count) * 0.3 - 3).astype(np.float32),
        advantages=chance.choice([-1.5, -0.5, 0.5, 1.5], size=count).astype(np.float32),
        weights=chance.uniform(0.1, 1, size=count).astype(np.float32) / 16,
        steps=np.array(steps, np.int64),
        episodes=np.zeros(count, np.int64),
    )


def _ids(chance: np.random.Generator, count: int, vocab: int) -> np.ndarray:
    return chance.integers(0, vocab, count).astype(np.int32)


def step_rows(prefix_group: PrefixGroup) -> PrefixGroup:
    """Each step of each suffix as a separate row: exactly what the agent was shown and sampled."""
    rows = []
    for suffix in prefix_group.suffixes:
        for step in dict.fromkeys(suffix.steps.tolist()):
            mine = suffix.steps == step
            end = int(suffix.trained[mine][-1]) + 1
            rows.append(
                Suffix(
                    np.concatenate((prefix_group.prefix, suffix.tokens[:end])),
                    suffix.trained[mine] + len(prefix_group.prefix),
                    suffix.sampler[mine],
                    suffix.advantages[mine],
                    suffix.weights[mine],
                    suffix.steps[mine],
                    suffix.episodes[mine],
                )
            )
    return PrefixGroup(prefix_group.prefix[:0], tuple(rows))


def compute(backend: Backend, model: nn.Module, prefix_group: PrefixGroup) -> Results:
    """Loss, scores and gradients of a clipped policy gradient with a KL term."""
    losses: list[float] = []

    def loss_of(numbers: Sequence[int], logprobs: Tensor, entropy: Tensor) -> Tensor:
        suffixes = [prefix_group.suffixes[number] for number in numbers]
        old, advantages, weights = (
            torch.from_numpy(np.concatenate([getattr(suffix, name) for suffix in suffixes])).to(
                logprobs
            )
            for name in ("sampler", "advantages", "weights")
        )
        ratio = (logprobs - old).exp()
        clipped = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
        kl = (old - logprobs).expm1() - (old - logprobs)  # a gradient even where all is clipped
        # The entropy has no gradient; it is a factor here, so that a wrong entropy is noticed.
        loss = (weights * (0.1 * kl - clipped * (1 + entropy))).sum()
        losses.append(loss.item())
        return loss

    model.zero_grad()
    backend.backward(model, prefix_group, loss_of)
    grads = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    return Results(sum(losses), backend.score(model, prefix_group), grads)


def assert_equal(found: Results, expected: Results, tolerance: float) -> None:
    """The scores, the loss and every parameter's gradient are equal within the tolerance; gradients
    relative to the largest gradient."""
    largest = expected.largest_grad
    assert found.grads.keys() == expected.grads.keys()
    differences = {
        "loss": abs(found.loss - expected.loss) / max(1.0, abs(expected.loss)),
        "scores": (found.scores - expected.scores).abs().max().item(),
    }
    for name, grad in expected.grads.items():
        differences[name] = (found.grads[name] - grad).abs().max().item() / largest
    assert largest > 1e-4  # otherwise there is nothing to compare
    assert {name: gap for name, gap in differences.items() if not gap <= tolerance} == {}


def stretches() -> st.SearchStrategy[Stretch]:
    return st.tuples(st.integers(1, 6), st.integers(1, 5))


def prefix_groups(min_prefix: int = 0) -> st.SearchStrategy[PrefixGroup]:
    """Random prefix groups: an empty or a long prefix, one suffix or several, each of one step or
    of several."""
    suffixes = st.lists(st.lists(stretches(), min_size=1, max_size=3), min_size=1, max_size=6)
    return st.builds(
        lambda prefix, suffixes, seed: prefix_group_of(prefix, suffixes, seed=seed),
        st.integers(min_prefix, 20),
        suffixes,
        st.integers(0, 10_000),
    )
