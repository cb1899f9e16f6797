"""The loss of a run, put together by its settings."""

from torch import Tensor

from learner.config.settings import LossSettings
from learner.losses.base import Measures, PolicyLoss, TokenBatch
from learner.losses.cispo import Cispo
from learner.losses.clip import Clip
from learner.losses.entropy import entropy_losses
from learner.losses.gspo import Gspo
from learner.losses.kl import k3
from learner.losses.likelihood import Likelihood
from learner.losses.metrics import averaged
from learner.losses.mismatch import mismatch_measures, step_weights, token_weights
from learner.losses.tv import Tv


def loss_of(settings: LossSettings) -> PolicyLoss:
    """The policy loss that the settings ask for, with all that goes with it."""
    return WholeLoss(_policy_loss(settings), settings)


def needs_episode_ratios(settings: LossSettings) -> bool:
    """Whether TokenBatch.episode_log_ratios must be there (see learner.losses.gspo)."""
    return settings.policy == "gspo" and settings.scope == "episode"


class WholeLoss:
    """A policy loss, corrected for the mismatch of sampler and trainer, with the divergence from
    a reference and a bonus for entropy:

        losses = w (policy + entropy * bonus) + kl * k3

    Cloned tokens were not sampled by a model that is trained here, so that `likelihood` is not
    corrected and no mismatch is measured.
    """

    def __init__(self, policy: PolicyLoss, settings: LossSettings) -> None:
        self._policy = policy
        self._settings = settings

    def __call__(self, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        losses, measures = self._policy(tokens)
        measures |= _what_is_always_measured(tokens)
        if self._settings.entropy:
            bonus = entropy_losses(tokens.logprobs, tokens.entropy)
            losses = losses + self._settings.entropy * bonus
        if self._settings.policy != "likelihood":
            losses, found = self._corrected(losses, tokens)
            measures |= found
        if self._settings.kl:
            if tokens.reference is None:
                raise ValueError("a divergence needs the reference's log-probabilities")
            divergence = k3(tokens.logprobs, tokens.reference)
            losses = losses + self._settings.kl * divergence
            measures["kl"] = averaged(divergence)
        return losses, measures

    def _corrected(self, losses: Tensor, tokens: TokenBatch) -> tuple[Tensor, Measures]:
        cap = self._settings.mismatch_cap
        weigh = step_weights if self._settings.mismatch == "step" else token_weights
        weights = weigh(tokens, cap=cap)
        measures = mismatch_measures(tokens, weights, cap=cap)
        return losses if self._settings.mismatch == "off" else losses * weights, measures


def _what_is_always_measured(tokens: TokenBatch) -> Measures:
    """`drift_k3` estimates KL(old || model) per token: how far the batch's updates have come."""
    log_ratios = tokens.logprobs.detach() - tokens.old
    return {
        "entropy": averaged(tokens.entropy),
        "logprob": averaged(tokens.logprobs),
        "ratio": averaged(log_ratios.exp()),
        "drift_k3": averaged(log_ratios.expm1() - log_ratios),
    }


def _policy_loss(settings: LossSettings) -> PolicyLoss:
    match settings.policy:
        case "clip":
            return Clip(low=settings.clip_low, high=settings.clip_high)
        case "cispo":
            return Cispo(high=settings.cispo_high)
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
