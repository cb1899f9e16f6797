"""A model that learns from groups: what the loop calls in a thread."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from harness.core.policy_card import PolicyCard
from learner.advantages.registry import advantages_of
from learner.config.settings import TrainSettings
from learner.core.errors import CheckpointError, TrainingError
from learner.core.samples import Group
from learner.loop.progress_state import Place
from learner.losses.aggregation import weights_of
from learner.packing.prefix_groups import batch_of
from learner.trainer.trainer import StepReport, Trainer

AGREEMENT = 1e-4  # between log-probabilities of sampler and trainer, in float32
_ANOTHER_MODEL = 0.5  # estimated divergence per token, in nats, that no numerics explain
_log = structlog.get_logger(__name__)


class ModelLearner:
    """Trains a model on groups, keeps checkpoints, publishes weights."""

    def __init__(
        self, trainer: Trainer, settings: TrainSettings, checkpoints: Path, *, is_live: bool
    ) -> None:
        """`is_live`: the groups are sampled now, with the weights that are trained."""
        self._trainer = trainer
        self._settings = settings
        self._checkpoints = checkpoints
        self._is_live = is_live

    def resume(self) -> Place | None:
        """Go on from the newest checkpoint; None: there is none. Raises CheckpointError."""
        data = self._trainer.resume(self._checkpoints)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Place)
        except msgspec.DecodeError as exc:
            raise CheckpointError(
                f"{self._checkpoints}: the place in the run cannot be read: {exc}"
            ) from exc

    def step(self, groups: Sequence[Group]) -> StepReport:
        """Make one batch's updates.

        Raises TrainingError, also when the first batch shows that the sampler plays with another
        model than is trained.
        """
        loss = self._settings.loss
        advantages = [advantages_of(group, loss) for group in groups]
        weights = weights_of(groups, loss.aggregate)
        # Rows of their own are the reference: neither shared nor merged.
        share = self._settings.compute.backend in ("twopass", "flex")
        report = self._trainer.step(batch_of(groups, advantages, weights, share=share, merge=share))
        if self._is_live and report.step == 1:
            self._check_agreement(report)
        return report

    def save(self, place: Place, *, keep_all: bool = False) -> None:
        """Write a checkpoint; see `learner.loop.loop.Learner`. Raises CheckpointError; the one
        before
        stays."""
        keep = sys.maxsize if keep_all else self._settings.save.keep
        self._trainer.save(self._checkpoints, msgspec.json.encode(place), keep=keep)

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write the present weights and their card as a folder. Raises CheckpointError."""
        self._trainer.publish(folder, card)

    def _check_agreement(self, report: StepReport) -> None:
        """Hold the sampler's log-probabilities of a run's first batch against the trainer's."""
        divergence = report.measures.get("mismatch_k3")
        apart = report.measures.get("mismatch_max")
        if divergence is None or apart is None:
            return
        if divergence > _ANOTHER_MODEL:
            raise TrainingError(
                f"batch {report.step}: the sampler's log-probabilities are not the trainer's: they"
                f" differ by up to {apart:.2g} (divergence {divergence:.2g} per token). Does the"
                " policy play with the weights that are trained, at temperature 1 and top_p 1?"
            )
        if apart > AGREEMENT and self._settings.compute.dtype == "float32":
            _log.warning(
                "sampler_and_trainer_disagree",
                greatest_difference=apart,
                expected=AGREEMENT,
                divergence_per_token=divergence,
            )
