"""The value of the state after an action minus that of the state before it (VinePPO,
arXiv:2410.01679).

    A = V(next) - V(state)

The value of a state is the mean reward of the episodes that went on from it independently: the K
branches of the state, without the episode that the action belongs to. At the end of an episode it
is the reward. Between two states that have branches there is one advantage.

VinePPO trains on the episode and not on its branches. Here these are trained as well: a branch has
its reward minus the mean reward of the other episodes that went on from its state. An action with
no other beside it, because those were excluded, has an advantage of 0: there is nothing to compare.
"""

from collections.abc import Sequence

from rehearsal_room.learner.advantages.forest import Action, Credits, Forest, Path


def vine(paths: Sequence[Path]) -> Credits:
    """The advantage of each segment.

    Example: a of reward 1 and b of reward 0, and c of reward 0 after two turns of a
             -> a: 0 - 0 from turn 0, 1 - 0 from turn 2; b: 0 - 1; c: 0 - 1
    """
    forest = Forest(paths)

    def mean_reward(actions: Sequence[Action]) -> float:
        return sum(paths[number].reward for number, _ in actions) / len(actions)

    def advantage(action: Action) -> float:
        others = forest.others(action)
        after = forest.later(action)
        return mean_reward(after[0] if after else [action]) - mean_reward(others) if others else 0.0

    return forest.credits(advantage)
