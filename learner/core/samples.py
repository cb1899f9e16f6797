"""The training data: episodes as token samples, in groups.

A sample is one reply of the agent: the exact tokens of its prompt, the tokens that it sampled, and
their log-probabilities as the sampler reported them. No text is tokenized again. A group holds the
episodes of one task that started from the same state; its rewards are compared with each other.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
NO_IDS: Ids = np.zeros(0, np.int32)


class Sample(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One reply: a step of the episode, or a summary that its history window asked for.

    The prompt is `head`, one array that all samples of an episode share, followed by `tail`: with a
    prefix of 6,000 tokens, prompts that each hold it take five times the memory.
    """

    tail: Ids  # [P - H], the prompt's tokens after the head; at least one token
    tokens: Ids  # [T], the sampled tokens, the end token included; T >= 1
    logprobs: Floats  # [T], from the sampler; never -inf
    reward: float  # of the step; for a summary: of the step that followed it
    turn: int  # the step's number from 0; for a summary: of the step that followed it
    weights: str  # the version of the weights that sampled it
    is_summary: bool = False
    head: Ids = NO_IDS  # [H], one array for all samples of an episode
    state: str = ""  # digest of the world before the reply; empty: the world does not reveal it

    @property
    def prompt(self) -> Ids:
        """The tokens that the agent was shown: `[P]`."""
        return np.concatenate((self.head, self.tail)) if len(self.head) else self.tail


class Branching(msgspec.Struct, frozen=True, gc=False):
    """Where an episode branches from another one of its group: it begins with the turns of that
    episode before `turn`. These belong to the other episode's samples."""

    episode: str
    turn: int


class Rollout(msgspec.Struct, frozen=True, eq=False):
    """One finished and judged episode."""

    episode: str
    member: int  # its index in the group
    reward: float  # of the whole episode: of its task, or of the format error that ended it
    samples: tuple[Sample, ...]  # in the order in which they were sampled; at least one
    ending: str
    label: str
    is_truncated: bool = False  # a limit of the run ended it
    control_tokens: int = 0  # sampled special tokens, but for the last token of a reply
    too_long: int = 0  # replies beyond the model's context, which were cut or left out
    folds: int = 0  # turns in which the agent folded its history
    branching: Branching | None = None  # None: it begins where its group begins

    @property
    def num_tokens(self) -> int:
        """The number of sampled tokens."""
        return sum(len(sample.tokens) for sample in self.samples)

    @property
    def num_turns(self) -> int:
        """The number of turns whose replies are trained."""
        return len({sample.turn for sample in self.samples if not sample.is_summary})


class GroupSize(msgspec.Struct, frozen=True):
    """What one or more groups count in the denominators of a loss."""

    tokens: int = 0  # sampled
    samples: int = 0
    episodes: int = 0

    @classmethod
    def of(cls, rollouts: Sequence[Rollout]) -> "GroupSize":
        """The size of these episodes."""
        return cls(
            sum(rollout.num_tokens for rollout in rollouts),
            sum(len(rollout.samples) for rollout in rollouts),
            len(rollouts),
        )

    def __add__(self, other: "GroupSize") -> "GroupSize":
        return GroupSize(
            self.tokens + other.tokens,
            self.samples + other.samples,
            self.episodes + other.episodes,
        )

    def __sub__(self, other: "GroupSize") -> "GroupSize":
        return GroupSize(
            self.tokens - other.tokens,
            self.samples - other.samples,
            self.episodes - other.episodes,
        )


NO_GROUPS = GroupSize()


class Group(msgspec.Struct, frozen=True, eq=False):
    """The episodes of one task that started from the same state."""

    group: str
    scenario: str
    task: str
    rollouts: tuple[Rollout, ...]  # by member
    versions: tuple[str, ...] = ()  # of the weights that sampled it, see grouping.versions_of
