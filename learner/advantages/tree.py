"""The worth of an action minus that of the other actions in its state, each by all that followed.

    A = Q(action) - mean of Q(other actions in the same state)

Q of a segment that ends in a state with branches is the mean over the actions there, of their Q;
else it is the reward. So every episode of a subtree counts for the segments above it, as in TreeRL
(arXiv:2506.11902), and one state's actions have the same weight however many episodes follow them.

An action is compared with samples other than its own: without bias, where the branchings were
chosen without regard to the rewards. Without branches it is leave-one-out. An action with no other
beside it, because those were excluded, has an advantage of 0: there is nothing to compare.
"""

from collections.abc import Sequence

from rehearsal_room.learner.advantages.forest import Action, Credits, Forest, Path


def tree(paths: Sequence[Path]) -> Credits:
    """The advantage of each segment.

    Example: a of reward 1 and b of reward 0, and c of reward 0 after two turns of a
             -> a: 1/2 - 0 from turn 0, 1 - 0 from turn 2; b: 0 - 1/2; c: 0 - 1
    """
    forest = Forest(paths)

    def worth(action: Action) -> float:
        number, _ = action
        value = paths[number].reward
        for branches in reversed(forest.later(action)):  # from the end of the episode
            others = [worth((one, turn)) for one, turn in branches]
            value = (value + sum(others)) / (1 + len(others))
        return value

    def advantage(action: Action) -> float:
        others = [worth(one) for one in forest.others(action)]
        return worth(action) - sum(others) / len(others) if others else 0.0

    return forest.credits(advantage)
