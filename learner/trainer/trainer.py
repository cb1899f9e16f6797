"""The trainer: it updates a model's weights, batch by batch.

One call of `Trainer.step` takes one batch and makes one optimiser update or several
(`minibatches`). An update whose loss or gradient is not finite is not applied: TrainingError.
Earlier updates of the same batch remain applied; the caller returns to its last checkpoint.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog
import torch
from transformers import PreTrainedModel

from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.backends.registry import backend_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import (
    CheckpointError,
    DamagedError,
    LearnerError,
    ModelError,
    TrainingError,
)
from rehearsal_room.learner.losses.base import PolicyLoss
from rehearsal_room.learner.losses.metrics import means_of, merge
from rehearsal_room.learner.losses.registry import loss_of, needs_reference
from rehearsal_room.learner.model.adapters import add_adapters
from rehearsal_room.learner.model.distributed import SINGLE_PROCESS, Processes, shard
from rehearsal_room.learner.model.memory import MemoryNeed, memory_need
from rehearsal_room.learner.model.optimizer import adamw, learning_rate, set_learning_rate
from rehearsal_room.learner.model.pretrained import open_model, publish
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.trainer import checkpoints
from rehearsal_room.learner.trainer.checkpoints import CheckpointManifest, identity_of
from rehearsal_room.learner.trainer.state import full_weights, restore, training_state
from rehearsal_room.learner.trainer.updates import Updater
from rehearsal_room.scenarios.files import UNREADABLE

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class StepReport(msgspec.Struct, frozen=True):
    """The result of training one batch."""

    step: int  # batches trained, this one included
    # The next three are None where another trainer made the updates, and has them in its metrics.
    loss: float | None  # mean over the batch's updates
    grad_norm: float | None  # before clipping; mean over the batch's updates
    lr: float | None
    updates: int
    measures: dict[str, float]  # the loss's measurements (learner.losses)
    num_trained: int  # trained tokens
    num_tokens: int  # computed tokens
    num_row_tokens: int  # tokens that would be computed if each sample were a separate row
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of rows, computed or shared, per second of training."""
        return self.num_row_tokens / self.seconds

    @property
    def shared(self) -> float:
        """The share of the rows' tokens that was not computed because prefixes are shared."""
        return 1.0 - self.num_tokens / self.num_row_tokens


class Trainer:
    """Trains one model. Not for concurrent use; torch works in the calling thread.

    With several processes, `step`, `save`, `resume` and `publish` are called in process 0. The
    other processes are in `follow` and do the same. Process 0 raises the errors of all; its `close`
    ends `follow` in the others.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: TrainSettings,
        *,
        backend: Backend,
        loss: PolicyLoss,
        reference: PreTrainedModel | None = None,
        processes: Processes = SINGLE_PROCESS,
        memory: MemoryNeed | None = None,
    ) -> None:
        """`reference` is the model whose log-probabilities the loss needs; None: it needs none.
        With several processes, both models are sharded here. `memory` is what one process needs
        for training; None: it was not measured."""
        self.identity = identity_of(model, Path(settings.model))
        for sharded in (model, reference):
            if sharded is not None:
                shard(sharded, processes, settings.compute)
        self.model = model
        self.settings = settings
        self.processes = processes
        self.memory = memory
        self.optimizer = adamw(model, settings.optimizer)
        self.num_steps = 0  # batches trained
        self._is_out_of_step = False  # process 0 failed alone: the others cannot be reached
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

        Raises TrainingError if a loss or gradient is not finite, and ValueError for a batch without
        trained tokens.
        """
        if not batch.num_trained:
            raise ValueError("a batch without trained tokens cannot be trained on")
        return self._run_in_all(self._step, batch)

    def save(self, root: Path, progress: bytes, *, keep: int) -> None:
        """Write a checkpoint below `root`; remove all but the newest `keep`. `progress` is the
        caller's own state, which `resume` returns.

        Raises CheckpointError; the earlier checkpoints are then unchanged.
        """
        self._run_in_all(self._save, root, progress, keep)

    def resume(self, root: Path) -> bytes | None:
        """Restore the newest undamaged checkpoint below `root`; returns its `progress`. None: there
        is no checkpoint, and nothing has changed. A damaged one is named in a warning.

        Raises CheckpointError when all are damaged, or when the newest belongs to another model.
        """
        damaged: list[str] = []
        for folder in checkpoints.newest_first(root):
            try:
                checkpoints.check_files(folder, root)
                progress = self._run_in_all(self._resume, folder)
            except DamagedError as exc:
                damaged.append(str(exc))
                continue
            for why in damaged:
                _log.warning("checkpoint_damaged", why=why, resumed_from=folder.name)
            return progress
        if damaged:
            raise CheckpointError(
                f"{root}: no checkpoint can be read: {'; '.join(damaged)}. Put back a copy of one,"
                " or start in another folder"
            )
        return None

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write the weights as a Hugging Face directory; see
        `rehearsal_room.learner.model.pretrained.publish`."""
        self._run_in_all(self._publish, folder, card)

    def follow(self) -> None:
        """Do the same work as process 0, until it closes."""
        while (call := self.processes.broadcast(None)) is not None:
            work, arguments = call
            # Process 0 gets the same error, and raises it.
            with suppress(LearnerError):
                getattr(self, work)(*arguments)

    def close(self) -> None:
        """End `follow` in the other processes, if they can still be reached."""
        if not self._is_out_of_step:
            self.processes.broadcast(None)

    def _run_in_all(self, work: Callable[..., _T], *arguments: object) -> _T:
        """Run a method in all processes; called in process 0."""
        self.processes.broadcast((work.__name__, arguments))
        try:
            return work(*arguments)
        except LearnerError:
            raise  # it was raised in all processes
        except BaseException:
            # The others may wait for data that this one will not send. torchrun ends them when this
            # process exits.
            self._is_out_of_step = True
            raise

    def _step(self, batch: Batch) -> StepReport:
        started = time.perf_counter()
        lr = learning_rate(self.num_steps, self.settings.optimizer, steps=self.settings.steps)
        set_learning_rate(self.optimizer, lr)
        try:
            updates = self._updater.updates(batch.prefix_groups)
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
            measures=means_of(merge(update.measures for update in updates)),
            num_trained=batch.num_trained,
            num_tokens=sum(update.num_tokens for update in updates),
            num_row_tokens=batch.num_row_tokens,
            seconds=time.perf_counter() - started,
        )

    def _save(self, root: Path, progress: bytes, keep: int) -> None:
        manifest = CheckpointManifest(self.num_steps, self.identity, progress, self.processes.size)
        state = training_state(self.model, self.optimizer, self.processes)
        checkpoints.save(root, state, manifest, self.processes)
        if self.processes.rank == 0:
            checkpoints.keep_newest(root, keep)

    def _resume(self, folder: Path) -> bytes:
        manifest = checkpoints.read_manifest(folder, self.identity)
        same_size = manifest.processes == self.processes.size
        state = training_state(self.model, self.optimizer, self.processes, random=same_size)
        checkpoints.load(folder, state, self.processes)
        restore(self.model, self.optimizer, self.processes, state)
        self.num_steps = manifest.step
        return manifest.progress

    def _publish(self, folder: Path, card: PolicyCard) -> None:
        weights = full_weights(self.model)
        if self.processes.rank == 0:
            start = Path(self.settings.model)
            dtype = getattr(torch, self.settings.compute.dtype)
            publish(folder, self.model, weights, card=card, start=start, dtype=dtype)


def open_trainer(settings: TrainSettings, *, processes: Processes = SINGLE_PROCESS) -> Trainer:
    """Open the trainer that the settings define, before its first batch.

    Sets torch's seed and its number of threads. Raises ModelError and ConfigError.
    """
    compute = settings.compute
    if compute.threads is not None:
        torch.set_num_threads(compute.threads)
    torch.manual_seed(compute.seed)
    model = open_model(Path(settings.model), compute)
    if settings.lora.rank:
        add_adapters(model, settings.lora, base=Path(settings.model))
    memory = memory_need(model, settings)
    return Trainer(
        model,
        settings,
        backend=backend_of(compute),
        loss=loss_of(settings.loss),
        reference=_reference(model, settings) if needs_reference(settings.loss) else None,
        processes=processes,
        memory=memory,
    )


def _reference(model: PreTrainedModel, settings: TrainSettings) -> PreTrainedModel:
    """The reference model of the divergence, or the teacher. Raises ModelError."""
    folder = Path(settings.loss.reference or settings.model)
    reference = open_model(folder, settings.compute)
    found, expected = reference.config.vocab_size, model.config.vocab_size
    if found != expected:
        raise ModelError(
            f"loss.reference: {folder} has {found} tokens, but the trained model has {expected}"
        )
    if _vocabulary(folder) != _vocabulary(Path(settings.model)):
        raise ModelError(
            f"loss.reference: the tokenizer of {folder} is not that of {settings.model}: the same"
            " ids would be other words"
        )
    reference.requires_grad_(False)
    return reference


def _vocabulary(folder: Path) -> object:
    """The tokens of a model's tokenizer.json, with their ids. Raises ModelError."""
    path = folder / "tokenizer.json"
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Tokenizer)
    except (OSError, *UNREADABLE) as exc:
        raise ModelError(f"{path}: the tokenizer cannot be read: {exc}") from exc
    added = {(token.get("id"), token.get("content")) for token in found.added_tokens}
    return found.model.get("vocab"), added


class _Tokenizer(msgspec.Struct):
    """The parts of a tokenizer.json that give ids to tokens."""

    model: dict[str, Any]
    added_tokens: list[dict[str, Any]] = []
