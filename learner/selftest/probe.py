"""What the self-test computes: one small prefix group, in several ways.

Shapes: N trained tokens, T tokens of a row, V the vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.core.samples import Ids
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest
from rehearsal_room.learner.model.plain_rows import PromptAndReply, plain_logits
from rehearsal_room.learner.packing.batch import PrefixGroup, Suffix
from rehearsal_room.learner.packing.rows import rows_of
from rehearsal_room.learner.selftest.copies import FIRST_TOKEN, VOCAB

_PREFIX = 19  # tokens
# Each suffix: tokens of the prompt, then sampled ones; the second suffix has two steps.
_SUFFIXES = (((5, 6),), ((3, 4), (2, 3)), ((1, 9),))
_MAX_TOKENS = 24  # of a micro-batch: two suffixes of 11 and 12 tokens, and then one of 10
MAX_PREFILL = 13  # tokens of a prompt that the engine computes at once


class Computed(NamedTuple):
    """The numbers of a prefix group."""

    logprobs: Tensor  # [N]
    entropies: Tensor  # [N]
    gradient: dict[str, Tensor]  # by parameter; empty: not computed


def probe_group() -> PrefixGroup:
    """A prefix group of random tokens and weights, the same in every process."""
    chance = np.random.default_rng(0)
    prefix = _ids(chance, _PREFIX)
    return PrefixGroup(prefix, tuple(_suffix(chance, steps) for steps in _SUFFIXES))


def max_tokens_of(backend: str) -> int:
    """The tokens of a micro-batch with which a back end puts two suffixes into the first one and
    the third into another."""
    return _MAX_TOKENS + (2 * _PREFIX if backend == "packed" else 0)


def by_backend(backend: Backend, model: nn.Module, group: PrefixGroup) -> Computed:
    """The numbers by a backend; its scores without a gradient must be those with one."""
    logprobs, entropies = [], []

    def loss_of(numbers: Sequence[int], logprobs_N: Tensor, entropies_N: Tensor) -> Tensor:
        logprobs.append(logprobs_N.detach())
        entropies.append(entropies_N)
        return _loss([group.suffixes[number] for number in numbers], logprobs_N)

    gradient = _gradient(model, lambda: backend.backward(model, group, loss_of))
    scores = backend.score(model, group)
    done = torch.cat(logprobs)
    worse = (scores - done).abs() > 0
    return Computed(torch.where(worse, scores, done), torch.cat(entropies), gradient)


def by_plain_rows(model: nn.Module, group: PrefixGroup, *, together: bool = False) -> Computed:
    """The numbers by the model's own forward, row by row; or `together`, as one padded batch."""
    rows = rows_of(group).suffixes
    found: list[tuple[Tensor, Tensor]] = []

    def backward() -> None:
        logits = plain_logits(model, [row.tokens.tolist() for row in rows], together=together)
        found.extend(_scores(row, of_row) for row, of_row in zip(rows, logits, strict=True))
        _loss(rows, torch.cat([scores for scores, _ in found])).backward()  # type: ignore[no-untyped-call]

    gradient = _gradient(model, backward)
    logprobs, entropies = (torch.cat(parts).detach() for parts in zip(*found, strict=True))
    return Computed(logprobs, entropies, gradient)


class SampledReplies(NamedTuple):
    """Sampled replies."""

    replies: list[PromptAndReply]
    logprobs: Tensor  # [N], of all sampled tokens


def by_engine(engine: Engine, group: PrefixGroup) -> SampledReplies:
    """Replies by a sampling engine: three prompts that share a prefix, then prompts that continue
    these replies, whose beginnings are cached."""
    prompts = [row.tokens[: row.trained[0]].tolist() for row in rows_of(group).suffixes]
    done = _sample(engine, prompts)
    more = [
        [*prompt, *request.tokens, *prompt[:3]]
        for prompt, request in zip(prompts, done, strict=True)
    ]
    done += _sample(engine, more)
    replies = [(p, list(r.tokens)) for p, r in zip([*prompts, *more], done, strict=True)]
    return SampledReplies(
        replies, torch.tensor([one for request in done for one in request.logprobs])
    )


def _sample(engine: Engine, prompts: list[list[int]]) -> list[SamplingRequest]:
    requests = [SamplingRequest(p, max_tokens=4 + n, seed=n) for n, p in enumerate(prompts)]
    for request in requests:
        engine.add(request)
    while engine.num_requests:
        engine.step()
    return requests


def _gradient(model: nn.Module, backward: Callable[[], None]) -> dict[str, Tensor]:
    model.zero_grad()
    backward()
    gradient = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }
    model.zero_grad()
    return gradient


def _loss(suffixes: Sequence[Suffix], logprobs_N: Tensor) -> Tensor:
    weights = np.concatenate([suffix.weights for suffix in suffixes])
    return -(torch.from_numpy(weights).to(logprobs_N) * logprobs_N).sum()


def _scores(row: Suffix, logits_TV: Tensor) -> tuple[Tensor, Tensor]:
    logprobs_NV = logits_TV[row.trained - 1].float().log_softmax(-1)
    targets_N = torch.from_numpy(row.tokens[row.trained]).to(logits_TV.device).long()
    entropies_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1).detach()
    return logprobs_NV.gather(-1, targets_N[:, None])[:, 0], entropies_N


def _suffix(chance: np.random.Generator, steps: Sequence[tuple[int, int]]) -> Suffix:
    trained: list[int] = []
    length = 0
    for shown, sampled in steps:
        trained += range(length + shown, length + shown + sampled)
        length += shown + sampled
    count = len(trained)
    zeros, numbers = np.zeros(count, np.float32), np.zeros(count, np.int64)
    return Suffix(
        tokens=_ids(chance, length),
        trained=np.array(trained, np.int64),
        sampler=zeros,
        advantages=zeros,
        weights=(chance.normal(size=count) / len(_SUFFIXES)).astype(np.float32),
        steps=numbers,
        episodes=numbers,
    )


def _ids(chance: np.random.Generator, count: int) -> Ids:
    return chance.integers(FIRST_TOKEN, VOCAB, count).astype(np.int32)
