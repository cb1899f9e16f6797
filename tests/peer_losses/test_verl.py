"""Our losses and gradients are those of verl's functions: its policy losses, weights and rejection
are called with log-probabilities of a model, and torch computes the gradients.

`just peer-losses` runs this with verl in an environment of its own.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rehearsal_room.learner.config.settings import LossSettings
from tests.peer_losses import rows as shared

pytest.importorskip("ray", reason="`just peer-losses` installs it")
pytest.importorskip("verl", reason="`just peer-losses` installs it")

from verl.trainer.ppo import core_algos, rollout_corr_helper
from verl.workers.config import ActorConfig

pytestmark = pytest.mark.filterwarnings("ignore")
BOUND = 1e-6

# verl's loss, its aggregation and settings, and ours.
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "grpo": ("vanilla", "seq-mean-token-mean", {}, {"aggregate": "episode", "dual_clip": 3.0}),
    "dapo": (
        "vanilla",
        "token-mean",
        {"clip_ratio_high": 0.28},
        {"clip_high": 0.28, "dual_clip": 3.0},
    ),
    "cispo": (
        "cispo",
        "token-mean",
        {"clip_ratio_low": 0.2, "clip_ratio_high": 0.05},
        {"policy": "cispo", "cispo_low": 0.8, "cispo_high": 1.05},
    ),
    "gspo": (
        "gspo",
        "seq-mean-token-mean",
        {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4},
        {"policy": "gspo", "scope": "episode"},
    ),
}
# verl's level and thresholds of weights, and ours; the lower one cuts nothing here.
WEIGHTS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "TIS": ("token", 2.0, {"mismatch": "token"}),
    "token mask": ("token", "0.0001_2.0", {"mismatch": "token", "mismatch_above": "mask"}),
    "sequence TIS": ("sequence", 2.0, {"mismatch": "episode"}),
    "sequence mask": ("sequence", "0.0001_2.0", {"mismatch": "step", "mismatch_above": "mask"}),
    "off": ("", None, {"mismatch": "off"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared.model_in(tmp_path_factory.mktemp("model") / "start")


@pytest.mark.parametrize("reject", ["", "step", "episode"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_verls(folder: Path, case: str, weights: str, reject: str) -> None:
    """For each of verl's losses, weights and rejections that we have, the loss and the gradient of
    every weight are equal. (verl takes rejected tokens out of the denominators, and we do not: the
    sums are compared.)"""
    name, aggregate, theirs, own = CASES[case]
    level, threshold, correction = WEIGHTS[weights]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    rows = shared.rows_for(model, apart=0.6)
    pairs = list(zip(rows.prompts, rows.replies, strict=True))
    old = [shared.logprobs_of(model, *pair).tolist() for pair in pairs]
    shared.perturb(model)
    now = torch.nn.utils.rnn.pad_sequence(
        [shared.logprobs_of(model, *pair) for pair in pairs], batch_first=True
    )
    mask = shared.padded([[1.0] * len(reply) for reply in rows.replies])
    sampler = [torch.tensor(one, dtype=torch.float32).tolist() for one in rows.sampler]
    log_ratio = (shared.padded(old) - shared.padded(sampler)) * mask
    found_weights = kept = None
    if level:
        found_weights, _ = rollout_corr_helper.compute_rollout_correction_weights(
            log_ratio, mask, level, threshold
        )
    if reject:
        kept, _ = rollout_corr_helper.compute_rollout_rejection_mask(
            log_ratio, mask, "seq_mean_k1", "0.8_1.25"
        )
        assert 0 < kept.sum() < mask.sum()
        found_weights = kept if found_weights is None else found_weights * kept
    config = ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=8, clip_ratio=0.2, **theirs
    )
    advantages = torch.linspace(-1.5, 2.0, len(rows.replies), dtype=torch.float64)
    loss, _ = core_algos.get_policy_loss_fn(name)(
        old_log_prob=shared.padded(old),
        log_prob=now,
        advantages=advantages[:, None].expand_as(now),
        response_mask=mask,
        loss_agg_mode=aggregate,
        config=config,
        rollout_is_weights=found_weights,
    )
    loss.backward()
    expected = shared.Result(loss.item(), shared.gradients_of(model))
    bounds = {"reject_low": 0.8, "reject_high": 1.25} if reject else {}
    settings = LossSettings(
        **{"clip_high": 0.2, **own, **correction, "reject": reject or "off", **bounds}
    )
    found = shared.ours(model, old, rows, advantages.tolist(), settings)
    shared.assert_same(found, expected, bound=BOUND)
