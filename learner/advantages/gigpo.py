"""GiGPO (arXiv:2505.10978): the episode's advantage plus that of the step among all steps of the
group that were taken in the same state.

    A = (R_k - mean(R)) + weight * (G - mean of the G of steps with the same anchor)
    G = discount ** (steps from this one to the last) * R_k

An anchor is what tells states apart: the world's digest and the exact window that the agent was
shown. A state that only looks equal has another anchor, and so has the same state after another
conversation. A step with an anchor of its own has the episode's advantage alone. As by default in
the authors' code, nothing is divided by a deviation, so a step counts in its own mean.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from rehearsal_room.learner.advantages.base import RewardArray


class Visit(NamedTuple):
    """A step of an episode, as GiGPO sees it."""

    anchor: Hashable
    to_end: int  # steps from this one to the episode's last one


def gigpo(
    rewards: RewardArray,
    visits: Sequence[Sequence[Visit]],
    *,
    discount: float = 0.95,
    weight: float = 1.0,
) -> list[list[float]]:
    """The advantage of each visit of G episodes with `rewards [G]`.

    Example: rewards 1 and 0, and each of the two episodes visits s at the end, the first one before
             that also t; discount 0.5 -> [[1/2 + 0, 1/2 + 1/2], [-1/2 - 1/2]]
    """
    returns = [
        [discount**visit.to_end * float(reward) for visit in of_episode]
        for reward, of_episode in zip(rewards, visits, strict=True)
    ]
    together: defaultdict[Hashable, list[float]] = defaultdict(list)
    for of_episode, values in zip(visits, returns, strict=True):
        for visit, value in zip(of_episode, values, strict=True):
            together[visit.anchor].append(value)
    means = {anchor: sum(values) / len(values) for anchor, values in together.items()}
    expected = float(rewards.mean())
    return [
        [
            float(reward) - expected + weight * (value - means[visit.anchor])
            for visit, value in zip(of_episode, values, strict=True)
        ]
        for reward, of_episode, values in zip(rewards, visits, returns, strict=True)
    ]
