"""The trainer: batches in, better weights out.

One call of `Trainer.step` takes one batch, and makes one optimiser update of it or several
(`minibatches`). Losses are sums over the whole update: the denominators are in the tokens' weights,
so that neither micro-batches nor processes change the result.

An update whose loss or gradient is not finite is not made: TrainingError. Earlier updates of the
same batch stand; the caller goes back to its last checkpoint.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from learner.backends.base import Backend, LossOf
from learner.backends.choose import backend_of
from learner.batch import Batch, Star
from learner.distributed import ALONE, Processes
from learner.errors import TrainingError
from learner.losses.base import Measures, PolicyLoss
from learner.losses.choose import loss_of, needs_episode_ratios
from learner.losses.measures import Sums, finished, merged, numbers
from learner.minibatches import dealt, minibatches, share_of_loss
from learner.model import open_model
from learner.optimizer import adamw, learning_rate, set_learning_rate, trainable
from learner.settings import TrainSettings
from learner.token_batches import Scores, episode_log_ratios, token_batch


class StepReport(msgspec.Struct, frozen=True):
    """What one batch did."""

    step: int  # batches that were trained, this one included
    loss: float  # the mean over the batch's updates
    grad_norm: float  # before it was clipped; the mean over the batch's updates
    lr: float
    updates: int
    measures: dict[str, float]  # what the loss measured (learner.losses)
    num_trained: int  # tokens
    num_tokens: int  # that were computed
    num_row_tokens: int  # that would have been, were each sample a row of its own
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of rows, whether computed or shared, in a second of training."""
        return self.num_row_tokens / self.seconds

    @property
    def shared(self) -> float:
        """The share of the rows' tokens that was not computed, since prefixes are shared."""
        return 1.0 - self.num_tokens / self.num_row_tokens


class _Update(msgspec.Struct, frozen=True):
    """What one update did."""

    loss: float
    grad_norm: float
    measures: Sums


class Trainer:
    """Trains one model. Not for concurrent use; torch works in the thread that calls."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainSettings,
        *,
        backend: Backend,
        loss: PolicyLoss,
        reference: nn.Module | None = None,
        processes: Processes = ALONE,
    ) -> None:
        """`reference` is the model whose log-probabilities the loss wants, None: it wants none."""
        self.model = model
        self.settings = settings
        self.processes = processes
        self.optimizer = adamw(model, settings.optimizer)
        self.num_steps = 0  # batches that were trained
        self._backend = backend
        self._loss = loss
        self._reference = reference

    def step(self, batch: Batch) -> StepReport:
        """Train one batch.

        Raises TrainingError when a loss or gradient is not finite, ValueError for a batch without
        trained tokens.
        """
        started = time.perf_counter()
        lr = learning_rate(self.num_steps, self.settings.optimizer, steps=self.settings.steps)
        set_learning_rate(self.optimizer, lr)
        updates = self._updates(batch)
        self.num_steps += 1
        return StepReport(
            step=self.num_steps,
            loss=sum(update.loss for update in updates) / len(updates),
            grad_norm=sum(update.grad_norm for update in updates) / len(updates),
            lr=lr,
            updates=len(updates),
            measures=finished(merged(update.measures for update in updates)),
            num_trained=batch.num_trained,
            num_tokens=batch.num_tokens,
            num_row_tokens=batch.num_row_tokens,
            seconds=time.perf_counter() - started,
        )

    def _updates(self, batch: Batch) -> list[_Update]:
        parts = minibatches(batch.stars, self.settings.optimizer.minibatches)
        mine = [self._dealt(part) for part in parts]
        # The batch's tokens weigh 1 together; so do those of each update, whatever their number.
        whole = share_of_loss(batch.stars)
        scales = [whole / share_of_loss(part) if len(parts) > 1 else 1.0 for part in parts]
        scores = [[self._scores(star, several=len(parts) > 1) for star in part] for part in mine]
        return [self._update(*work) for work in zip(mine, scores, scales, strict=True)]

    def _dealt(self, stars: Sequence[Star]) -> list[Star]:
        """This process's share of an update."""
        hands = dealt([star.num_tokens for star in stars], self.processes.size)
        return [stars[number] for number in hands[self.processes.rank]]

    def _scores(self, star: Star, *, several: bool) -> Scores:
        """What is computed before the batch's first update, of which there may be `several`."""
        reference = self._reference
        return Scores(
            old=self._backend.score(self.model, star) if several else None,
            reference=None if reference is None else self._backend.score(reference, star),
        )

    def _update(self, stars: Sequence[Star], scores: Sequence[Scores], scale: float) -> _Update:
        """Gradients of some stars, and the step that they give."""
        found: list[Measures] = []
        losses = [torch.zeros(())]
        self.optimizer.zero_grad()
        for star, before in zip(stars, scores, strict=True):
            now = self._with_episodes(star, before)
            self._backend.backward(
                self.model, star, self._loss_of(star, now, scale, losses=losses, found=found)
            )
        loss = sum(loss.item() for loss in losses)
        norm = get_total_norm(
            [p.grad for p in trainable(self.model) if p.grad is not None], foreach=None
        )
        self._check(loss, norm.item())
        clip_grads_with_norm_(trainable(self.model), self.settings.optimizer.max_grad_norm, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return _Update(loss, norm.item(), merged(map(numbers, found)))

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

        def loss_of_leaves(leaves: Sequence[int], logprobs: Tensor, entropy: Tensor) -> Tensor:
            tokens = token_batch(star, leaves, logprobs, entropy, scores)
            token_losses, measures = self._loss(tokens)
            loss = (tokens.weights * token_losses).sum() * scale
            losses.append(loss.detach())
            found.append(measures)
            return loss

        return loss_of_leaves

    def _with_episodes(self, star: Star, scores: Scores) -> Scores:
        """With the episodes' ratios at the start of this update, where the loss wants them."""
        if not needs_episode_ratios(self.settings.loss):
            return scores
        now = self._backend.score(self.model, star)
        old = now if scores.old is None else scores.old  # the only update begins where it stands
        return scores._replace(episode_log_ratios=episode_log_ratios(star, now, old))

    def _check(self, loss: float, norm: float) -> None:
        """Refuse numbers that are broken."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self.optimizer.zero_grad()
        what = f"its loss is {loss}" if not math.isfinite(loss) else f"its gradient is {norm}"
        raise TrainingError(f"batch {self.num_steps + 1} cannot be trained: {what}")


def open_trainer(settings: TrainSettings, *, processes: Processes = ALONE) -> Trainer:
    """The trainer that the settings ask for, at its first batch.

    Sets torch's seed and its number of threads. Raises ModelError.
    """
    compute = settings.compute
    if compute.threads is not None:
        torch.set_num_threads(compute.threads)
    torch.manual_seed(compute.seed)
    folder = Path(settings.model)
    reference = None
    if settings.loss.kl:
        reference = open_model(Path(settings.loss.reference or folder), compute)
        reference.requires_grad_(False)
    return Trainer(
        open_model(folder, compute),
        settings,
        backend=backend_of(compute),
        loss=loss_of(settings.loss),
        reference=reference,
        processes=processes,
    )
