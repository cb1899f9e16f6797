"""The settings of a training run: one TOML file, whose unknown keys are errors.

    model = "models/start"            # a Hugging Face directory
    steps = 100
    profile = "awm"

    [rollouts]                        # as for `rehearse run` (harness.settings.run.Settings)
    scenarios = ["shop_support"]
    policy = "local"
    group_size = 8
    history = "last:3"
    dialect = "hermes"

    [loss]
    policy = "clip"

The defaults are the field's common ones; where they stand is said beside the fields.
"""

from typing import Any, Literal

import msgspec


class DataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where samples come from, and which are used."""

    logs: tuple[str, ...] = ()  # folders of finished runs; empty: rollouts are run now
    groups: int = 8  # that one optimiser batch takes
    epochs: int = 1  # how often logs are gone through
    fill: bool = False  # whether a batch waits until so many groups can be used (DAPO,
    # arXiv:2503.14476), or takes what is left of so many that were run
    keep_equal: bool = False  # whether groups whose rewards are all equal are kept
    drop_truncated: bool = False  # whether episodes that a limit cut off are left out of a group
    misaligned: bool = False  # whether episodes of another history policy or dialect are taken
    check_prompts: float = 1.0  # the share of episodes whose logged prompts are computed again


class LossSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is minimised."""

    policy: Literal["clip", "cispo", "gspo", "tv", "likelihood"] = "clip"
    advantage: Literal["mean_std", "mean", "leave_one_out", "reward"] = "mean_std"
    rewards: Literal["episode", "step"] = "episode"  # what a sample's advantage is made of
    aggregate: Literal["token", "step", "episode"] = "token"
    scope: Literal["step", "episode"] = "step"  # of gspo's ratio
    clip_low: float = 0.2
    clip_high: float = 0.28  # DAPO, arXiv:2503.14476
    cispo_high: float = 5.0
    gspo_low: float = 3e-4  # GSPO, arXiv:2507.18071
    gspo_high: float = 4e-4
    tv_bound: float = 0.2
    mismatch: Literal["off", "token", "step"] = "token"  # truncated importance sampling
    # of tokens, or of steps as wholes
    mismatch_cap: float = 2.0
    kl: float = 0.0  # coefficient of k3 against the reference model
    reference: str = ""  # its directory; empty: the model at the start
    entropy: float = 0.0  # coefficient of an entropy bonus


class OptimizerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """AdamW and its schedule."""

    lr: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.01
    warmup_steps: int = 0
    schedule: Literal["constant", "linear", "cosine"] = "constant"  # after the warm-up
    max_grad_norm: float = 1.0
    minibatches: int = 1  # optimiser updates that one batch is split into, by groups


class ComputeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the numbers are computed."""

    backend: Literal["twopass", "packed", "naive", "flex"] = "twopass"
    max_tokens: int = 16_384  # of leaves in one micro-batch
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the computation; weights are float32
    device: str = ""  # empty: cuda where there is one, else cpu
    gradient_checkpointing: bool = False
    threads: int | None = None  # None: torch's default
    seed: int = 0


class LoopSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How rollouts and updates take turns."""

    staleness: int = 1  # versions that the weights which sampled a group may be behind
    switch: Literal["episode", "step"] = "episode"  # when agents take new weights
    publish_every: int = 1  # optimiser batches between two versions
    evaluate_every: int = 0  # batches between two evaluations; 0: none


class SaveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept on disk."""

    every: int = 10  # batches between two checkpoints to resume from
    keep: int = 2  # of those
    keep_published: int = 2  # published versions; the last is always kept


class MetricSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the figures go, besides metrics.jsonl."""

    tensorboard: bool = True
    wandb: str = ""  # the project; empty: off
    trackio: str = ""  # the project; empty: off


class TrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training run."""

    model: str  # a Hugging Face directory: weights, config, tokenizer
    steps: int = 100  # optimiser batches
    profile: Literal["", "awm"] = ""  # named settings; what the file says wins over them
    rollouts: dict[str, Any] = {}  # harness.settings.run.Settings
    evaluation: dict[str, Any] = {}  # the same, for episodes that are not learned from
    data: DataSettings = DataSettings()
    loss: LossSettings = LossSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    compute: ComputeSettings = ComputeSettings()
    loop: LoopSettings = LoopSettings()
    save: SaveSettings = SaveSettings()
    metrics: MetricSettings = MetricSettings()
