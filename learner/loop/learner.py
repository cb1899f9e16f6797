"""A model that learns from groups; the loop calls it in a thread."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import CheckpointError, TrainingError
from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize
from rehearsal_room.learner.data.sample_lengths import TokenLimits
from rehearsal_room.learner.loop.loop import Learner
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.model.logprob_agreement import MAX_DIFFERENCE
from rehearsal_room.learner.model.memory import MemoryNeed
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.learner.trainer.trainer import StepReport, Trainer
from rehearsal_room.scenarios.files import UNREADABLE

_ANOTHER_MODEL = 0.5  # estimated divergence per token, in nats, too large for numerical differences
_LIVE_QUESTION = "Does the policy use the weights that are trained, at temperature 1 and top_p 1?"
_LOGS_QUESTION = (
    "Were the logs sampled by the model that is trained, at temperature 1 and top_p 1? Episodes of"
    " another policy can be cloned (loss.policy 'likelihood'), not compared."
)
_log = structlog.get_logger(__name__)


class RunLearner(Learner, Protocol):
    """A model that learns, with what a run needs of it beside the loop."""

    @property
    def limits(self) -> TokenLimits:
        """What the model can take."""

    @property
    def memory(self) -> MemoryNeed | None:
        """What the training needs; None: it was not measured."""

    def resume(self) -> TrainProgress | None:
        """Restore the newest checkpoint; returns its progress. None: there is none. Raises
        CheckpointError."""

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write the current weights and their model card as a folder. Raises CheckpointError."""

    def close(self) -> None:
        """Let go of other processes."""


class ModelLearner:
    """Trains a model on groups, writes checkpoints, publishes weights."""

    def __init__(
        self, trainer: Trainer, settings: TrainSettings, checkpoints: Path, *, is_live: bool
    ) -> None:
        """`is_live`: the groups are sampled during the run, with the weights that are trained."""
        self._trainer = trainer
        self._settings = settings
        self._checkpoints = checkpoints
        self._is_live = is_live

    @property
    def limits(self) -> TokenLimits:
        """What the model can take."""
        control = ChatTokenizer.open(Path(self._settings.model)).control_ids
        return TokenLimits.of(self._trainer.model, control)

    @property
    def memory(self) -> MemoryNeed | None:
        """What the training needs; None: it was not measured."""
        return self._trainer.memory

    def close(self) -> None:
        """End `follow` in the other processes."""
        self._trainer.close()

    def resume(self) -> TrainProgress | None:
        """Restore the newest checkpoint; returns its progress. None: there is none.

        Raises CheckpointError.
        """
        data = self._trainer.resume(self._checkpoints)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=TrainProgress)
        except UNREADABLE as exc:
            raise CheckpointError(
                f"{self._checkpoints}: the checkpoint's training progress cannot be read: {exc}"
            ) from exc

    def step(self, groups: Sequence[Group], also: GroupSize = NO_GROUPS) -> StepReport:
        """Make one batch's updates; see `rehearsal_room.learner.loop.loop.Learner`.

        Raises TrainingError, also when the first batch shows that the sampler does not use the
        model that is trained.
        """
        loss = self._settings.loss
        advantages = [advantages_of(group, loss) for group in groups]
        weights = weights_of(groups, loss.aggregate, length=loss.constant_length, also=also)
        # The other backends are references: they compute separate rows, neither shared nor merged.
        share = self._settings.compute.backend in ("twopass", "flex")
        report = self._trainer.step(batch_of(groups, advantages, weights, share=share, merge=share))
        if report.step == 1:
            self._check_agreement(report)
        if report.measures.get("mismatch_masked") == 1:
            _log.warning(
                "batch_masked",
                batch=report.step,
                why="loss.mismatch_above or loss.reject leaves out every token, so the loss is 0:"
                " sampler and trainer are too far apart",
                greatest_difference=report.measures.get("mismatch_max"),
            )
        return report

    def save(self, progress: TrainProgress, *, keep_all: bool = False) -> None:
        """Write a checkpoint; see `rehearsal_room.learner.loop.loop.Learner`. Raises
        CheckpointError; the previous checkpoint then stays."""
        keep = sys.maxsize if keep_all else self._settings.save.keep
        self._trainer.save(self._checkpoints, msgspec.json.encode(progress), keep=keep)

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write the current weights and their model card as a folder. Raises CheckpointError."""
        self._trainer.publish(folder, card)

    def _check_agreement(self, report: StepReport) -> None:
        """Compare the sampler's log-probabilities of a run's first batch with the trainer's."""
        divergence = report.measures.get("mismatch_k3")
        difference = report.measures.get("mismatch_max")
        if divergence is None or difference is None:
            return
        # Under other windows than those that were sampled, the probabilities are others, too.
        if divergence > _ANOTHER_MODEL and not self._settings.data.misaligned:
            raise TrainingError(
                f"batch {report.step}: the log-probabilities of sampler and trainer differ by up to"
                f" {difference:.2g} (divergence {divergence:.2g} per token)."
                f" {_LIVE_QUESTION if self._is_live else _LOGS_QUESTION}"
            )
        if difference > MAX_DIFFERENCE and self._settings.compute.dtype == "float32":
            _log.warning(
                "sampler_and_trainer_disagree",
                greatest_difference=difference,
                expected=MAX_DIFFERENCE,
                divergence_per_token=divergence,
            )
