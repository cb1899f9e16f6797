"""Losses of tokens: by hand, against autograd, and in expectation over a whole vocabulary.

float64 everywhere; "equal" means within 1e-12 unless a test says otherwise.
"""

from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from learner.config.settings import LossSettings
from learner.losses.base import PolicyLoss, TokenBatch
from learner.losses.cispo import Cispo
from learner.losses.clip import Clip
from learner.losses.entropy import entropy_losses
from learner.losses.gspo import Gspo, mean_log_ratios
from learner.losses.kl import k3
from learner.losses.likelihood import Likelihood
from learner.losses.metrics import means_of, merge, to_numbers
from learner.losses.mismatch import mismatch_measures, step_weights, token_weights
from learner.losses.registry import loss_of, needs_episode_ratios
from learner.losses.tv import Tv


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def same(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


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
) -> TokenBatch:
    """Tokens of one step where nothing else is said; old and sampler as the model is."""
    present = logprobs.detach()
    old = present if old is None else old
    return TokenBatch(
        logprobs=logprobs.requires_grad_(),
        old=old,
        sampler=old if sampler is None else sampler,
        advantages=advantages,
        weights=torch.ones_like(present),
        steps=torch.tensor(steps or [0] * len(present), dtype=torch.int64),
        episodes=torch.tensor(episodes or [0] * len(present), dtype=torch.int64),
        entropy=torch.zeros_like(present) if entropy is None else entropy,
        reference=reference,
        episode_log_ratios=episode_log_ratios,
    )


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, of)
    return found


def measured(loss: PolicyLoss, tokens: TokenBatch) -> dict[str, float]:
    return means_of(to_numbers(loss(tokens)[1]))


# Ratios of six tokens, with advantages: bounds that matter lie at 0.8 and 1.28.
RATIOS = vector(1.0, 1.2, 1.5, 0.7, 1.5, 0.7)
ADVANTAGES = vector(1.0, -2.0, 1.0, -1.0, -1.0, 2.0)
OLD = vector(-0.5, -1.0, -1.5, -2.0, -2.5, -3.0)


def moved() -> Tensor:
    return OLD + RATIOS.log()


def test_a_ratio_is_clipped_on_the_side_that_its_advantage_pushes_it_to() -> None:
    """Of positive advantage at 1.28, of negative at 0.8; there the gradient is 0."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, _ = Clip(low=0.2, high=0.28)(tokens)
    same(losses, vector(-1.0, 2.4, -1.28, 0.8, 1.5, -1.4))
    same(gradient(losses.sum(), tokens.logprobs), vector(-1.0, 2.4, 0.0, 0.0, 1.5, -1.4))


def test_only_tokens_without_a_gradient_count_as_clipped() -> None:
    """Two of eight below, three above; one each is on its way back."""
    ratios = vector(0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 2.0, 1.0)
    advantages = vector(-1.0, -1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0)
    old = torch.full_like(ratios, -3.0)
    found = measured(Clip(low=0.2, high=0.28), batch(old + ratios.log(), advantages, old=old))
    assert found == {"clipped_low": 2 / 8, "clipped_high": 3 / 8}


def test_cispo_bounds_the_weight_and_silences_no_token() -> None:
    """The loss is -min(ratio, 1.3) A logprob, the gradient the same without logprob."""
    tokens = batch(moved(), ADVANTAGES, old=OLD)
    losses, measures = Cispo(high=1.3)(tokens)
    weights = vector(1.0, 1.2, 1.3, 0.7, 1.3, 0.7)
    same(losses, -weights * ADVANTAGES * moved())
    same(gradient(losses.sum(), tokens.logprobs), -weights * ADVANTAGES)
    assert means_of(to_numbers(measures)) == pytest.approx({"clipped_high": 2 / 6})


def test_total_variation_looks_at_probabilities_not_at_ratios() -> None:
    """A doubled rare token goes on, a common one that moved by 0.3 stops, but for its way back."""
    old = vector(0.001, 0.6, 0.6, 0.6, 0.6).log()
    now = vector(0.002, 0.9, 0.9, 0.3, 0.3).log()
    tokens = batch(now, vector(1.0, 1.0, -1.0, -1.0, 1.0), old=old)
    losses, measures = Tv(bound=0.2)(tokens)
    wanted = vector(-2.0, 0.0, 1.5, 0.0, -0.5)  # -ratio * advantage, and its own gradient
    same(losses, wanted)
    same(gradient(losses.sum(), tokens.logprobs), wanted)
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx({"clipped_low": 1 / 5, "clipped_high": 1 / 5})


@pytest.mark.parametrize("loss", [Clip(low=0.2, high=0.28), Tv(bound=0.2)])
def test_gradients_are_those_of_finite_differences(loss: PolicyLoss) -> None:
    """Away from the kinks, loss and gradient belong together."""

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
    """Where the ratio is 1, the gradient is that of -A logprobs."""
    tokens = batch(moved(), ADVANTAGES, steps=[0, 0, 1, 1, 1, 2], episode_log_ratios=torch.zeros(6))
    losses, _ = loss(tokens)
    same(gradient(losses.sum(), tokens.logprobs), -ADVANTAGES)


def test_likelihood_is_the_cross_entropy_of_good_episodes() -> None:
    """Value and gradient in the logits, for rewards of 1."""
    torch.manual_seed(0)
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([3, 0, 6, 6, 2])
    wanted = cross_entropy(logits, targets, reduction="none")
    logprobs = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    losses, _ = Likelihood()(batch(logprobs, torch.ones(5, dtype=torch.float64)))
    same(losses, wanted)
    same(gradient(losses.sum(), logits), gradient(wanted.sum(), logits))


def test_likelihood_learns_nothing_from_what_is_worth_nothing_or_less() -> None:
    """An episode of reward 0 or -1 has no gradient, one of 0.1 a tenth."""
    tokens = batch(vector(-1.0, -1.0, -1.0), vector(0.0, -1.0, 0.1))
    losses, _ = Likelihood()(tokens)
    same(gradient(losses.sum(), tokens.logprobs), vector(0.0, 0.0, -0.1))


# Sequences of GSPO: seven tokens of three steps, mixed up as micro-batches may have them.
STEPS = [4, 9, 4, 9, 9, 2, 4]
STEP_ADVANTAGES = {4: 1.0, 9: -1.0, 2: 1.0}
SHIFTS = vector(0.10, 0.02, -0.06, 0.01, 0.03, 0.5, 0.08)  # step means 0.04, 0.02 and 0.5


def sequence_objective(logprobs: Tensor, old: Tensor, *, low: float, high: float) -> Tensor:
    """GSPO as its paper writes it: a loss per sequence, differentiated through its ratio."""
    losses = []
    for step, advantage in STEP_ADVANTAGES.items():
        mine = torch.tensor([number == step for number in STEPS])
        ratio = (logprobs - old)[mine].mean().exp()
        bounded = ratio.clamp(1 - low, 1 + high)
        losses.append(-torch.minimum(ratio * advantage, bounded * advantage))
    return torch.stack(losses).mean()


def test_gspo_over_steps_is_the_papers_objective_with_each_step_weighed_alike() -> None:
    """Value and gradient; the third step, of ratio 1.65, is clipped as a whole."""
    old = vector(-1.0, -2.0, -0.5, -0.1, -3.0, -1.0, -0.7)
    logprobs = (old + SHIFTS).requires_grad_()
    advantages = vector(*(STEP_ADVANTAGES[step] for step in STEPS))
    tokens = batch(logprobs, advantages, old=old, steps=STEPS)
    weights = vector(*(1 / (3 * STEPS.count(step)) for step in STEPS))
    losses, measures = Gspo(low=0.03, high=0.1, whole_episodes=False)(tokens)
    wanted = sequence_objective(logprobs, old, low=0.03, high=0.1)
    same((weights * losses).sum(), wanted)
    found = gradient((weights * losses).sum(), logprobs)
    same(found, gradient(wanted, logprobs))
    assert found[5] == 0
    shares = means_of(to_numbers(measures))
    assert shares == pytest.approx({"clipped_low": 0.0, "clipped_high": 1 / 7})


def test_gspo_over_episodes_does_not_see_how_an_episode_is_split() -> None:
    """Two micro-batches with the episode's ratio from outside give what the whole gives."""
    old = vector(-1.0, -2.0, -0.5, -0.1)
    now = old + vector(0.3, -0.1, 0.2, 0.0)
    whole = Gspo(low=0.2, high=0.28, whole_episodes=True)
    ratios = mean_log_ratios(now, old, torch.zeros(4, dtype=torch.int64))
    same(ratios, torch.full_like(old, 0.1))

    def part(places: slice) -> tuple[Tensor, Tensor]:
        tokens = batch(
            now[places].clone(),
            torch.ones(4, dtype=torch.float64)[places],
            old=old[places],
            episode_log_ratios=ratios[places],
        )
        losses, _ = whole(tokens)
        return losses.detach(), gradient(losses.sum(), tokens.logprobs)

    losses, gradients = part(slice(0, 4))
    same(losses, torch.full_like(old, -exp(0.1)))
    halves = [part(slice(0, 3)), part(slice(3, 4))]
    same(torch.cat([half[0] for half in halves]), losses)
    same(torch.cat([half[1] for half in halves]), gradients)


def test_gspo_over_episodes_refuses_to_guess_the_episodes_ratio() -> None:
    """Without the numbers from outside it says so."""
    loss = Gspo(low=0.1, high=0.1, whole_episodes=True)
    with pytest.raises(ValueError, match="needs the episodes' log-ratios"):
        loss(batch(moved(), ADVANTAGES))


def test_mean_log_ratios_are_taken_by_sequence_whatever_its_number() -> None:
    """Tokens of a sequence need not be neighbours, and numbers need not be small."""
    found = mean_log_ratios(
        vector(-0.9, -1.7, -2.5), vector(-1.0, -2.0, -3.0), torch.tensor([7, 1000, 7])
    )
    same(found, vector(0.3, 0.3, 0.3))
    found = mean_log_ratios(
        vector(-0.9, -1.7, -2.5), vector(-1.0, -2.0, -3.0), torch.tensor([7, 7, 1000])
    )
    same(found, vector(0.2, 0.2, 0.5))


def test_importance_is_truncated_by_token_or_by_step() -> None:
    """By token each ratio is cut to the cap, by step the product of the step's."""
    ratios = vector(1.5, 0.5, 3.0, 1.2, 1.0)
    tokens = batch(
        OLD[:5].clone(), ADVANTAGES[:5], sampler=OLD[:5] - ratios.log(), steps=[3, 3, 8, 8, 5]
    )
    same(token_weights(tokens, cap=2.0), vector(1.5, 0.5, 2.0, 1.2, 1.0))
    same(step_weights(tokens, cap=2.0), vector(0.75, 0.75, 2.0, 2.0, 1.0))


def test_mismatch_is_measured_as_its_names_say() -> None:
    """Divergence, greatest difference, truncated share, mean weight, effective sample size."""
    ratios = [2.0, 0.5, 4.0]
    tokens = batch(OLD[:3].clone(), ADVANTAGES[:3], sampler=OLD[:3] - vector(*ratios).log())
    weights = token_weights(tokens, cap=3.0)
    found = means_of(to_numbers(mismatch_measures(tokens, weights, cap=3.0)))
    assert found == pytest.approx(
        {
            "mismatch_k3": sum(ratio - 1 - log(ratio) for ratio in ratios) / 3,
            "mismatch_max": log(4),
            "mismatch_truncated": 1 / 3,
            "mismatch_weight": 5.5 / 3,
            "mismatch_ess": 5.5**2 / (3 * (4 + 0.25 + 9)),
        }
    )


def test_equal_samplers_and_trainers_show_no_mismatch() -> None:
    """Weights are 1, so is the effective sample size, and nothing differs."""
    tokens = batch(moved(), ADVANTAGES)
    found = means_of(to_numbers(mismatch_measures(tokens, token_weights(tokens, cap=2.0), cap=2.0)))
    assert found == {
        "mismatch_k3": 0.0,
        "mismatch_max": 0.0,
        "mismatch_truncated": 0.0,
        "mismatch_weight": 1.0,
        "mismatch_ess": 1.0,
    }


def two_models() -> tuple[Tensor, Tensor]:
    """The logits of a model, with gradient, and the log-probabilities of a reference; 6 tokens."""
    torch.manual_seed(1)
    logits = torch.randn(6, dtype=torch.float64, requires_grad=True)
    return logits, torch.randn(6, dtype=torch.float64).log_softmax(-1)


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of log-probabilities over a vocabulary."""
    return (p.exp() * (p - q)).sum()


def test_k3_is_exp_d_less_1_less_d_with_gradient_1_less_exp_d() -> None:
    """By hand, d = reference - logprobs."""
    logprobs = vector(-1.0, -2.0, -1.5).requires_grad_()
    reference = vector(-1.0, -1.0, -3.0)
    losses = k3(logprobs, reference)
    same(losses, vector(0.0, exp(1) - 2, exp(-1.5) + 0.5))
    same(gradient(losses.sum(), logprobs), vector(0.0, 1 - exp(1), 1 - exp(-1.5)))


def test_k3_estimates_one_divergence_and_descends_the_other() -> None:
    """In the mean over the model's tokens: KL(model || reference), gradient of
    KL(reference || model)."""
    logits, reference = two_models()
    logprobs = logits.log_softmax(-1)
    mean = (logprobs.exp().detach() * k3(logprobs, reference)).sum()
    same(mean, divergence(logprobs, reference))
    found = gradient(mean, logits)
    logits_again, _ = two_models()
    ours = logits_again.log_softmax(-1)
    same(found, gradient(divergence(reference, ours), logits_again))
    other = gradient(divergence(logits.log_softmax(-1), reference), logits)
    assert (found - other).abs().max() > 0.01


def test_the_entropy_bonus_has_the_entropys_gradient_in_the_mean() -> None:
    """Over all tokens, weighed by their probabilities, it is minus the gradient of the entropy."""
    logits, _ = two_models()
    logprobs = logits.log_softmax(-1)
    entropy = -(logprobs.exp() * logprobs).sum()
    losses = entropy_losses(logprobs, entropy.detach().expand(6))
    found = gradient((logprobs.exp().detach() * losses).sum(), logits)
    logits_again, _ = two_models()
    ours = logits_again.log_softmax(-1)
    same(found, -gradient(-(ours.exp() * ours).sum(), logits_again))
    assert found.abs().max() > 0.01


def test_a_whole_loss_is_the_sum_of_its_parts() -> None:
    """w (policy + 0.1 bonus) + 0.5 k3, with all that is measured."""
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
    same(losses, ratios.clamp(max=2.0) * (policy + 0.1 * bonus) + 0.5 * kl)
    found = means_of(to_numbers(measures))
    assert set(found) == {
        *("clipped_low", "clipped_high", "entropy", "logprob", "ratio", "drift_k3", "kl"),
        *("mismatch_k3", "mismatch_max", "mismatch_truncated", "mismatch_weight", "mismatch_ess"),
    }
    assert found["entropy"] == pytest.approx(0.35)
    assert found["logprob"] == pytest.approx(moved().mean().item())
    assert found["ratio"] == pytest.approx(6.6 / 6)
    assert found["drift_k3"] == pytest.approx((RATIOS - 1 - RATIOS.log()).mean().item())
    assert found["kl"] == pytest.approx(kl.mean().item())
    assert not any(value.requires_grad for value, _ in measures.values())


def test_mismatch_is_measured_also_where_it_is_not_corrected() -> None:
    """With mismatch = "off" the losses are the policy's, and the figures are there."""
    tokens = batch(moved(), ADVANTAGES, old=OLD, sampler=OLD - 1.0)
    losses, measures = loss_of(LossSettings(mismatch="off"))(tokens)
    same(losses, Clip(low=0.2, high=0.28)(tokens)[0])
    assert means_of(to_numbers(measures))["mismatch_max"] == pytest.approx(1.0)


def test_steps_are_corrected_as_wholes_where_it_is_wanted() -> None:
    """mismatch = "step" multiplies by the step's weight."""
    tokens = batch(moved(), ADVANTAGES, old=OLD, sampler=OLD - 0.1, steps=[0, 0, 0, 1, 1, 2])
    losses, _ = loss_of(LossSettings(mismatch="step"))(tokens)
    weights = vector(*(exp(0.1 * number) for number in (3, 3, 3, 2, 2, 1)))
    same(losses, weights * Clip(low=0.2, high=0.28)(tokens)[0])


def test_cloned_tokens_are_not_corrected() -> None:
    """They were sampled by no model; no mismatch is measured."""
    settings = LossSettings(policy="likelihood", advantage="reward")
    tokens = batch(moved(), torch.ones(6, dtype=torch.float64), sampler=torch.zeros(6))
    losses, measures = loss_of(settings)(tokens)
    same(losses, -moved())
    assert set(measures) == {"entropy", "logprob", "ratio", "drift_k3"}


def test_a_divergence_without_a_reference_is_refused() -> None:
    """It would otherwise be left out in silence."""
    with pytest.raises(ValueError, match="needs the reference's log-probabilities"):
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
def test_a_loss_is_chosen_with_its_own_bounds(settings: LossSettings, loss: PolicyLoss) -> None:
    """What the settings say is what the loss does."""
    tokens = batch(
        moved(),
        ADVANTAGES,
        old=OLD,
        steps=[0, 0, 1, 2, 1, 0],
        episode_log_ratios=vector(0.1, 0.1, 0.1, -0.1, -0.1, -0.1),
    )
    same(loss_of(settings)(tokens)[0], loss(tokens)[0])


def test_only_gspo_over_episodes_needs_their_ratios() -> None:
    """The trainer asks before it computes them."""
    assert needs_episode_ratios(LossSettings(policy="gspo", scope="episode"))
    assert not needs_episode_ratios(LossSettings(policy="gspo", scope="step"))
    assert not needs_episode_ratios(LossSettings(policy="clip", scope="episode"))


def test_measures_of_parts_are_those_of_the_whole() -> None:
    """However tokens are split into micro-batches, the finished figures are the same."""
    loss = loss_of(LossSettings())
    sampler = OLD - vector(0.0, 0.1, 0.2, 0.9, -0.4, 0.3)

    def part(places: slice) -> TokenBatch:
        return batch(moved()[places], ADVANTAGES[places], old=OLD[places], sampler=sampler[places])

    parts = [
        to_numbers(loss(part(places))[1]) for places in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    assert means_of(merge(parts)) == pytest.approx(measured(loss, part(slice(0, 6))))
    assert means_of(merge(parts))["mismatch_max"] == pytest.approx(0.9)


def test_measures_that_counted_nothing_are_left_out() -> None:
    """There is no mean of no tokens."""
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
    """A process without work of its own still takes part."""
    losses, measures = loss(batch(vector(), vector()))
    assert losses.shape == (0,)
    assert (
        means_of(to_numbers({name: m for name, m in measures.items() if "max" not in name})) == {}
    )
