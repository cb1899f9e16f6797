"""The trainer: batches in, better weights out.

One call of `Trainer.step` takes one batch, and makes one optimiser update of it or several
(`minibatches`). Losses are sums over the whole update: the denominators are in the tokens' weights,
so that neither micro-batches nor processes change the result.

An update whose loss or gradient is not finite is not made: TrainingError. Earlier updates of the
same batch stand; the caller goes back to its last checkpoint.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from transformers import PreTrainedModel

from harness.card import PolicyCard
from learner import checkpoints
from learner.backends.base import Backend, LossOf
from learner.backends.choose import backend_of
from learner.batch import Batch, Star
from learner.checkpoints import Manifest, identity_of
from learner.distributed import ALONE, Processes, local, shard, sum_gradients, whole
from learner.errors import LearnerError, TrainingError
from learner.losses.base import Measures, PolicyLoss
from learner.losses.choose import loss_of, needs_episode_ratios
from learner.losses.measures import Sums, finished, merged, numbers
from learner.minibatches import dealt, minibatches, share_of_loss
from learner.model import open_model, publish
from learner.optimizer import adamw, learning_rate, set_learning_rate, trainable
from learner.settings import TrainSettings
from learner.token_batches import Scores, episode_log_ratios, token_batch
from learner.training_state import restore, training_state, whole_weights

_T = TypeVar("_T")


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
    """Trains one model. Not for concurrent use; torch works in the thread that calls.

    Of several processes the first is told what to do, by `step`, `save`, `resume` and `publish`;
    the others are in `follow` and do the same. Each leaves its errors to the first, which raises
    them; `close` in the first ends `follow`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: TrainSettings,
        *,
        backend: Backend,
        loss: PolicyLoss,
        reference: PreTrainedModel | None = None,
        processes: Processes = ALONE,
    ) -> None:
        """`reference` is the model whose log-probabilities the loss wants, None: it wants none.
        Both are sharded here where there are several processes."""
        self.identity = identity_of(model, Path(settings.model))
        for sharded in (model, reference):
            if sharded is not None:
                shard(sharded, processes, settings.compute)
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
        return self._together(self._step, batch)

    def save(self, root: Path, place: bytes, *, keep: int) -> None:
        """Write a checkpoint with the feed's place below `root`; remove all but the last `keep`.

        Raises CheckpointError; the checkpoints before are then as they were.
        """
        self._together(self._save, root, place, keep)

    def resume(self, root: Path) -> bytes | None:
        """Go on from the newest checkpoint below `root`; gives the feed's place. None: there is no
        checkpoint, and nothing has changed.

        Raises CheckpointError when it cannot be read or is one of another model.
        """
        return self._together(self._resume, checkpoints.newest(root))

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write the weights as a Hugging Face directory; see `learner.model.publish`."""
        self._together(self._publish, folder, card)

    def follow(self) -> None:
        """Do what process 0 does, until it closes."""
        while (order := self.processes.told(None)) is not None:
            work, arguments = order
            # Process 0 meets the same error, and says it.
            with suppress(LearnerError):
                getattr(self, work)(*arguments)

    def close(self) -> None:
        """Let the processes that follow end."""
        self.processes.told(None)

    def _together(self, work: Callable[..., _T], *arguments: object) -> _T:
        """Do it in all processes. This one is the first."""
        self.processes.told((work.__name__, arguments))
        return work(*arguments)

    def _step(self, batch: Batch) -> StepReport:
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
        total = share_of_loss(batch.stars)
        scales = [total / share_of_loss(part) if len(parts) > 1 else 1.0 for part in parts]
        scores = self._scores(mine)
        return [self._update(*work) for work in zip(mine, scores, scales, strict=True)]

    def _dealt(self, stars: Sequence[Star]) -> list[Star]:
        """This process's share of an update."""
        hands = dealt([star.num_tokens for star in stars], self.processes.size)
        return [stars[number] for number in hands[self.processes.rank]]

    def _scores(self, parts: Sequence[Sequence[Star]]) -> list[list[Scores]]:
        """What is computed before the first of the updates: log-probabilities of the model where
        there is more than one, and of the reference."""
        old = self.model if len(parts) > 1 else None
        scored = [[self._scored(model, part) for model in (old, self._reference)] for part in parts]
        return [list(starmap(Scores, zip(*part, strict=True))) for part in scored]

    def _scored(self, model: nn.Module | None, stars: Sequence[Star]) -> Sequence[Tensor | None]:
        if model is None:
            return [None] * len(stars)
        with whole(model):
            return [self._backend.score(model, star) for star in stars]

    def _update(self, stars: Sequence[Star], scores: Sequence[Scores], scale: float) -> _Update:
        """Gradients of some stars, and the step that they give."""
        found: list[Measures] = []
        losses = [torch.zeros(())]
        self.optimizer.zero_grad()
        with whole(self.model):
            for star, before in zip(stars, scores, strict=True):
                now = self._with_episodes(star, before)
                loss_of_leaves = self._loss_of(star, now, scale, losses=losses, found=found)
                self._backend.backward(self.model, star, loss_of_leaves)
            sum_gradients(self.model, self._backend)
        own = sum(loss.item() for loss in losses), merged(map(numbers, found))
        of_all = self.processes.gathered(own)
        update = _Update(
            loss=sum(loss for loss, _ in of_all),
            grad_norm=self._clipped(),
            measures=merged(measures for _, measures in of_all),
        )
        self._check(update)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return update

    def _clipped(self) -> float:
        """Clip the gradient by its norm, which is given as it was."""
        parameters = trainable(self.model)
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        clip_grads_with_norm_(parameters, self.settings.optimizer.max_grad_norm, norm)
        return local(norm).item()

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

    def _check(self, update: _Update) -> None:
        """Refuse numbers that are broken."""
        if math.isfinite(update.loss) and math.isfinite(update.grad_norm):
            return
        self.optimizer.zero_grad()
        raise TrainingError(
            f"batch {self.num_steps + 1} cannot be trained: its loss is {update.loss}, "
            f"the norm of its gradient {update.grad_norm}"
        )

    def _save(self, root: Path, place: bytes, keep: int) -> None:
        manifest = Manifest(self.num_steps, self.identity, place, self.processes.size)
        state = training_state(self.model, self.optimizer, self.processes)
        checkpoints.save(root, state, manifest, self.processes)
        if self.processes.rank == 0:
            checkpoints.keep_newest(root, keep)

    def _resume(self, folder: Path | None) -> bytes | None:
        if folder is None:
            return None
        manifest = checkpoints.read_manifest(folder, self.identity)
        same = manifest.processes == self.processes.size
        state = training_state(self.model, self.optimizer, self.processes, random=same)
        checkpoints.load(folder, state, self.processes)
        restore(self.model, self.optimizer, self.processes, state)
        self.num_steps = manifest.step
        return manifest.place

    def _publish(self, folder: Path, card: PolicyCard) -> None:
        weights = whole_weights(self.model)
        if self.processes.rank == 0:
            start = Path(self.settings.model)
            dtype = getattr(torch, self.settings.compute.dtype)
            publish(folder, self.model, weights, card=card, start=start, dtype=dtype)


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
