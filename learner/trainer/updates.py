"""Optimiser updates: gradients of prefix groups are summed, clipped and applied.

The loss of an update is a weighted sum over its tokens, and the weights include the denominators.
Therefore neither micro-batches nor the distribution over processes change it.
"""

import math
from collections.abc import Sequence
from itertools import starmap

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from rehearsal_room.learner.backends.base import Backend, LossOf
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import TrainingError
from rehearsal_room.learner.losses.base import Measures, PolicyLoss
from rehearsal_room.learner.losses.metrics import Sums, means_of, merge, to_numbers
from rehearsal_room.learner.losses.registry import needs_episode_mismatch, needs_episode_ratios
from rehearsal_room.learner.model.distributed import (
    Processes,
    gathered_weights,
    local,
    sum_gradients,
)
from rehearsal_room.learner.model.optimizer import trainable
from rehearsal_room.learner.packing.batch import PrefixGroup
from rehearsal_room.learner.packing.minibatches import (
    balanced_shares,
    merge_small_groups,
    minibatches,
    num_episodes,
    share_of_loss,
)
from rehearsal_room.learner.packing.token_batches import (
    Scores,
    episode_sums,
    sampler_logprobs,
    spread_over_tokens,
    token_batch,
)


class Update(msgspec.Struct, frozen=True):
    """The result of one update, in one process or in all together."""

    loss: float
    grad_norm: float  # before clipping
    num_tokens: int  # computed tokens
    measures: Sums


class Updater:
    """Makes the updates of one model."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        settings: TrainSettings,
        *,
        backend: Backend,
        loss: PolicyLoss,
        reference: nn.Module | None,
        processes: Processes,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._settings = settings
        self._backend = backend
        self._loss = loss
        self._reference = reference
        self._processes = processes

    def updates(self, prefix_groups: Sequence[PrefixGroup]) -> list[Update]:
        """Make the updates of one batch. Raises TrainingError at the first update whose loss or
        gradient is not finite; that update is not applied, the earlier ones are."""
        parts = minibatches(prefix_groups, self._settings.optimizer.minibatches)
        mine = [self._own_share(part) for part in parts]
        # What a batch's denominators count, each of its updates counts for itself.
        size = num_episodes if self._settings.loss.aggregate == "constant" else share_of_loss
        scales = [size(prefix_groups) / size(part) if len(parts) > 1 else 1.0 for part in parts]
        scores = self._scores(mine)
        return [self._update(*work) for work in zip(mine, scores, scales, strict=True)]

    def _own_share(self, prefix_groups: Sequence[PrefixGroup]) -> list[PrefixGroup]:
        """This process's share of an update."""
        shares = balanced_shares([one.num_tokens for one in prefix_groups], self._processes.size)
        return merge_small_groups(
            [prefix_groups[number] for number in shares[self._processes.rank]]
        )

    def _scores(self, parts: Sequence[Sequence[PrefixGroup]]) -> list[list[Scores]]:
        """The scores that are computed before the first update: log-probabilities of the model, if
        there are several updates, and of the reference."""
        old = self._model if len(parts) > 1 else None
        scored = [[self._scored(model, part) for model in (old, self._reference)] for part in parts]
        return [list(starmap(Scores, zip(*part, strict=True))) for part in scored]

    def _scored(
        self, model: nn.Module | None, prefix_groups: Sequence[PrefixGroup]
    ) -> Sequence[Tensor | None]:
        if model is None:
            return [None] * len(prefix_groups)
        with gathered_weights(model):
            return [self._backend.score(model, prefix_group) for prefix_group in prefix_groups]

    def _update(
        self, prefix_groups: Sequence[PrefixGroup], scores: Sequence[Scores], scale: float
    ) -> Update:
        """Compute the gradients of some prefix groups, and make the optimiser's step."""
        found: list[Measures] = []
        losses = [torch.zeros(())]
        self._optimizer.zero_grad()
        with gathered_weights(self._model):
            complete = self._with_episode_values(prefix_groups, scores)
            for prefix_group, own_scores in zip(prefix_groups, complete, strict=True):
                loss_of = self._loss_of(prefix_group, own_scores, scale, losses=losses, found=found)
                self._backend.backward(self._model, prefix_group, loss_of)
            sum_gradients(self._model, self._backend)
        own = Update(
            loss=sum(loss.item() for loss in losses),
            grad_norm=self._clip_gradient(),
            num_tokens=sum(prefix_group.num_tokens for prefix_group in prefix_groups),
            measures=merge(map(to_numbers, found)),
        )
        update = _combine(self._processes.gather(own))
        self._check(update)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return update

    def _loss_of(
        self,
        prefix_group: PrefixGroup,
        scores: Scores,
        scale: float,
        *,
        losses: list[Tensor],
        found: list[Measures],
    ) -> LossOf:
        """The loss function of the prefix group's micro-batches; it appends to `losses` and
        `found`."""

        def loss_of(suffixes: Sequence[int], logprobs: Tensor, entropy: Tensor) -> Tensor:
            tokens = token_batch(prefix_group, suffixes, logprobs, entropy, scores)
            token_losses, measures = self._loss(tokens)
            loss = (tokens.weights * token_losses).sum() * scale
            losses.append(loss.detach())
            found.append(measures)
            return loss

        return loss_of

    def _with_episode_values(
        self, prefix_groups: Sequence[PrefixGroup], scores: Sequence[Scores]
    ) -> Sequence[Scores]:
        """The scores with the values of whole episodes at the start of this update that the loss
        needs."""
        ratios = needs_episode_ratios(self._settings.loss)
        mismatch = needs_episode_mismatch(self._settings.loss)
        if not ratios and not mismatch:
            return scores
        log_ratios, mismatches = [], []
        for prefix_group, before in zip(prefix_groups, scores, strict=True):
            now = old = before.old
            if now is None or ratios:
                now = self._backend.score(self._model, prefix_group)
            # With a single update, the old log-probabilities are the current ones.
            old = now if old is None else old
            log_ratios.append(now - old)
            mismatches.append(old - sampler_logprobs(prefix_group).to(old))
        if ratios:
            means = means_of(self._episode_sums(prefix_groups, log_ratios))
            scores = [
                before._replace(episode_log_ratios=spread_over_tokens(one, means).to(values))
                for one, before, values in zip(prefix_groups, scores, log_ratios, strict=True)
            ]
        if mismatch:
            sums = self._episode_sums(prefix_groups, mismatches)
            totals, means = {one: total for one, (total, _) in sums.items()}, means_of(sums)
            scores = [
                before._replace(
                    episode_mismatch=spread_over_tokens(one, totals).to(values),
                    episode_mismatch_mean=spread_over_tokens(one, means).to(values),
                )
                for one, before, values in zip(prefix_groups, scores, mismatches, strict=True)
            ]
        return scores

    def _episode_sums(self, prefix_groups: Sequence[PrefixGroup], values: Sequence[Tensor]) -> Sums:
        """The sum and count of each episode's values. An episode may be in several prefix groups,
        and these in several processes."""
        return merge(self._processes.gather(merge(map(episode_sums, prefix_groups, values))))

    def _clip_gradient(self) -> float:
        """Clip the gradient by its norm; returns the norm before clipping."""
        parameters = trainable(self._model)
        norm = local(get_total_norm([p.grad for p in parameters if p.grad is not None]))
        clip_grads_with_norm_(parameters, self._settings.optimizer.max_grad_norm, norm)
        return norm.item()

    @staticmethod
    def _check(update: Update) -> None:
        """Raise TrainingError for a loss or gradient that is not finite."""
        if math.isfinite(update.loss) and math.isfinite(update.grad_norm):
            return
        raise TrainingError(
            f"the loss is {update.loss}, the norm of its gradient {update.grad_norm}"
        )


def _combine(updates: Sequence[Update]) -> Update:
    """The updates of all processes as one. Each one's norm is already that of the summed
    gradient."""
    return Update(
        loss=sum(update.loss for update in updates),
        grad_norm=updates[0].grad_norm,
        num_tokens=sum(update.num_tokens for update in updates),
        measures=merge(update.measures for update in updates),
    )
