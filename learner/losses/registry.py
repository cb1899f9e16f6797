"""The loss of a run, composed as its settings define."""

from torch import Tensor

from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.losses.base import Measures, PolicyLoss, TokenBatch
from rehearsal_room.learner.losses.cispo import Cispo
from rehearsal_room.learner.losses.clip import Clip
from rehearsal_room.learner.losses.distill import Distill
from rehearsal_room.learner.losses.entropy import entropy_losses
from rehearsal_room.learner.losses.gspo import Gspo
from rehearsal_room.learner.losses.kl import k3
from rehearsal_room.learner.losses.likelihood import Likelihood
from rehearsal_room.learner.losses.metrics import sum_and_count
from rehearsal_room.learner.losses.mismatch import is_kept, mismatch_measures, mismatch_weights
from rehearsal_room.learner.losses.tv import Tv


def loss_of(settings: LossSettings) -> PolicyLoss:
    """The policy loss that the settings name, with its corrections, bonus and divergence."""
    return CompositeLoss(_policy_loss(settings), settings)


def needs_reference(settings: LossSettings) -> bool:
    """Whether the loss needs the log-probabilities of a reference model."""
    return settings.kl > 0 or settings.policy == "distill"


def needs_episode_ratios(settings: LossSettings) -> bool:
    """Whether the loss needs TokenBatch.episode_log_ratios (see learner.losses.gspo)."""
    return settings.policy == "gspo" and settings.scope == "episode"


def needs_episode_mismatch(settings: LossSettings) -> bool:
    """Whether the loss needs TokenBatch.episode_mismatch and its mean (learner.losses.mismatch)."""
    return "episode" in (settings.mismatch, settings.reject) and settings.policy != "likelihood"


class CompositeLoss:
    """A policy loss, corrected for the mismatch between sampler and trainer, with an entropy bonus
    and the divergence from a reference model:

        losses = w (policy + entropy * bonus) + kl * k3        w: learner.losses.mismatch

    Cloned tokens were not sampled by the trained model, so `likelihood` is not corrected and its
    mismatch is not measured.
    """

    def __init__(self, policy: PolicyLoss, settings: LossSettings) -> None:
        self._policy = policy
        self._settings = settings

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        losses, measures = self._policy(tokens)
        measures |= _common_measures(tokens)
        if self._settings.entropy:
            bonus = entropy_losses(tokens.logprobs, tokens.entropy)
            losses = losses + self._settings.entropy * bonus
        if self._settings.policy != "likelihood":
            losses, found = self._correct_mismatch(losses, tokens)
            measures |= found
        if self._settings.kl:
            if tokens.reference is None:
                raise ValueError("loss.kl needs the reference model's log-probabilities")
            divergence = k3(tokens.logprobs, tokens.reference)
            losses = losses + self._settings.kl * divergence
            measures["kl"] = sum_and_count(divergence)
        return losses, measures

    def _correct_mismatch(self, losses: Tensor, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        settings = self._settings
        weights, kept = mismatch_weights(tokens, settings), is_kept(tokens, settings)
        measures = mismatch_measures(tokens, weights, kept, cap=settings.mismatch_cap)
        if settings.mismatch != "off":
            losses = losses * weights
        return (losses if settings.reject == "off" else losses * kept), measures


def _common_measures(tokens: TokenBatch) -> Measures:
    """The measurements of every loss. `drift_k3` estimates KL(old || model) per token: how far the
    batch's updates have moved the model."""
    log_ratios = tokens.logprobs.detach() - tokens.old
    return {
        "entropy": sum_and_count(tokens.entropy),
        "logprob": sum_and_count(tokens.logprobs),
        "ratio": sum_and_count(log_ratios.exp()),
        "drift_k3": sum_and_count(log_ratios.expm1() - log_ratios),
    }


def _policy_loss(settings: LossSettings) -> PolicyLoss:
    match settings.policy:
        case "clip":
            return Clip(low=settings.clip_low, high=settings.clip_high, dual=settings.dual_clip)
        case "cispo":
            return Cispo(low=settings.cispo_low, high=settings.cispo_high)
        case "gspo":
            return Gspo(
                low=settings.gspo_low,
                high=settings.gspo_high,
                whole_episodes=settings.scope == "episode",
            )
        case "tv":
            return Tv(bound=settings.tv_bound)
        case "likelihood":
            return Likelihood()
        case "distill":
            return Distill()
