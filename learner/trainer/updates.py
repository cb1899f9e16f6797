"""One optimiser update: stars in, gradients summed, clipped and stepped.

The loss of an update is a sum over its tokens, weighted; the denominators are in the weights. So
neither micro-batches nor the processes that share the work change it.
"""

import math
from collections.abc import Sequence
from itertools import starmap

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from learner.backends.base import Backend, LossOf
from learner.config.settings import TrainSettings
from learner.core.errors import TrainingError
from learner.losses.base import Measures, PolicyLoss
from learner.losses.metrics import Sums, finished, merged, numbers
from learner.losses.registry import needs_episode_ratios
from learner.model.distributed import Processes, local, sum_gradients, whole
from learner.model.optimizer import trainable
from learner.packing.batch import Star
from learner.packing.minibatches import dealt, fewer_passes, minibatches, share_of_loss
from learner.packing.token_batches import Scores, episode_sums, of_episodes, token_batch


class Update(msgspec.Struct, frozen=True):
    """What one update did, in one process or in all together."""

    loss: float
    grad_norm: float  # before it was clipped
    num_tokens: int  # that were computed
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

    def updates(self, stars: Sequence[Star]) -> list[Update]:
        """Make the updates of one batch. Raises TrainingError at the first whose loss or gradient
        is not finite; it is not made, those before it stand."""
        parts = minibatches(stars, self._settings.optimizer.minibatches)
        mine = [self._dealt(part) for part in parts]
        # The tokens of a batch weigh 1 together; so do those of each of its updates.
        total = share_of_loss(stars)
        scales = [total / share_of_loss(part) if len(parts) > 1 else 1.0 for part in parts]
        scores = self._scores(mine)
        return [self._update(*work) for work in zip(mine, scores, scales, strict=True)]

    def _dealt(self, stars: Sequence[Star]) -> list[Star]:
        """This process's share of an update."""
        hands = dealt([star.num_tokens for star in stars], self._processes.size)
        return fewer_passes([stars[number] for number in hands[self._processes.rank]])

    def _scores(self, parts: Sequence[Sequence[Star]]) -> list[list[Scores]]:
        """What is computed before the first of the updates: log-probabilities of the model where
        there is more than one, and of the reference."""
        old = self._model if len(parts) > 1 else None
        scored = [[self._scored(model, part) for model in (old, self._reference)] for part in parts]
        return [list(starmap(Scores, zip(*part, strict=True))) for part in scored]

    def _scored(self, model: nn.Module | None, stars: Sequence[Star]) -> Sequence[Tensor | None]:
        if model is None:
            return [None] * len(stars)
        with whole(model):
            return [self._backend.score(model, star) for star in stars]

    def _update(self, stars: Sequence[Star], scores: Sequence[Scores], scale: float) -> Update:
        """Gradients of some stars, and the step that they give."""
        found: list[Measures] = []
        losses = [torch.zeros(())]
        self._optimizer.zero_grad()
        with whole(self._model):
            for star, known in zip(stars, self._with_episodes(stars, scores), strict=True):
                loss_of = self._loss_of(star, known, scale, losses=losses, found=found)
                self._backend.backward(self._model, star, loss_of)
            sum_gradients(self._model, self._backend)
        own = Update(
            loss=sum(loss.item() for loss in losses),
            grad_norm=self._clipped(),
            num_tokens=sum(star.num_tokens for star in stars),
            measures=merged(map(numbers, found)),
        )
        update = _of_all(self._processes.gathered(own))
        self._check(update)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return update

    def _loss_of(
        self,
        star: Star,
        scores: Scores,
        scale: float,
        *,
        losses: list[Tensor],
        found: list[Measures],
    ) -> LossOf:
        """The loss of the star's micro-batches; `losses` and `found` take in what it gives."""

        def loss_of(leaves: Sequence[int], logprobs: Tensor, entropy: Tensor) -> Tensor:
            tokens = token_batch(star, leaves, logprobs, entropy, scores)
            token_losses, measures = self._loss(tokens)
            loss = (tokens.weights * token_losses).sum() * scale
            losses.append(loss.detach())
            found.append(measures)
            return loss

        return loss_of

    def _with_episodes(self, stars: Sequence[Star], scores: Sequence[Scores]) -> Sequence[Scores]:
        """With the episodes' ratios at the start of this update, where the loss wants them. An
        episode may lie in several stars, and these in several processes."""
        if not needs_episode_ratios(self._settings.loss):
            return scores
        log_ratios = []
        for star, before in zip(stars, scores, strict=True):
            now = self._backend.score(self._model, star)
            # The only update begins where it stands.
            log_ratios.append(now - (now if before.old is None else before.old))
        sums = merged(map(episode_sums, stars, log_ratios))
        means = finished(merged(self._processes.gathered(sums)))
        return [
            before._replace(episode_log_ratios=of_episodes(star, means).to(values))
            for star, before, values in zip(stars, scores, log_ratios, strict=True)
        ]

    def _clipped(self) -> float:
        """Clip the gradient by its norm, which is given as it was."""
        parameters = trainable(self._model)
        norm = local(get_total_norm([p.grad for p in parameters if p.grad is not None]))
        clip_grads_with_norm_(parameters, self._settings.optimizer.max_grad_norm, norm)
        return norm.item()

    @staticmethod
    def _check(update: Update) -> None:
        """Refuse numbers that are broken."""
        if math.isfinite(update.loss) and math.isfinite(update.grad_norm):
            return
        raise TrainingError(
            f"the loss is {update.loss}, the norm of its gradient {update.grad_norm}"
        )


def _of_all(updates: Sequence[Update]) -> Update:
    """What the processes did, as one. The norm is that of the summed gradient in each."""
    return Update(
        loss=sum(update.loss for update in updates),
        grad_norm=updates[0].grad_norm,
        num_tokens=sum(update.num_tokens for update in updates),
        measures=merged(update.measures for update in updates),
    )
