"""What an estimator says about an action: drawn again and again from measured courses.

The courses of a state are taken for the truth, and every draw is one that a training run could have
made: an episode that took the action, the other episodes of its group, the branches of its states.
So the bias is exact, up to the number of draws. The estimators are those of training
(learner.advantages).
"""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from rehearsal_room.learner.advantages.forest import Path, at_turn
from rehearsal_room.learner.advantages.gigpo import Visit, gigpo
from rehearsal_room.learner.advantages.leave_one_out import leave_one_out
from rehearsal_room.learner.advantages.mean_std import mean_std
from rehearsal_room.learner.advantages.tree import tree
from rehearsal_room.learner.advantages.vine import vine
from rehearsal_room.learner.core.samples import Branching
from rehearsal_room.learner.credit.facts import ActionFacts, Course, StateFacts

# An estimate of an action's advantage: of one draw.
Estimate = Callable[[StateFacts, ActionFacts, Sequence[Course], Random], float]


def by_group(size: int, *, is_scaled: bool) -> Estimate:
    """GRPO's mean and deviation, or leave-one-out, in groups of so many whole episodes."""
    normalized = mean_std if is_scaled else leave_one_out

    def estimate(
        state: StateFacts, action: ActionFacts, starts: Sequence[Course], chance: Random
    ) -> float:
        own = chance.choice(action.courses).reward
        others = [one.reward for one in chance.choices(starts, k=size - 1)]
        baseline, scale = normalized(np.array([own, *others]))
        return float((own - baseline[0]) / scale)

    return estimate


def by_anchor(size: int, *, discount: float) -> Estimate:
    """GiGPO in groups of so many whole episodes."""

    def estimate(
        state: StateFacts, action: ActionFacts, starts: Sequence[Course], chance: Random
    ) -> float:
        own = chance.choice(action.courses)
        episodes = [(*state.before, *own.anchors)]
        others = chance.choices(starts, k=size - 1)
        episodes += [one.anchors for one in others]
        rewards = np.array([own.reward, *(one.reward for one in others)])
        visits = [
            [Visit(anchor, len(anchors) - 1 - turn) for turn, anchor in enumerate(anchors)]
            for anchors in episodes
        ]
        return gigpo(rewards, visits, discount=discount)[0][state.turn]

    return estimate


def by_branches(width: int, *, is_vine: bool, looks_ahead: bool = True) -> Estimate:
    """`vine` or `tree`, with so many branches in the state and, if it `looks_ahead`, in the one
    after the action. Without these it is what a branch itself gets, among as many others."""
    credit = vine if is_vine else tree

    def estimate(
        state: StateFacts, action: ActionFacts, starts: Sequence[Course], chance: Random
    ) -> float:
        turn = state.turn + 1  # branches at turn 0 would be episodes from the start
        paths = [Path("own", chance.choice(action.courses).reward)]
        chosen = chance.choices(
            state.everything, weights=[one.share for one in state.everything], k=width
        )
        for number, one in enumerate(chosen):
            reward = chance.choice(one.courses).reward
            paths.append(Path(f"before {number}", reward, Branching("own", turn)))
        if looks_ahead and not action.is_last:
            for number, course in enumerate(chance.choices(action.courses, k=width)):
                paths.append(Path(f"after {number}", course.reward, Branching("own", turn + 1)))
        return at_turn(credit(paths)[0], turn)

    return estimate
