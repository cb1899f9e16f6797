"""Our losses and gradients are those of TRL's GRPOTrainer, which runs here: it takes the rows as
its own rollouts, computes rewards, advantages, masks and its loss, and torch computes its
gradients.

`just peer-losses` runs this with TRL in an environment of its own.
"""

from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.samples import Group, Rollout
from rehearsal_room.learner.losses.penalties import penalised
from tests.peer_losses import rows as shared

trl = pytest.importorskip("trl", reason="`just peer-losses` installs it")
rewards = pytest.importorskip("trl.rewards")
datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.filterwarnings("ignore")
BOUND = 1e-6  # the sampler's log-probabilities are kept as float32 in both
LONGEST = 16

# TRL's settings, and ours.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"loss_type": "grpo"}, {"aggregate": "episode"}),
    "dapo": ({"loss_type": "dapo", "epsilon_high": 0.28}, {"clip_high": 0.28}),
    "bnpo": ({"loss_type": "bnpo"}, {}),
    "dr_grpo": (
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
        {"aggregate": "constant", "constant_length": LONGEST, "advantage": "mean"},
    ),
    "two-sided": ({"loss_type": "dapo", "delta": 1.3}, {"dual_clip": 1.3}),
    "cispo": (
        {"loss_type": "cispo", "epsilon_high": 1.05},
        {"policy": "cispo", "cispo_high": 1.05},
    ),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4},
        {"policy": "gspo", "scope": "episode", "gspo_low": 3e-4, "gspo_high": 3e-4},
    ),
}
MISMATCH: dict[str, tuple[str, dict[str, Any]]] = {
    "off": ("", {"mismatch": "off"}),
    "TIS": ("token_truncate", {"mismatch": "token", "mismatch_cap": 3.0}),
    "token mask": (
        "token_mask",
        {"mismatch": "token", "mismatch_cap": 3.0, "mismatch_above": "mask"},
    ),
    "sequence TIS": ("sequence_truncate", {"mismatch": "episode", "mismatch_cap": 3.0}),
    "sequence_mask": (
        "sequence_mask",
        {"mismatch": "episode", "mismatch_cap": 3.0, "mismatch_above": "mask"},
    ),
    "sequence_mask by step": (  # each of these episodes has one step
        "sequence_mask",
        {"mismatch": "step", "mismatch_cap": 3.0, "mismatch_above": "mask"},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared.model_in(tmp_path_factory.mktemp("model") / "start")


def trainer_of(folder: Path, mode: str, theirs: dict[str, Any]) -> Any:
    """Their trainer, whose rollouts are the rows; with a mode of correction it takes their
    log-probabilities as vLLM's."""
    args = trl.GRPOConfig(
        output_dir=str(folder.parent / "out"),
        per_device_train_batch_size=len(shared.LENGTHS),
        num_generations=shared.GROUP,
        max_completion_length=LONGEST,
        beta=0.0,
        bf16=False,
        use_cpu=True,
        report_to="none",
        vllm_importance_sampling_correction=bool(mode),
        **({"vllm_importance_sampling_mode": mode} if mode else {}),
        vllm_importance_sampling_clip_max=3.0,
        **theirs,
    )
    data = datasets.Dataset.from_list([{"prompt": "x"}] * len(shared.LENGTHS))
    trainer = trl.GRPOTrainer(
        model=str(folder),
        reward_funcs=lambda **_: list(shared.REWARDS),
        args=args,
        train_dataset=data,
        rollout_func=lambda prompts, trainer: trainer.rows,
    )
    trainer.model.double()
    trainer.current_gradient_accumulation_steps = 1
    if mode:
        trainer.use_vllm, trainer._last_loaded_step = True, trainer.state.global_step
    return trainer


# TRL's gradient of a sequence's ratio spreads a token's weight over the sequence; verl's and ours
# keep it at the token (test_verl.py). By sequences both are the same.
PAIRS = [
    (case, mismatch)
    for case in CASES
    for mismatch in MISMATCH
    if case != "gspo" or "token" not in MISMATCH[mismatch][0]
]


@pytest.mark.parametrize(("case", "mismatch"), PAIRS)
def test_loss_and_gradients_are_trls(folder: Path, case: str, mismatch: str) -> None:
    """For each of TRL's losses and corrections that we have, the loss and the gradient of every
    weight are equal after an update that has moved the ratios away from 1."""
    (theirs, own), (mode, correction) = CASES[case], MISMATCH[mismatch]
    trainer = trainer_of(folder, mode, theirs)
    model = trainer.model
    rows = shared.rows_for(model, apart=0.6)
    trainer.rows = {
        "prompt_ids": rows.prompts,
        "completion_ids": rows.replies,
        "logprobs": rows.sampler,
    }
    old = [
        shared.logprobs_of(model, prompt, reply).tolist()
        for prompt, reply in zip(rows.prompts, rows.replies, strict=True)
    ]
    inputs = trainer._generate_and_score_completions([{"prompt": "x"}] * len(shared.LENGTHS))
    inputs["old_per_token_logps"] = shared.padded(old)
    shared.perturb(model)
    if mode:
        ratios = inputs["importance_sampling_ratio"]
        is_cut = (ratios == 0) | (ratios == 3.0)
        assert is_cut.any() and not is_cut.all()  # the correction corrects some
    loss = trainer._compute_loss(model, inputs)
    loss.backward()
    expected = shared.Result(loss.item(), shared.gradients_of(model))
    defaults = {"clip_high": 0.2, "aggregate": None}
    settings = LossSettings(**{**defaults, **own, **correction})
    found = shared.ours(
        model,
        old,
        rows,
        inputs["advantages"].tolist(),
        settings,
        length=settings.constant_length,
    )
    shared.assert_same(found, expected, bound=BOUND)


@pytest.mark.parametrize("scale", ["group", "none"])
def test_advantages_are_trls(folder: Path, scale: str) -> None:
    """Rewards of a group become the same advantages, but for what each adds to the deviation."""
    trainer = trainer_of(folder, "", {"scale_rewards": scale})
    rows = shared.rows_for(trainer.model, apart=0.0)
    trainer.rows = {
        "prompt_ids": rows.prompts,
        "completion_ids": rows.replies,
        "logprobs": rows.sampler,
    }
    inputs = trainer._generate_and_score_completions([{"prompt": "x"}] * len(shared.LENGTHS))
    settings = LossSettings(advantage="mean_std" if scale == "group" else "mean")
    found = []
    for first in range(0, len(shared.REWARDS), shared.GROUP):
        rollouts = [
            Rollout(str(n), n, reward, (shared._rollout(rows, first + n).samples[0],), "", "")
            for n, reward in enumerate(shared.REWARDS[first : first + shared.GROUP])
        ]
        group = Group("g", "s", "t", tuple(rollouts))
        found += [one[0] for one in advantages_of(group, settings)]
    assert found == pytest.approx(inputs["advantages"].tolist(), abs=2e-3)


def test_the_overlong_penalty_is_trls() -> None:
    """DAPO's soft punishment for replies of all lengths, by TRL's reward function."""
    punish = rewards.get_soft_overlong_punishment(max_completion_len=100, soft_punish_cache=40)
    expected = punish([[1] * length for length in range(1, 120)])
    settings = LossSettings(overlong_from=60, overlong_to=100)
    rollouts = [
        shared._rollout(shared.Rows([[1]], [[1] * length], [[0.0] * length]), 0)
        for length in range(1, 120)
    ]
    found = [one.reward - 1.0 for one in penalised(rollouts, settings)]
    assert found == pytest.approx(expected)
