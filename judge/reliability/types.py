"""The results of a reliability study, as data."""

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.outcomes.bootstrap import Figure
from rehearsal_room.judge.statistics.youden import Youden


class Scales(msgspec.Struct, frozen=True):
    """A figure on two scales: completed or not, and all four labels."""

    binary: Figure
    four_way: Figure


class LabelComparison(msgspec.Struct, frozen=True):
    """Single judgings compared with another source's labels of the same episodes."""

    episodes: int  # that the other source labels
    judgings: int  # of those
    agreement: Scales  # the share of judgings
    kappa: Scales  # Cohen's
    confusion: dict[
        Label, dict[Label, int]
    ]  # judgings by the other source's label, then the judge's


class HumanComparison(LabelComparison, frozen=True):
    """The same with people: their majority counts, and ties are left out."""

    labellers: int
    between: Scales  # Krippendorff's alpha among the people, of episodes that several labelled


class Flips(msgspec.Struct, frozen=True):
    """How often the label differed from the episode's base label, which most of its judgings gave.
    An episode without a base label is left out."""

    episodes: int
    flipped: Figure  # share of judgings: one per episode, or all repeats
    not_completed: int  # episodes whose base label is not `completed`
    to_completed: Figure  # share of those that became `completed`


class ModelFigures(msgspec.Struct, frozen=True):
    """One model's own labels, whatever the verdicts were."""

    pairwise_agreement: Scales
    flip_probability: Figure
    krippendorff_alpha: Scales
    code_agreement: LabelComparison | None  # None: code had no labels
    rewording_flips: dict[str, Flips]
    injection_flips: dict[str, Flips]


class Cost(msgspec.Struct, frozen=True):
    """The cost of the whole study."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: a model had no price
    per_1024_episodes_usd: float | None  # one judging each; None: no price, or no label
    seconds: float


class StudyReport(msgspec.Struct, frozen=True):
    """How far a judge can be trusted (`rehearse judge study --json`)."""

    judge: str  # as in `hybrid:gpt-5`
    rubric: str
    episodes: int
    repeats: int
    judgings: int  # all that were planned, perturbed ones too
    unjudged: int  # of those; missing values everywhere
    unjudged_reasons: dict[str, int]  # the most frequent first
    left_out: dict[str, int]  # other episodes, of which no case could be made, by reason
    stopped: str | None  # why the study is incomplete; None: it is complete
    pairwise_agreement: Scales
    reward_flip_rate: Figure  # episodes whose rewards are not all equal
    # Pairs of judgings of one episode with different rewards. AWM's 9.2% cannot be a share of 100
    # episodes, but can be one of their 1,000 pairs.
    reward_pair_flip_rate: Figure
    flip_probability: Figure  # of a single judging, on the scale of two
    krippendorff_alpha: Scales
    code_agreement: LabelComparison | None  # None: code had no labels
    human: HumanComparison | None  # None: no labels were given
    repeat_flips: Flips  # a judging against the episode's others: the baseline of perturbations
    rewording_flips: dict[str, Flips]
    injection_flips: dict[str, Flips]
    disagreements: tuple[str, ...]  # episodes whose judgings are not all equal
    against_code: tuple[str, ...]  # episodes whose base label differs from the code's
    cost: Cost
    # By model. Empty where one model's label is the verdict, as in mode `llm`.
    models: dict[str, ModelFigures] = {}
    # By what went wrong in the logged episode: where a judge draws the labels otherwise (see
    # judge.core.label_rules). An episode may have several kinds.
    code_by_kind: dict[str, LabelComparison] = {}
    # J = TPR - FPR on completed or not, by who knows the truth: `people`, or `code` where the judge
    # is another one. Empty: nobody knows, or there was no right or no wrong work.
    j_against: dict[str, Youden] = {}
