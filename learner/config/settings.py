"""The settings of a training run: one TOML file, whose unknown keys are errors.

    model = "models/start"            # a Hugging Face folder
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

The defaults are the field's common ones; a comment beside a field names its source.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.validation import MAX_FLOAT

_TIME = re.compile(r"(?:\d+:)?\d{1,2}:[0-5]\d:[0-5]\d", re.ASCII)
_Count = Annotated[int, Meta(ge=1)]
_Turns = Annotated[int, Meta(ge=1, le=100)]  # a plan has twice as many groups for each one played
_NotNegative = Annotated[float, Meta(ge=0, le=MAX_FLOAT)]
_Positive = Annotated[float, Meta(gt=0, le=MAX_FLOAT)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Beta = Annotated[float, Meta(ge=0, lt=1)]


class DataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sources and selection of samples."""

    logs: Annotated[
        tuple[str, ...],
        Meta(
            description="Folders of runs to learn from; empty: rollouts are run now. Over a "
            "broker: the name of one run on it."
        ),
    ] = ()
    messages: Annotated[
        tuple[str, ...],
        Meta(
            description="Data sets of conversations to imitate (JSON Lines or Parquet), with"
            " `messages` and `tools` in OpenAI's form; `groups` are conversations then."
        ),
    ] = ()
    follow: Annotated[
        bool,
        Meta(
            description="Whether the runs of `logs` may still be played and judged: a batch then "
            "waits for its episodes."
        ),
    ] = False
    groups: Annotated[_Count, Meta(description="Groups in one optimiser batch.")] = 8
    epochs: Annotated[_Count, Meta(description="Number of passes over the logs.")] = 1
    # Waiting is DAPO's dynamic sampling (arXiv:2503.14476).
    fill: Annotated[
        bool,
        Meta(
            description="Whether a batch waits until it has `groups` usable groups; otherwise it "
            "takes the usable ones among the next `groups` groups."
        ),
    ] = False
    revisit_solved: Annotated[
        _Turns,
        Meta(
            description="A task whose last group was completed by all is played in every n-th of"
            " its turns, and others in its place."
        ),
    ] = 1
    revisit_never: Annotated[
        _Turns,
        Meta(description="The same for a task whose last group was completed by none."),
    ] = 1
    keep_equal: Annotated[
        bool, Meta(description="Whether groups whose rewards are all equal are kept.")
    ] = False
    completed_only: Annotated[
        bool,
        Meta(
            description="Whether episodes that the judge did not find completed are left out of "
            "their group: rejection sampling, with loss 'likelihood', advantage 'reward' and "
            "`keep_equal`."
        ),
    ] = False
    drop_truncated: Annotated[
        bool,
        Meta(
            description="Whether episodes that were stopped by a limit are left out of their group."
        ),
    ] = False
    too_long: Annotated[
        Literal["leave_out", "cut"],
        Meta(
            description="Whether replies that end beyond the model's context are left out or cut; "
            "both are counted."
        ),
    ] = "leave_out"
    misaligned: Annotated[
        bool,
        Meta(
            description="Whether episodes of another history window or dialect are also used for "
            "training."
        ),
    ] = False
    check_prompts: Annotated[
        _Share,
        Meta(description="Share of the episodes whose logged prompts are computed again."),
    ] = 1.0

    @property
    def is_live(self) -> bool:
        """Whether episodes are played while the model is trained."""
        return not (self.logs or self.messages)


class LossSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loss and advantages."""

    policy: Annotated[
        Literal["clip", "cispo", "gspo", "tv", "likelihood", "distill"],
        Meta(description="Policy loss; distill: imitate the reference model on own tokens."),
    ] = "clip"
    advantage: Annotated[
        Literal["mean_std", "mean", "leave_one_out", "reward", "tree", "vine", "gigpo"],
        Meta(description="How the rewards of a group become advantages."),
    ] = "mean_std"
    gigpo_weight: Annotated[  # GiGPO, arXiv:2505.10978; so is the discount
        _NotNegative,
        Meta(description="Weight of the step's advantage in advantage 'gigpo'."),
    ] = 1.0
    gigpo_discount: Annotated[
        _Share,
        Meta(description="Discount of an episode's reward for each later step, in 'gigpo'."),
    ] = 0.95
    rewards: Annotated[
        Literal["episode", "step"],
        Meta(
            description="Reward from which a sample's advantage is computed: the episode's or the "
            "step's."
        ),
    ] = "episode"
    shuffle: Annotated[  # arXiv:2506.10947
        bool,
        Meta(
            description="Whether the rewards of each group are dealt out among its episodes at "
            "random: a control, whose gain has nothing to do with the rewards."
        ),
    ] = False
    # Filled in when the settings are made: GSPO's objective weighs sequences (arXiv:2507.18071).
    aggregate: Annotated[
        Literal["token", "step", "episode", "constant"] | None,
        Meta(
            description="Unit over which losses are averaged with equal weight; constant: divide "
            "by the episodes times `constant_length`.",
            extra={"default": "token; for loss 'gspo' its scope"},
        ),
    ] = None
    constant_length: Annotated[  # Dr. GRPO, arXiv:2503.20783
        int,
        Meta(ge=0, description="Tokens of an episode by which aggregate 'constant' divides."),
    ] = 0
    count_equal: Annotated[
        bool,
        Meta(
            description="Whether groups that are dropped because their rewards are equal count in "
            "the denominators of `aggregate`, as if they were trained."
        ),
    ] = False
    scope: Annotated[
        Literal["step", "episode"],
        Meta(description="Span of the importance ratio of loss 'gspo'."),
    ] = "step"
    clip_low: Annotated[
        _Share, Meta(description="Distance of the lower clipping bound from 1.")
    ] = 0.2
    clip_high: Annotated[  # DAPO, arXiv:2503.14476
        _NotNegative, Meta(description="Distance of the upper clipping bound from 1.")
    ] = 0.28
    dual_clip: Annotated[  # arXiv:1912.09729
        Annotated[float, Meta(ge=0, le=MAX_FLOAT)],
        Meta(
            description="Greatest ratio in loss 'clip' of a token of negative advantage (dual "
            "clip), more than 1; 0: unbounded."
        ),
    ] = 0.0
    cispo_low: Annotated[
        _NotNegative,
        Meta(description="Minimum importance weight in loss 'cispo'; 0: unbounded."),
    ] = 0.0
    cispo_high: Annotated[
        _Positive, Meta(description="Maximum importance weight in loss 'cispo'.")
    ] = 5.0
    gspo_low: Annotated[  # GSPO, arXiv:2507.18071
        _Share, Meta(description="Distance of the lower clipping bound of loss 'gspo' from 1.")
    ] = 3e-4
    gspo_high: Annotated[
        _NotNegative,
        Meta(description="Distance of the upper clipping bound of loss 'gspo' from 1."),
    ] = 4e-4
    tv_bound: Annotated[
        Annotated[float, Meta(gt=0, le=1)],
        Meta(description="Maximum change of a token's probability in loss 'tv'."),
    ] = 0.2
    mismatch: Annotated[
        Literal["off", "token", "step", "episode"],
        Meta(
            description="Truncated importance sampling against the mismatch of sampler and "
            "trainer: of single tokens, of steps or episodes as wholes, or off."
        ),
    ] = "token"
    mismatch_cap: Annotated[_Positive, Meta(description="Cap of the weights of `mismatch`.")] = 2.0
    # With 'step' or 'episode' and a cap of 3 this is TRL's `sequence_mask`.
    mismatch_above: Annotated[
        Literal["truncate", "mask"],
        Meta(
            description="Whether weights above `mismatch_cap` are set to it, or their tokens are"
            " left out."
        ),
    ] = "truncate"
    reject: Annotated[
        Literal["off", "step", "episode"],
        Meta(
            description="Leave out steps or episodes whose tokens have a geometric mean of the"
            " ratios of trainer and sampler outside of `reject_low` and `reject_high`."
        ),
    ] = "off"
    reject_low: Annotated[_Share, Meta(description="Smallest mean ratio that `reject` keeps.")] = (
        0.99
    )
    reject_high: Annotated[
        Annotated[float, Meta(ge=1, le=MAX_FLOAT)],
        Meta(description="Greatest mean ratio that `reject` keeps."),
    ] = 1.01
    overlong_from: Annotated[  # DAPO, arXiv:2503.14476
        int,
        Meta(
            ge=0,
            description="Tokens of an episode's longest reply from which its reward is reduced;"
            " 0: it never is.",
        ),
    ] = 0
    overlong_to: Annotated[
        int,
        Meta(ge=0, description="Tokens of a reply at which the whole `overlong_penalty` counts."),
    ] = 0
    overlong_penalty: Annotated[
        _Positive, Meta(description="Greatest reduction of a reward for a long reply.")
    ] = 1.0
    length_penalty: Annotated[
        Annotated[float, Meta(ge=0, lt=1)],
        Meta(
            description="Share of its reward that the longest of a group's rewarded episodes loses;"
            " the shortest loses nothing."
        ),
    ] = 0.0
    kl: Annotated[
        _NotNegative,
        Meta(description="Coefficient of the KL penalty (k3) against the reference model."),
    ] = 0.0
    reference: Annotated[
        str, Meta(description="Folder of the reference model; empty: the model at the start.")
    ] = ""
    entropy: Annotated[_NotNegative, Meta(description="Coefficient of the entropy bonus.")] = 0.0

    def __post_init__(self) -> None:
        if self.shuffle and self.rewards == "step":
            raise ValueError("shuffle: rewards 'step' cannot be dealt out; use rewards 'episode'")
        if self.aggregate is None:
            unit = self.scope if self.policy == "gspo" else "token"
            msgspec.structs.force_setattr(self, "aggregate", unit)


class OptimizerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """AdamW and its schedule."""

    lr: Annotated[_Positive, Meta(description="Learning rate.")] = 1e-6
    betas: Annotated[
        tuple[_Beta, _Beta],
        Meta(description="Decay rates of the first and second moments."),
    ] = (0.9, 0.95)
    eps: Annotated[_Positive, Meta(description="Number added to the denominator of an update.")] = (
        1e-8
    )
    weight_decay: Annotated[
        _NotNegative, Meta(description="Coefficient of the decoupled weight decay.")
    ] = 0.01
    warmup_steps: Annotated[
        int, Meta(ge=0, description="Batches over which the learning rate rises from zero.")
    ] = 0
    schedule: Annotated[
        Literal["constant", "linear", "cosine"],
        Meta(description="Course of the learning rate after the warm-up."),
    ] = "constant"
    max_grad_norm: Annotated[
        _Positive, Meta(description="Norm to which gradients are clipped.")
    ] = 1.0
    minibatches: Annotated[
        _Count, Meta(description="Optimiser updates that one batch is split into, by groups.")
    ] = 1


class LoraSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Low-rank adapters, which are trained in place of the model's weights (arXiv:2106.09685)."""

    rank: Annotated[
        int,
        Meta(ge=0, description="Rank of the adapters; 0: all weights are trained, without any."),
    ] = 0
    alpha: Annotated[
        _Positive,
        Meta(description="Scale of the adapters: their product is multiplied by alpha / rank."),
    ] = 32.0
    targets: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of the linear layers that get adapters, as in q_proj; empty: all of"
            " the decoder."
        ),
    ] = ()


class ComputeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Device, number format and memory use of the computation."""

    backend: Annotated[
        Literal["twopass", "packed", "naive", "flex"],
        Meta(description="How samples that share a prefix are computed."),
    ] = "twopass"
    max_tokens: Annotated[
        _Count,
        Meta(
            description="Maximum number of suffix tokens in one micro-batch.",
            extra={"may_change": True},
        ),
    ] = 16_384
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        Meta(description="Number format of the computation; weights are float32."),
    ] = "float32"
    device: Annotated[
        str,
        Meta(
            description="Device of the computation; empty: cuda where available, else cpu.",
            extra={"may_change": True},
        ),
    ] = ""
    gradient_checkpointing: Annotated[
        bool,
        Meta(
            description="Whether activations are computed again in the backward pass, which saves "
            "memory.",
            extra={"may_change": True},
        ),
    ] = False
    threads: Annotated[
        _Count | None,
        Meta(
            description="Number of CPU threads.",
            extra={"default": "torch's own", "may_change": True},
        ),
    ] = None
    seed: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="Seed of all random choices in training."),
    ] = 0


class LoopSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Order of rollouts and updates."""

    staleness: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum number of versions by which the weights that sampled a group may "
            "be behind.",
        ),
    ] = 1
    switch: Annotated[
        Literal["episode", "step"],
        Meta(description="When agents switch to new weights: before an episode or before a step."),
    ] = "episode"
    publish_every: Annotated[
        _Count, Meta(description="Optimiser batches between two published versions.")
    ] = 1
    evaluate_every: Annotated[
        int, Meta(ge=0, description="Optimiser batches between two evaluations; 0: none.")
    ] = 0


class SaveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Checkpoints and published weights on disk."""

    every: Annotated[
        _Count, Meta(description="Optimiser batches between two checkpoints to resume from.")
    ] = 10
    keep: Annotated[_Count, Meta(description="Number of checkpoints that are kept.")] = 2
    keep_published: Annotated[
        _Count,
        Meta(description="Number of published versions that are kept; the newest is always kept."),
    ] = 2
    must_save_by: Annotated[
        str,
        Meta(
            description="Time after the start, as HH:MM:SS or DD:HH:MM:SS, by which the run ends "
            "with a checkpoint, for machines with a time limit; empty: none.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        if self.must_save_by and not _TIME.fullmatch(self.must_save_by):
            raise ValueError(
                f"must_save_by: {self.must_save_by!r} is not a time: write HH:MM:SS or DD:HH:MM:SS"
            )

    @property
    def must_save_by_s(self) -> float | None:
        """`must_save_by` in seconds."""
        if not self.must_save_by:
            return None
        units = zip(reversed(self.must_save_by.split(":")), (1, 60, 3_600, 86_400), strict=False)
        return float(sum(int(number) * seconds for number, seconds in units))


class MetricSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the metrics go, besides metrics.jsonl."""

    tensorboard: Annotated[
        bool, Meta(description="Whether metrics are written for TensorBoard.")
    ] = True
    wandb: Annotated[
        str, Meta(description="Project at Weights & Biases that gets the metrics; empty: none.")
    ] = ""
    trackio: Annotated[
        str, Meta(description="Trackio project that gets the metrics; empty: none.")
    ] = ""


class VllmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vLLM server that the run starts for policy `vllm`."""

    python: Annotated[
        str,
        Meta(
            description="Python interpreter that has vLLM, with which a server is started for the"
            " run; empty: one runs already (`base_url`)."
        ),
    ] = ""
    args: Annotated[tuple[str, ...], Meta(description="More arguments of that server.")] = ()


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The trainer that updates the weights, if it is not our own."""

    kind: Annotated[
        Literal["own", "prime-rl"],
        Meta(description="Trainer; prime-rl: its own process, which reads and writes files."),
    ] = "own"
    folder: Annotated[str, Meta(description="Folder that prime-rl's `output_dir` names.")] = ""
    config: Annotated[str, Meta(description="Configuration file (TOML) of prime-rl's trainer.")] = (
        ""
    )
    ranks: Annotated[
        _Count, Meta(description="Data-parallel ranks of prime-rl's trainer, one file for each.")
    ] = 1
    timeout: Annotated[
        _Positive,
        Meta(
            description="Seconds to wait for the weights of one batch.", extra={"may_change": True}
        ),
    ] = 3_600.0


class TrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training run."""

    model: Annotated[
        str, Meta(description="Hugging Face folder of the model: weights, config, tokenizer.")
    ]
    steps: Annotated[
        _Count,
        Meta(description="Number of optimiser batches.", extra={"may_change": True}),
    ] = 100
    profile: Annotated[
        Literal["", "awm"],
        Meta(description="Profile of settings; values in the file take precedence."),
    ] = ""
    soundness: Annotated[
        str,
        Meta(
            description="File that `judge study` or `worlds check` wrote as JSON: a warning says "
            "where the judge's J may be 0.",
            extra={"metavar": "FILE", "may_change": True},
        ),
    ] = ""
    rollouts: Annotated[
        dict[str, Any],
        Meta(description="Settings of the training rollouts, as for `rehearse run`."),
    ] = {}
    evaluation: Annotated[
        dict[str, Any],
        Meta(
            description="Settings in which evaluations differ from the rollouts.",
            extra={"may_change": True},
        ),
    ] = {}
    data: Annotated[DataSettings, Meta(description="Sources and selection of samples.")] = (
        DataSettings()
    )
    loss: Annotated[LossSettings, Meta(description="Loss and advantages.")] = LossSettings()
    optimizer: Annotated[OptimizerSettings, Meta(description="AdamW and its schedule.")] = (
        OptimizerSettings()
    )
    lora: Annotated[
        LoraSettings,
        Meta(description="Low-rank adapters that are trained in place of the model's weights."),
    ] = LoraSettings()
    compute: Annotated[
        ComputeSettings,
        Meta(description="Device, number format and memory use of the computation."),
    ] = ComputeSettings()
    engine: Annotated[
        EngineSettings,
        Meta(description="The trainer that updates the weights, if it is not our own."),
    ] = EngineSettings()
    vllm: Annotated[
        VllmSettings,
        Meta(
            description="The vLLM server that the run starts for policy `vllm`.",
            extra={"may_change": True},
        ),
    ] = VllmSettings()
    loop: Annotated[LoopSettings, Meta(description="Order of rollouts and updates.")] = (
        LoopSettings()
    )
    save: Annotated[
        SaveSettings,
        Meta(description="Checkpoints and published weights on disk.", extra={"may_change": True}),
    ] = SaveSettings()
    metrics: Annotated[
        MetricSettings, Meta(description="Destinations of the metrics.", extra={"may_change": True})
    ] = MetricSettings()
