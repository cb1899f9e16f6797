"""The trainer: batches in, better weights out.

One call of `Trainer.step` takes one batch, and makes one optimiser update of it or several
(`minibatches`). An update whose loss or gradient is not finite is not made: TrainingError. Earlier
updates of the same batch stand; the caller goes back to its last checkpoint.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from transformers import PreTrainedModel

from harness.core.policy_card import PolicyCard
from learner.backends.base import Backend
from learner.backends.registry import backend_of
from learner.config.settings import TrainSettings
from learner.core.errors import LearnerError, ModelError, TrainingError
from learner.losses.base import PolicyLoss
from learner.losses.metrics import finished, merged
from learner.losses.registry import loss_of
from learner.model.distributed import ALONE, Processes, shard
from learner.model.optimizer import adamw, learning_rate, set_learning_rate
from learner.model.pretrained import open_model, publish
from learner.packing.batch import Batch
from learner.trainer import checkpoints
from learner.trainer.checkpoints import Manifest, identity_of
from learner.trainer.state import restore, training_state, whole_weights
from learner.trainer.updates import Updater

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
        self._is_lost = False
        self._updater = Updater(
            model,
            self.optimizer,
            settings,
            backend=backend,
            loss=loss,
            reference=reference,
            processes=processes,
        )

    def step(self, batch: Batch) -> StepReport:
        """Train one batch.

        Raises TrainingError when a loss or gradient is not finite, ValueError for a batch without
        trained tokens.
        """
        if not batch.num_trained:
            raise ValueError("a batch without trained tokens cannot be trained on")
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
        """Write the weights as a Hugging Face directory; see `learner.model.pretrained.publish`."""
        self._together(self._publish, folder, card)

    def follow(self) -> None:
        """Do what process 0 does, until it closes."""
        while (order := self.processes.told(None)) is not None:
            work, arguments = order
            # Process 0 meets the same error, and says it.
            with suppress(LearnerError):
                getattr(self, work)(*arguments)

    def close(self) -> None:
        """Let the processes that follow end, if they can still hear it."""
        if not self._is_lost:
            self.processes.told(None)

    def _together(self, work: Callable[..., _T], *arguments: object) -> _T:
        """Do it in all processes. This one is the first."""
        self.processes.told((work.__name__, arguments))
        try:
            return work(*arguments)
        except LearnerError:
            raise  # all processes have come to the same end
        except BaseException:
            # The others may wait for what this one will not send. torchrun ends them when it exits.
            self._is_lost = True
            raise

    def _step(self, batch: Batch) -> StepReport:
        started = time.perf_counter()
        lr = learning_rate(self.num_steps, self.settings.optimizer, steps=self.settings.steps)
        set_learning_rate(self.optimizer, lr)
        try:
            updates = self._updater.updates(batch.stars)
        except TrainingError as exc:
            number = self.num_steps + 1
            raise TrainingError(f"batch {number} cannot be trained on: {exc}") from exc
        self.num_steps += 1
        return StepReport(
            step=self.num_steps,
            loss=sum(update.loss for update in updates) / len(updates),
            grad_norm=sum(update.grad_norm for update in updates) / len(updates),
            lr=lr,
            updates=len(updates),
            measures=finished(merged(update.measures for update in updates)),
            num_trained=batch.num_trained,
            num_tokens=sum(update.num_tokens for update in updates),
            num_row_tokens=batch.num_row_tokens,
            seconds=time.perf_counter() - started,
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

    Sets torch's seed and its number of threads. Raises ModelError and ConfigError.
    """
    compute = settings.compute
    if compute.threads is not None:
        torch.set_num_threads(compute.threads)
    torch.manual_seed(compute.seed)
    model = open_model(Path(settings.model), compute)
    return Trainer(
        model,
        settings,
        backend=backend_of(compute),
        loss=loss_of(settings.loss),
        reference=_reference(model, settings) if settings.loss.kl else None,
        processes=processes,
    )


def _reference(model: PreTrainedModel, settings: TrainSettings) -> PreTrainedModel:
    """The model from which the divergence is measured. Raises ModelError."""
    folder = Path(settings.loss.reference or settings.model)
    reference = open_model(folder, settings.compute)
    found, wanted = reference.config.vocab_size, model.config.vocab_size
    if found != wanted:
        raise ModelError(
            f"loss.reference: {folder} has {found} tokens, and the model that is trained has"
            f" {wanted}"
        )
    reference.requires_grad_(False)
    return reference
