"""What is trained on: episodes as token samples, in groups.

A sample is one reply of the agent: the exact tokens that it was shown, those that it sampled, and
their log-probabilities as the sampler gave them. Nothing is tokenised again. A group holds the
episodes of one task that began alike; its rewards are compared with each other.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
NOTHING: Ids = np.zeros(0, np.int32)


class Sample(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One reply: a step of the episode, or a summary that its history policy asked for.

    What was shown are the tokens of `head`, which an episode's samples have as one array, and then
    those of `shown`: with a prefix of 6,000 tokens, prompts that hold it each take five times the
    memory.
    """

    shown: Ids  # [P - H], what was shown behind the head; at least one token
    tokens: Ids  # [T], what was sampled, the end token included; T >= 1
    logprobs: Floats  # [T], of the sampler; -inf never
    reward: float  # of the step; of a summary: that of the step which came next
    turn: int  # the step's number from 0; of a summary: of the step which came next
    weights: str  # the version of the weights that sampled it
    is_summary: bool = False
    head: Ids = NOTHING  # [H]; one array for all samples of an episode

    @property
    def prompt(self) -> Ids:
        """What was shown: `[P]`."""
        return np.concatenate((self.head, self.shown)) if len(self.head) else self.shown


class Rollout(msgspec.Struct, frozen=True, eq=False):
    """One finished and judged episode."""

    episode: str
    member: int  # its place in the group
    reward: float  # the episode's own: of its task, or of the format error that ended it
    samples: tuple[Sample, ...]  # in the order in which they were sampled; at least one
    ending: str
    label: str
    is_truncated: bool = False  # a limit of the run cut it off


class Group(msgspec.Struct, frozen=True, eq=False):
    """The episodes of one task that began alike."""

    group: str
    scenario: str
    task: str
    rollouts: tuple[Rollout, ...]  # by member
    versions: tuple[str, ...] = ()  # of weights that sampled in it, in the order of their use
