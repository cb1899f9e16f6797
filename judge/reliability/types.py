"""What a reliability study found, as data."""

import msgspec

from harness.core.events import Label
from judge.reliability.statistics import Estimate


class Scales(msgspec.Struct, frozen=True):
    """A figure on two scales: completed or not, and all four labels."""

    binary: Estimate
    four_way: Estimate


class Comparison(msgspec.Struct, frozen=True):
    """Single judgings against what another source says of the same episodes."""

    episodes: int  # of which the other says something
    judgings: int  # of those
    agreement: Scales  # the share of judgings
    kappa: Scales  # Cohen's
    confusion: dict[Label, dict[Label, int]]  # theirs, then the judge's: judgings


class HumanComparison(Comparison, frozen=True):
    """The same against people; where they differ, their majority stands, and a tie is left out."""

    labellers: int
    between: Scales  # Krippendorff's alpha of the people among themselves, who labelled the same


class Flips(msgspec.Struct, frozen=True):
    """How often the label was another than the episode's base label: the one that most of its
    judgings gave. An episode without such a one is left out."""

    episodes: int
    flipped: Estimate  # the share of judgings: one an episode, all where repeats are compared
    not_completed: int  # episodes whose base label is not `completed`
    to_completed: Estimate  # the share of those that went to `completed`


class ModelFigures(msgspec.Struct, frozen=True):
    """What one model says by itself, whatever the verdicts were."""

    pairwise_agreement: Scales
    flip_probability: Estimate
    krippendorff_alpha: Scales
    code_agreement: Comparison | None  # None: the code had nothing to say
    rewording_flips: dict[str, Flips]
    injection_flips: dict[str, Flips]


class Cost(msgspec.Struct, frozen=True):
    """What the whole study took."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: a model had no price
    per_1024_episodes_usd: float | None  # one judging of each; None: no price, or none was judged
    seconds: float


class StudyReport(msgspec.Struct, frozen=True):
    """How far a judge can be trusted (`rehearse study --json`)."""

    judge: str  # as in `hybrid:gpt-5`
    rubric: str
    episodes: int
    repeats: int
    judgings: int  # all that were to be made, reworded ones too
    unjudged: int  # of those; missing values everywhere
    unjudged_reasons: dict[str, int]  # the most frequent first
    left_out: dict[str, int]  # episodes beside these, of which no case could be made, by reason
    stopped: str | None  # why the study is not whole; None: it is
    pairwise_agreement: Scales
    reward_flip_rate: Estimate  # episodes whose rewards are not all the same
    # Pairs of judgings of one episode with another reward. AWM's 9.2% is no share of 100 episodes,
    # but would be one of their 1,000 pairs.
    reward_pair_flip_rate: Estimate
    flip_probability: Estimate  # of a single judging, on the scale of two
    krippendorff_alpha: Scales
    code_agreement: Comparison | None  # None: the code had nothing to say
    human: HumanComparison | None  # None: no labels were given
    repeat_flips: Flips  # a judging against the episode's others: what rewordings are held against
    rewording_flips: dict[str, Flips]
    injection_flips: dict[str, Flips]
    disagreements: tuple[str, ...]  # episodes whose judgings are not all the same
    against_code: tuple[str, ...]  # episodes whose base label is not the code's
    cost: Cost
    # By model. Empty where one model's word is the verdict, as in mode `llm`.
    models: dict[str, ModelFigures] = {}
