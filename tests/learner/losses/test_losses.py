"""Losses of tokens: compared with values by hand, with autograd, and in expectation over a whole
vocabulary.

float64 everywhere; "equal" means within 1e-12 unless a test states otherwise.
"""

from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.losses.base import PolicyLoss, TokenBatch
from rehearsal_room.learner.losses.cispo import Cispo
from rehearsal_room.learner.losses.clip import Clip
from rehearsal_room.learner.losses.distill import Distill
from rehearsal_room.learner.losses.entropy import entropy_losses
from rehearsal_room.learner.losses.gspo import Gspo, mean_log_ratios
from rehearsal_room.learner.losses.kl import k3
from rehearsal_room.learner.losses.likelihood import Likelihood
from rehearsal_room.learner.losses.metrics import means_of, merge, to_numbers
from rehearsal_room.learner.losses.mismatch import (
    is_kept,
    mismatch_measures,
    mismatch_weights,
)
from rehearsal_room.learner.losses.registry import loss_of, needs_episode_ratios
from rehearsal_room.learner.losses.tv import Tv


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def assert_equal(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def batch(
    logprobs: Tensor,
    advantages: Tensor,
    *,
    old: Tensor | None = None,
    sampler: Tensor | None = None,
    steps: list[int] | None = None,
    episodes: list[int] | None = None,
    entropy: Tensor | None = None,
    reference: Tensor | None = None,
    episode_log_ratios: Tensor | None = None,
    episode_mismatch: Tensor | None = None,
    episode_mismatch_mean: Tensor | None = None,
) -> TokenBatch:
    """Tokens of one step by default, with the model's log-probabilities as old and sampler."""
    current = logprobs.detach()
    old = current if old is None else old
    return TokenBatch(
        logprobs=logprobs.requires_grad_(),
        old=old,
        sampler=old if sampler is None else sampler,
        advantages=advantages,
        weights=torch.ones_like(current),
        steps=torch.tensor(steps or [0] * len(current), dtype=torch.int64),
        episodes=torch.tensor(episodes or [0] * len(current), dtype=torch.int64),
        entropy=torch.zeros_like(current) if entropy is None else entropy,
        reference=reference,
        episode_log_ratios=episode_log_ratios,
        episode_mismatch=episode_mismatch,
        episode_mismatch_mean=episode_mismatch_mean,
    )


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, of)
    return found


def capped(cap: float, unit: str = "token", **more: object) -> LossSettings:
    return LossSettings(mismatch=unit, mismatch_cap=cap, **more)  # type: ignore[arg-type]


def measures_of(tokens: TokenBatch, settings: LossSettings) -> dict[str, float]:
    weights, kept = mismatch_weights(tokens, settings), is_kept(tokens, settings)
    return means_of(to_numbers(mismatch_measures(tokens, weights, kept, cap=settings.mismatch_cap)))


def measured(loss: PolicyLoss, tokens: TokenBatch) -> dict[str, float]:
    return means_of(to_numbers(loss(tokens)[1]))


# Ratios of six tokens, with advantages; the bounds that matter are 0.8 and 1.28.
RATIOS = vector(1.0, 1.2, 1.5, 0.7, 1.5, 0.7)
ADVANTAGES = vector(1.0, -2.0, 1.0, -1.0, -1.0, 2.0)
OLD = vector(-0.5, -1.0, -1.5, -2.0, -2.5, -3.0)


def moved() -> Tensor:
    return OLD + RATIOS.log()


def test_a_ratio_is_clipped_on_the_side_that_its_advantage_pushes_it_to() -> None:
    """With a positive advantage at 1.28, with a negative one at 0.8; the gradient there is 0."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, _ = Clip(low=0.2, high=0.28)(tokens)
    assert_equal(losses, vector(-1.0, 2.4, -1.28, 0.8, 1.5, -1.4))
    assert_equal(gradient(losses.sum(), tokens.logprobs), vector(-1.0, 2.4, 0.0, 0.0, 1.5, -1.4))


def test_only_tokens_without_a_gradient_count_as_clipped() -> None:
    """Two of eight are clipped low, three high; one token on each side moves back to the bounds."""
    ratios = vector(0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 2.0, 1.0)
    advantages = vector(-1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0)
    old = torch.full_like(ratios, -3.0)
    found = measured(Clip(low=0.2, high=0.28), batch(old + ratios.log(), advantages, old=old))
    assert found == {"clipped_low": 2 / 8, "clipped_high": 3 / 8}


def test_cispo_bounds_the_weight_and_keeps_every_gradient() -> None:
    """The loss is -min(ratio, 1.3) A logprob, and the gradient is the same without logprob."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, measures = Cispo(high=1.3)(tokens)
    weights = vector(1.0, 1.2, 1.3, 0.7, 1.3, 0.7)
    assert_equal(losses, -weights * ADVANTAGES * moved())
    assert_equal(gradient(losses.sum(), tokens.logprobs), -weights * ADVANTAGES)
    assert means_of(to_numbers(measures)) == pytest.approx({"clipped_high": 2 / 6})


def test_the_dual_clip_bounds_the_ratio_of_bad_tokens() -> None:
    """Where the advantage is negative, a ratio above 1.4 costs as much as 1.4 and has no gradient;
    nothing else changes (arXiv:1912.09729)."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, measures = Clip(low=0.2, high=0.28, dual=1.4)(tokens)
    assert_equal(losses, vector(-1.0, 2.4, -1.28, 0.8, 1.4, -1.4))
    assert_equal(gradient(losses.sum(), tokens.logprobs), vector(-1.0, 2.4, 0.0, 0.0, 0.0, -1.4))
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx(
        {"clipped_low": 1 / 6, "clipped_high": 1 / 6, "clipped_dual": 1 / 6}
    )


def test_cispo_has_a_lower_bound_where_it_is_set() -> None:
    """Weights are at least 0.9: two tokens of ratio 0.7 keep more weight, the others theirs."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, measures = Cispo(low=0.9, high=1.3)(tokens)
    weights = vector(1.0, 1.2, 1.3, 0.9, 1.3, 0.9)
    assert_equal(losses, -weights * ADVANTAGES * moved())
    assert_equal(gradient(losses.sum(), tokens.logprobs), -weights * ADVANTAGES)
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx({"clipped_high": 2 / 6, "clipped_low": 2 / 6})


def test_total_variation_bounds_probabilities_not_ratios() -> None:
    """A rare token whose probability doubled keeps its gradient; a common one that moved by 0.3 has
    none, except in the direction back."""
    old = vector(0.001, 0.6, 0.6, 0.6, 0.6).log()
    now = vector(0.002, 0.9, 0.9, 0.3, 0.3).log()
    tokens = batch(now, vector(1.0, 1.0, -1.0, -1.0, 1.0), old=old)
    losses, measures = Tv(bound=0.2)(tokens)
    expected = vector(-2.0, 0.0, 1.5, 0.0, -0.5)  # -ratio * advantage, and its own gradient
    assert_equal(losses, expected)
    assert_equal(gradient(losses.sum(), tokens.logprobs), expected)
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx({"clipped_low": 1 / 5, "clipped_high": 1 / 5})


@pytest.mark.parametrize("loss", [Clip(low=0.2, high=0.28), Tv(bound=0.2)])
def test_gradients_are_those_of_finite_differences(loss: PolicyLoss) -> None:
    """Away from the kinks, the gradient is the derivative of the loss."""

    def losses(logprobs: Tensor) -> Tensor:
        return loss(batch(logprobs, ADVANTAGES, old=OLD))[0]

    assert torch.autograd.gradcheck(losses, moved().requires_grad_())


@pytest.mark.parametrize(
    "loss",
    [
        Clip(low=0.2, high=0.28),
        Cispo(high=5.0),
        Gspo(low=3e-4, high=4e-4, whole_episodes=False),
        Gspo(low=3e-4, high=4e-4, whole_episodes=True),
        Tv(bound=0.2),
    ],
)
def test_before_the_first_update_every_loss_is_the_policy_gradient(loss: PolicyLoss) -> None:
    """If the ratio is 1, the gradient is that of -A logprobs."""
    tokens = batch(moved(), ADVANTAGES, steps=[0, 0, 1, 1, 1, 2], episode_log_ratios=torch.zeros(6))
    losses, _ = loss(tokens)
    assert_equal(gradient(losses.sum(), tokens.logprobs), -ADVANTAGES)


def test_likelihood_is_the_cross_entropy_of_good_episodes() -> None:
    """For rewards of 1, in value and in the gradient with respect to the logits."""
    torch.manual_seed(0)
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([3, 0, 6, 6, 2])
    expected = cross_entropy(logits, targets, reduction="none")
    logprobs = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    losses, _ = Likelihood()(batch(logprobs, torch.ones(5, dtype=torch.float64)))
    assert_equal(losses, expected)
    assert_equal(gradient(losses.sum(), logits), gradient(expected.sum(), logits))


def test_likelihood_ignores_episodes_of_reward_0_or_less() -> None:
    """An episode of reward 0 or -1 has no gradient, one of 0.1 a tenth of the full one."""
    tokens = batch(vector(-1.0, -1.0, -1.0), vector(0.0, -1.0, 0.1))
    losses, _ = Likelihood()(tokens)
    assert_equal(gradient(losses.sum(), tokens.logprobs), vector(0.0, 0.0, -0.1))


# Sequences of GSPO: seven tokens of three steps, in a mixed order.
STEPS = [4, 9, 4, 9, 9, 2, 4]
STEP_ADVANTAGES = {4: 1.0, 9: -1.0, 2: 1.0}
SHIFTS = vector(0.10, 0.02, -0.06, 0.01, 0.03, 0.5, 0.08)  # step means 0.04, 0.02 and 0.5


def sequence_objective(logprobs: Tensor, old: Tensor, *, low: float, high: float) -> Tensor:
    """GSPO as in its paper: a loss per sequence, differentiated through its ratio."""
    losses = []
    for step, advantage in STEP_ADVANTAGES.items():
        mine = torch.tensor([number == step for number in STEPS])
        ratio = (logprobs - old)[mine].mean().exp()
        bounded = ratio.clamp(1 - low, 1 + high)
        losses.append(-torch.minimum(ratio * advantage, bounded * advantage))
    return torch.stack(losses).mean()


def test_gspo_over_steps_is_the_papers_objective_with_equal_step_weights() -> None:
    """In value and gradient; the third step, of ratio 1.65, is clipped as a whole."""
    old = vector(-1.0, -2.0, -0.5, -0.1, -3.0, -1.0, -0.7)
    logprobs = (old + SHIFTS).requires_grad_()
    advantages = vector(*(STEP_ADVANTAGES[step] for step in STEPS))
    tokens = batch(logprobs, advantages, old=old, steps=STEPS)
    weights = vector(*(1 / (3 * STEPS.count(step)) for step in STEPS))
    losses, measures = Gspo(low=0.03, high=0.1, whole_episodes=False)(tokens)
    expected = sequence_objective(logprobs, old, low=0.03, high=0.1)
    assert_equal((weights * losses).sum(), expected)
    found = gradient((weights * losses).sum(), logprobs)
    assert_equal(found, gradient(expected, logprobs))
    assert found[5] == 0
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx({"clipped_low": 0.0, "clipped_high": 1 / 7})


def test_gspo_over_episodes_does_not_depend_on_how_an_episode_is_split() -> None:
    """Two micro-batches with the episode's ratio from outside give the same as one."""
    old = vector(-1.0, -2.0, -0.5, -0.1)
    now = old + vector(0.3, -0.1, 0.2, 0.0)
    whole = Gspo(low=0.2, high=0.28, whole_episodes=True)
    ratios = mean_log_ratios(now, old, torch.zeros(4, dtype=torch.int64))
    assert_equal(ratios, torch.full_like(old, 0.1))

    def part(indices: slice) -> tuple[Tensor, Tensor]:
        tokens = batch(
            now[indices].clone(),
            torch.ones(4, dtype=torch.float64)[indices],
            old=old[indices],
            episode_log_ratios=ratios[indices],
        )
        losses, _ = whole(tokens)
        return losses.detach(), gradient(losses.sum(), tokens.logprobs)

    losses, gradients = part(slice(0, 4))
    assert_equal(losses, torch.full_like(old, -exp(0.1)))
    halves = [part(slice(0, 3)), part(slice(3, 4))]
    assert_equal(torch.cat([half[0] for half in halves]), losses)
    assert_equal(torch.cat([half[1] for half in halves]), gradients)


def test_gspo_over_episodes_needs_the_episodes_ratio() -> None:
    """Without the ratios from outside it is an error."""
    loss = Gspo(low=0.1, high=0.1, whole_episodes=True)
    with pytest.raises(ValueError, match="needs the episodes' log-ratios"):
        loss(batch(moved(), ADVANTAGES))


def test_mean_log_ratios_are_taken_per_sequence() -> None:
    """Tokens of a sequence need not be neighbours, and sequence numbers need not be small."""
    found = mean_log_ratios(
        vector(-0.9, -1.7, -2.5), vector(-1.0, -2.0, -3.0), torch.tensor([7, 1000, 7])
    )
    assert_equal(found, vector(0.3, 0.3, 0.3))
    found = mean_log_ratios(
        vector(-0.9, -1.7, -2.5), vector(-1.0, -2.0, -3.0), torch.tensor([7, 7, 1000])
    )
    assert_equal(found, vector(0.2, 0.2, 0.5))


def test_importance_is_truncated_by_token_or_by_step() -> None:
    """By token, each ratio is truncated to the cap; by step, the product of the step's ratios."""
    ratios = vector(1.5, 0.5, 3.0, 1.2, 1.0)
    tokens = batch(
        OLD[:5].clone(), ADVANTAGES[:5], sampler=OLD[:5] - ratios.log(), steps=[3, 3, 8, 8, 5]
    )
    assert_equal(mismatch_weights(tokens, capped(2.0)), vector(1.5, 0.5, 2.0, 1.2, 1.0))
    assert_equal(mismatch_weights(tokens, capped(2.0, "step")), vector(0.75, 0.75, 2.0, 2.0, 1.0))


def test_the_measurements_of_the_mismatch() -> None:
    """They are divergence, greatest difference, truncated share, mean weight and effective sample
    size, as computed by hand."""
    ratios = [2.0, 0.5, 4.0]
    tokens = batch(OLD[:3].clone(), ADVANTAGES[:3], sampler=OLD[:3] - vector(*ratios).log())
    found = measures_of(tokens, capped(3.0))
    assert found == pytest.approx(
        {
            "mismatch_k3": sum(ratio - 1 - log(ratio) for ratio in ratios) / 3,
            "mismatch_max": log(4),
            "mismatch_truncated": 1 / 3,
            "mismatch_masked": 0.0,
            "mismatch_weight": 5.5 / 3,
            "mismatch_ess": 5.5**2 / (3 * (4 + 0.25 + 9)),
        }
    )


def test_equal_samplers_and_trainers_show_no_mismatch() -> None:
    """All differences are 0; the weights and the effective sample size are 1."""
    tokens = batch(moved(), ADVANTAGES)
    found = measures_of(tokens, capped(2.0))
    assert found == {
        "mismatch_k3": 0.0,
        "mismatch_max": 0.0,
        "mismatch_truncated": 0.0,
        "mismatch_masked": 0.0,
        "mismatch_weight": 1.0,
        "mismatch_ess": 1.0,
    }


def test_a_mask_leaves_out_what_truncation_would_cap() -> None:
    """Tokens, steps or episodes whose weight is above the cap have the weight 0; the others keep
    theirs. A product that overflows is left out as well."""
    ratios = vector(1.5, 0.5, 3.0, 1.2, 1.0)
    tokens = batch(
        OLD[:5].clone(),
        ADVANTAGES[:5],
        sampler=OLD[:5] - ratios.log(),
        steps=[3, 3, 8, 8, 5],
        episode_mismatch=vector(800.0, 800.0, 0.1, 0.1, 0.1),
    )
    masked = {"mismatch_above": "mask"}
    assert_equal(mismatch_weights(tokens, capped(2.0, **masked)), vector(1.5, 0.5, 0.0, 1.2, 1.0))
    by_step = mismatch_weights(tokens, capped(3.0, "step", **masked))
    assert_equal(by_step, vector(0.75, 0.75, 0.0, 0.0, 1.0))
    by_episode = mismatch_weights(tokens, capped(3.0, "episode", **masked))
    assert_equal(by_episode, vector(0.0, 0.0, exp(0.1), exp(0.1), exp(0.1)))
    assert measures_of(tokens, capped(3.0, "step", **masked))["mismatch_masked"] == 2 / 5


def test_rejection_is_by_the_geometric_mean() -> None:
    """A step of two tokens with ratios 1.5 and 0.5 has the mean 0.87, whatever its length; one with
    3 and 1.2 has 1.9; bounds are inclusive, and episodes have means that are given."""
    ratios = vector(1.5, 0.5, 3.0, 1.2, 1.0)
    tokens = batch(
        OLD[:5].clone(),
        ADVANTAGES[:5],
        sampler=OLD[:5] - ratios.log(),
        steps=[3, 3, 8, 8, 5],
        episode_mismatch_mean=vector(0.0, 0.0, 0.0, 0.0, -0.5),
    )
    wide = LossSettings(reject="step", reject_low=0.8, reject_high=1.5)
    narrow = LossSettings(reject="step", reject_low=1.0, reject_high=1.0)
    episodes = LossSettings(reject="episode")
    assert is_kept(tokens, wide).tolist() == [True, True, False, False, True]
    assert is_kept(tokens, narrow).tolist() == [False, False, False, False, True]
    assert is_kept(tokens, episodes).tolist() == [True, True, True, True, False]
    assert is_kept(tokens, LossSettings()).all()


@pytest.mark.parametrize(
    "settings",
    [
        LossSettings(mismatch="step", mismatch_above="mask", mismatch_cap=0.5),
        LossSettings(reject="step", reject_low=1.0, reject_high=1.0),
    ],
)
def test_where_everything_is_left_out_the_loss_is_zero(settings: LossSettings) -> None:
    """A mask or a rejection of every token gives losses and gradients of 0, never NaN, and says so
    in the measurements; also where a ratio overflows."""
    logprobs = moved()
    tokens = batch(logprobs, ADVANTAGES, old=OLD, sampler=OLD - 500.0)
    losses, measures = loss_of(settings)(tokens)
    assert_equal(losses, torch.zeros(6, dtype=torch.float64))
    assert_equal(gradient(losses.sum(), tokens.logprobs), torch.zeros(6, dtype=torch.float64))
    assert means_of(to_numbers(measures))["mismatch_masked"] == 1.0


def two_models() -> tuple[Tensor, Tensor]:
    """The logits of a model, with gradient, and the log-probabilities of a reference, for 6
    tokens."""
    torch.manual_seed(1)
    logits = torch.randn(6, dtype=torch.float64, requires_grad=True)
    return logits, torch.randn(6, dtype=torch.float64).log_softmax(-1)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q), from log-probabilities over a vocabulary."""
    return (p.exp() * (p - q)).sum()


def test_distillation_descends_the_divergence_from_the_teacher() -> None:
    """In expectation over the model's tokens the gradient is that of KL(model || teacher), and the
    measurement is its value; where both agree, the gradient is 0."""
    logits, teacher = two_models()
    logprobs = logits.log_softmax(-1)
    tokens = batch(logprobs, torch.zeros(6, dtype=torch.float64), reference=teacher)
    losses, measures = Distill()(tokens._replace(logprobs=logprobs))
    shares = logprobs.exp().detach()
    found = gradient((shares * losses).sum(), logits)
    again = logits.detach().clone().requires_grad_()
    assert_equal(found, gradient(divergence(again.log_softmax(-1), teacher), again))
    of_tokens = (logprobs - teacher).detach()
    assert measures["teacher_kl"][0].item() == pytest.approx(of_tokens.sum().item())
    same = batch(logprobs.detach().clone(), ADVANTAGES, reference=logprobs.detach())
    assert_equal(Distill()(same)[0], torch.zeros(6, dtype=torch.float64))


def test_k3_is_exp_d_minus_1_minus_d_with_gradient_1_minus_exp_d() -> None:
    """It equals the values by hand, with d = reference - logprobs."""
    logprobs = vector(-1.0, -2.0, -1.5).requires_grad_()
    reference = vector(-1.0, -1.0, -3.0)
    losses = k3(logprobs, reference)
    assert_equal(losses, vector(0.0, exp(1) - 2, exp(-1.5) + 0.5))
    assert_equal(gradient(losses.sum(), logprobs), vector(0.0, 1 - exp(1), 1 - exp(-1.5)))


def test_k3_estimates_one_divergence_and_descends_the_other() -> None:
    """In expectation over the model's tokens its value is KL(model || reference), and its gradient
    that of KL(reference || model)."""
    logits, reference = two_models()
    logprobs = logits.log_softmax(-1)
    mean = (logprobs.exp().detach() * k3(logprobs, reference)).sum()
    assert_equal(mean, divergence(logprobs, reference))
    found = gradient(mean, logits)
    logits_again, _ = two_models()
    model = logits_again.log_softmax(-1)
    assert_equal(found, gradient(divergence(reference, model), logits_again))
    other = gradient(divergence(logits.log_softmax(-1), reference), logits)
    assert (found - other).abs().max() > 0.01


def test_the_entropy_bonus_has_the_entropys_gradient_in_the_mean() -> None:
    """Over all tokens, weighted by their probabilities, it is minus the gradient of the entropy."""
    logits, _ = two_models()
    logprobs = logits.log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs).sum()
    losses = entropy_losses(logprobs, entropy.detach().expand(6))
    found = gradient((logprobs.exp().detach() * losses).sum(), logits)
    logits_again, _ = two_models()
    model = logits_again.log_softmax(-1)
    assert_equal(found, -gradient(-(model.exp() * model).sum(), logits_again))
    assert found.abs().max() > 0.01


def test_the_composite_loss_is_the_sum_of_its_parts() -> None:
    """It is w (policy + 0.1 bonus) + 0.5 k3, and it has the measurements of all parts."""
    ratios = vector(1.5, 0.5, 3.0, 1.0, 1.0, 1.0)  # of old to sampler; capped to 2
    entropy = vector(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    reference = OLD - 0.1
    tokens = batch(
        moved(),
        ADVANTAGES,
        old=OLD,
        sampler=OLD - ratios.log(),
        entropy=entropy,
        reference=reference,
    )
    losses, measures = loss_of(LossSettings(kl=0.5, entropy=0.1))(tokens)
    policy, _ = Clip(low=0.2, high=0.28)(tokens)
    bonus = (moved() + entropy) * moved()
    kl = k3(moved(), reference)
    assert_equal(losses, ratios.clamp(max=2.0) * (policy + 0.1 * bonus) + 0.5 * kl)
    found = means_of(to_numbers(measures))
    assert set(found) == {
        *("clipped_low", "clipped_high", "entropy", "logprob", "ratio", "drift_k3", "kl"),
        *("mismatch_k3", "mismatch_masked", "mismatch_max", "mismatch_truncated"),
        *("mismatch_weight", "mismatch_ess"),
    }
    assert found["entropy"] == pytest.approx(0.35)
    assert found["logprob"] == pytest.approx(moved().mean().item())
    assert found["ratio"] == pytest.approx(6.6 / 6)
    assert found["drift_k3"] == pytest.approx((RATIOS - 1 - RATIOS.log()).mean().item())
    assert found["kl"] == pytest.approx(kl.mean().item())
    assert not any(value.requires_grad for value, _ in measures.values())


def test_the_mismatch_is_measured_even_if_it_is_not_corrected() -> None:
    """With mismatch = "off" the losses are those of the policy loss, and the mismatch is
    measured."""
    tokens = batch(moved(), ADVANTAGES, old=OLD, sampler=OLD - 1.0)
    losses, measures = loss_of(LossSettings(mismatch="off"))(tokens)
    assert_equal(losses, Clip(low=0.2, high=0.28)(tokens)[0])
    assert means_of(to_numbers(measures))["mismatch_max"] == pytest.approx(1.0)


def test_the_mismatch_can_be_corrected_by_step() -> None:
    """mismatch = "step" multiplies each token's loss by its step's weight."""
    tokens = batch(moved(), ADVANTAGES, old=OLD, sampler=OLD - 0.1, steps=[0, 0, 0, 1, 1, 2])
    losses, _ = loss_of(LossSettings(mismatch="step"))(tokens)
    weights = vector(*(exp(0.1 * number) for number in (3, 3, 3, 2, 2, 1)))
    assert_equal(losses, weights * Clip(low=0.2, high=0.28)(tokens)[0])


def test_the_mismatch_can_be_corrected_by_episode() -> None:
    """All tokens of an episode are weighed by exp of its sum, up to the cap, whatever micro-batch
    they are in; without the sums the loss is refused."""
    sums = vector(0.3, 0.3, 0.3, -0.2, -0.2, 2.0)
    settings = LossSettings(mismatch="episode", mismatch_cap=2.0)
    plain = loss_of(LossSettings(mismatch="off"))(batch(moved(), ADVANTAGES, old=OLD))[0]
    tokens = batch(moved(), ADVANTAGES, old=OLD, episode_mismatch=sums)
    weights = vector(*[exp(0.3)] * 3, *[exp(-0.2)] * 2, 2.0)
    assert_equal(loss_of(settings)(tokens)[0], plain * weights)
    with pytest.raises(ValueError, match="need values of whole episodes"):
        loss_of(settings)(batch(moved(), ADVANTAGES, old=OLD))


def test_cloned_tokens_are_not_corrected() -> None:
    """No model sampled them, so the mismatch is not measured either."""
    settings = LossSettings(policy="likelihood", advantage="reward")
    tokens = batch(moved(), torch.ones(6, dtype=torch.float64), sampler=torch.zeros(6))
    losses, measures = loss_of(settings)(tokens)
    assert_equal(losses, -moved())
    assert set(measures) == {"entropy", "logprob", "ratio", "drift_k3"}


def test_a_divergence_without_a_reference_is_refused() -> None:
    """Otherwise the loss would lack it without any sign."""
    with pytest.raises(ValueError, match="needs the reference model's log-probabilities"):
        loss_of(LossSettings(kl=0.1))(batch(moved(), ADVANTAGES))


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        (LossSettings(clip_low=0.1, clip_high=0.3), Clip(low=0.1, high=0.3)),
        (LossSettings(policy="cispo", cispo_high=1.1), Cispo(high=1.1)),
        (
            LossSettings(policy="gspo", gspo_low=0.01, gspo_high=0.02),
            Gspo(low=0.01, high=0.02, whole_episodes=False),
        ),
        (
            LossSettings(policy="gspo", scope="episode", gspo_low=0.01, gspo_high=0.02),
            Gspo(low=0.01, high=0.02, whole_episodes=True),
        ),
        (LossSettings(policy="tv", tv_bound=0.05), Tv(bound=0.05)),
    ],
)
def test_the_settings_choose_a_loss_and_its_bounds(
    settings: LossSettings, loss: PolicyLoss
) -> None:
    """The loss of the settings equals the loss that is made directly with the same bounds."""
    tokens = batch(
        moved(),
        ADVANTAGES,
        old=OLD,
        steps=[0, 0, 1, 2, 1, 0],
        episode_log_ratios=vector(0.1, 0.1, 0.1, -0.1, -0.1, -0.1),
    )
    assert_equal(loss_of(settings)(tokens)[0], loss(tokens)[0])


def test_only_gspo_over_episodes_needs_episode_ratios() -> None:
    """The trainer computes them only for this loss."""
    assert needs_episode_ratios(LossSettings(policy="gspo", scope="episode"))
    assert not needs_episode_ratios(LossSettings(policy="gspo", scope="step"))
    assert not needs_episode_ratios(LossSettings(policy="clip", scope="episode"))


def test_merged_measurements_equal_those_of_the_whole() -> None:
    """The means are the same for any split of the tokens into micro-batches."""
    loss = loss_of(LossSettings())
    sampler = OLD - vector(0.0, 0.1, 0.2, 0.9, -0.4, 0.3)

    def part(indices: slice) -> TokenBatch:
        return batch(
            moved()[indices], ADVANTAGES[indices], old=OLD[indices], sampler=sampler[indices]
        )

    parts = [
        to_numbers(loss(part(indices))[1]) for indices in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    assert means_of(merge(parts)) == pytest.approx(measured(loss, part(slice(0, 6))))
    assert means_of(merge(parts))["mismatch_max"] == pytest.approx(0.9)


def test_measurements_with_a_count_of_0_are_left_out() -> None:
    """Zero tokens have no mean."""
    assert means_of({"a": (0.0, 0.0), "b": (3.0, 2.0)}) == {"b": 1.5}
    assert merge([{"a": (1.0, 2.0), "b_max": (3.0, 1.0)}, {"b_max": (2.0, 1.0)}]) == {
        "a": (1.0, 2.0),
        "b_max": (3.0, 1.0),
    }


@pytest.mark.parametrize(
    "loss",
    [
        Clip(low=0.2, high=0.28),
        Cispo(high=5.0),
        Gspo(low=0.2, high=0.28, whole_episodes=False),
        Tv(bound=0.2),
        Likelihood(),
        loss_of(LossSettings(policy="gspo", mismatch="step")),
    ],
)
def test_no_tokens_give_no_losses(loss: PolicyLoss) -> None:
    """A process without work still takes part."""
    losses, measures = loss(batch(vector(), vector()))
    assert losses.shape == (0,)
    assert (
        means_of(to_numbers({name: m for name, m in measures.items() if "max" not in name})) == {}
    )
