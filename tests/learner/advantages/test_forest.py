"""Advantages in groups that branch, against the exact ones of three small decision processes.

No other trainer's `vine` or `tree` can be installed beside ours; TRL and verl have neither. So the
other side is arithmetic: each process is solved by hand, and every group that can be sampled is
enumerated with its probability. What an estimator gives on average, and how much it varies, is
therefore exact.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

import numpy as np
import pytest

from rehearsal_room.learner.advantages.forest import Credits, Path, at_turn
from rehearsal_room.learner.advantages.gigpo import Visit, gigpo
from rehearsal_room.learner.advantages.leave_one_out import leave_one_out
from rehearsal_room.learner.advantages.tree import tree
from rehearsal_room.learner.advantages.vine import vine
from rehearsal_room.learner.core.samples import Branching

# For each state its actions: probability, and the next state or the reward at the end.
Process = dict[str, dict[str, tuple[float, str | float]]]
Played = tuple[float, tuple[tuple[str, str], ...], float]  # probability, states and actions, reward
Estimator = Callable[[Sequence[Path]], Credits]

# The first action does not matter, the second one alone does.
LATE: Process = {
    "start": {"left": (0.5, "middle"), "right": (0.5, "middle")},
    "middle": {"good": (0.5, 1.0), "bad": (0.5, 0.0)},
}
# A wrong action can be repaired, which the policy rarely does: V(start) = 5/8.
REPAIR: Process = {
    "start": {"right": (0.5, "safe"), "wrong": (0.5, "broken")},
    "safe": {"answer": (1.0, 1.0)},
    "broken": {"repair": (0.25, 1.0), "answer": (0.75, 0.0)},
}
# After the trap nothing helps, and nothing that is done there is to blame: V(start) = 1/2.
TRAP: Process = {
    "start": {"safe": (0.75, "alive"), "trap": (0.25, "dead")},
    "alive": {"win": (2 / 3, 1.0), "lose": (1 / 3, 0.0)},
    "dead": {"win": (2 / 3, 0.0), "lose": (1 / 3, 0.0)},
}
EXACT = {
    "late": (
        LATE,
        {("start", "left"): 0, ("start", "right"): 0, ("middle", "good"): 1 / 2}
        | {("middle", "bad"): -1 / 2},
    ),
    "repair": (
        REPAIR,
        {("start", "right"): 3 / 8, ("start", "wrong"): -3 / 8, ("safe", "answer"): 0}
        | {("broken", "repair"): 3 / 4, ("broken", "answer"): -1 / 4},
    ),
    "trap": (
        TRAP,
        {("start", "safe"): 1 / 6, ("start", "trap"): -1 / 2, ("alive", "win"): 1 / 3}
        | {("alive", "lose"): -2 / 3, ("dead", "win"): 0, ("dead", "lose"): 0},
    ),
}


def played(process: Process, state: str = "start") -> Iterator[Played]:
    """Every way to go on from a state."""
    for action, (probability, after) in process[state].items():
        if isinstance(after, float):
            yield probability, ((state, action),), after
            continue
        for likely, rest, reward in played(process, after):
            yield probability * likely, ((state, action), *rest), reward


def groups(process: Process, branches: int) -> Iterator[tuple[float, list[Path], list[Played]]]:
    """Every group of two episodes from the start, each with so many branches at turn 1."""
    for roots in product(played(process), repeat=2):
        later = [played(process, root[1][1][0]) for root in roots]
        each = [list(product(list(one), repeat=branches)) for one in later]
        for chosen in product(*each):
            paths = [Path(f"r{number}", root[2]) for number, root in enumerate(roots)]
            members = [*roots]
            for number, of_root in enumerate(chosen):
                for branch in of_root:
                    name = f"b{len(paths)}"
                    paths.append(Path(name, branch[2], Branching(f"r{number}", 1)))
                    members.append(branch)
            yield prod(one[0] for one in members), paths, members


def moments(
    process: Process, estimator: Estimator, branches: int
) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and variance of the advantage of each action of each state, over all groups; of the
    first episode, and of its branches."""
    sums: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for probability, paths, members in groups(process, branches):
        credits = estimator(paths)
        for path, member, found in zip(paths, members, credits, strict=True):
            first = 0 if path.branching is None else 1
            if path.episode == "r1" or (path.branching and path.branching.episode == "r1"):
                continue
            for turn, taken in enumerate(member[1], first):
                value = at_turn(found, turn)
                of_action = sums[taken]
                of_action[0] += probability
                of_action[1] += probability * value
                of_action[2] += probability * value**2
    return {
        taken: (mean / total, square / total - (mean / total) ** 2)
        for taken, (total, mean, square) in sums.items()
    }


def episodes_alone(paths: Sequence[Path]) -> Credits:
    """Leave-one-out, which knows whole episodes only."""
    rewards = np.array([path.reward for path in paths])
    baseline, _ = leave_one_out(rewards)
    return [[(0, float(reward - one))] for reward, one in zip(rewards, baseline, strict=True)]


@pytest.mark.parametrize("branches", [1, 2])
@pytest.mark.parametrize("estimator", [tree, vine])
@pytest.mark.parametrize("name", EXACT)
def test_forks_give_the_exact_advantage_on_average(
    name: str, estimator: Estimator, branches: int
) -> None:
    """Of every action in every state, in trunks and branches, without bias."""
    process, exact = EXACT[name]
    found = moments(process, estimator, branches)
    assert {taken: mean for taken, (mean, _) in found.items()} == pytest.approx(exact)


def test_an_episodes_reward_credits_the_wrong_turn() -> None:
    """What leave-one-out gives on average is Q minus the value of the start, so an action is
    credited with the luck before it: in the trap nothing helps, and everything is blamed."""
    process, exact = EXACT["trap"]
    found = moments(process, episodes_alone, 0)
    bias = {taken: mean - exact[taken] for taken, (mean, _) in found.items()}
    assert bias == pytest.approx(
        {("start", "safe"): 0, ("start", "trap"): 0, ("alive", "win"): 1 / 6}
        | {("alive", "lose"): 1 / 6, ("dead", "win"): -1 / 2, ("dead", "lose"): -1 / 2}
    )


@pytest.mark.parametrize(
    ("estimator", "branches", "variance"),
    [
        # Rewards are 0 or 1, of variance 1/4 each.
        (episodes_alone, 0, 1 / 4 + 1 / 4),
        (vine, 1, 1 / 4 + 1 / 4),
        (vine, 2, 1 / 8 + 1 / 4),  # two continuations, less the other episode
        (tree, 1, 1 / 8 + 1 / 8),  # of the episode and its branch, less as many
        (tree, 2, 1 / 12 + 1 / 12),
    ],
)
def test_an_action_that_does_not_matter_has_less_noise(
    estimator: Estimator, branches: int, variance: float
) -> None:
    """The variance of the advantage of the first action of `LATE`, which is 0."""
    found = moments(LATE, estimator, branches)
    assert found["start", "left"] == pytest.approx((0, variance))
    assert found["start", "right"] == pytest.approx((0, variance))


def whole_episodes(process: Process, size: int) -> Iterator[tuple[float, list[Path], list[Played]]]:
    """Every group of so many episodes without branches."""
    for episodes in product(list(played(process)), repeat=size):
        paths = [Path(f"r{number}", one[2]) for number, one in enumerate(episodes)]
        yield prod(one[0] for one in episodes), paths, list(episodes)


def signal_by_turn(
    process: Process,
    estimator: Estimator,
    sampled: Iterator[tuple[float, list[Path], list[Played]]],
) -> float:
    """|mean|^2 / variance of the policy gradient of one group, by the turns that it samples, for a
    policy with a logit for each action of each state. All turns are credited, each once."""
    index = {(state, action): 0 for state in process for action in process[state]}
    index = {taken: number for number, taken in enumerate(index)}
    mean, square, turns = np.zeros(len(index)), 0.0, 0.0
    for probability, paths, members in sampled:
        gradient = np.zeros(len(index))
        for path, member, credits in zip(paths, members, estimator(paths), strict=True):
            for turn, (state, action) in enumerate(member[1], 1 if path.branching else 0):
                advantage = at_turn(credits, turn)
                gradient[index[state, action]] += advantage
                for other, (chance, _) in process[state].items():
                    gradient[index[state, other]] -= advantage * chance
                turns += probability
        mean += probability * gradient
        square += probability * float(gradient @ gradient)
    signal = float(mean @ mean)
    return signal / (square - signal) / turns


@pytest.mark.parametrize(
    ("name", "whole", "by_vine", "by_tree"),
    [
        ("late", 0.25, 0.5, 0.614),  # forks pay where late turns decide,
        ("trap", 0.202, 0.196, 0.210),
        ("repair", 0.292, 0.093, 0.099),  # and cost where the first one does
    ],
)
def test_what_forks_are_worth_for_each_sampled_turn(
    name: str, whole: float, by_vine: float, by_tree: float
) -> None:
    """Groups of eight turns: four episodes, or two and two branches of each after the first turn.
    A branch samples half of an episode; whether that half decides is up to the process."""
    process, _ = EXACT[name]
    found = [
        signal_by_turn(process, episodes_alone, whole_episodes(process, 4)),
        signal_by_turn(process, vine, groups(process, 2)),
        signal_by_turn(process, tree, groups(process, 2)),
    ]
    assert found == pytest.approx([whole, by_vine, by_tree], abs=6e-4)


@pytest.mark.parametrize("estimator", [tree, vine])
def test_without_branches_it_is_leave_one_out(estimator: Estimator) -> None:
    """A group of four episodes, three of which failed."""
    paths = [Path(f"e{number}", reward) for number, reward in enumerate([1.0, 0.0, 0.0, 0.0])]
    assert estimator(paths) == [[(0, 1.0)], *[[(0, -1 / 3)]] * 3]


@pytest.mark.parametrize("estimator", [tree, vine])
def test_equal_rewards_give_nothing(estimator: Estimator) -> None:
    """Whatever the branches are: nothing shows what is better."""
    paths = [Path("a", 1.0), Path("b", 1.0), Path("c", 1.0, Branching("a", 3))]
    assert estimator(paths) == [[(0, 0.0), (3, 0.0)], [(0, 0.0)], [(3, 0.0)]]


@pytest.mark.parametrize("estimator", [tree, vine])
def test_a_branch_whose_source_was_excluded(estimator: Estimator) -> None:
    """Branches of one state are compared with each other; one that is alone with nothing, and not
    with episodes that were in other states."""
    one, other = Branching("gone", 2), Branching("gone", 4)
    paths = [Path("a", 1.0), Path("b", 0.0), Path("c", 1.0, one), Path("d", 0.0, one)]
    paths.append(Path("e", 1.0, other))
    credits = [[(0, 1.0)], [(0, -1.0)], [(2, 1.0)], [(2, -1.0)], [(4, 0.0)]]
    assert estimator(paths) == credits


def test_branches_of_branches() -> None:
    """A branch that begins in the very state in which its source began, or before, belongs to the
    source's source; each state's actions weigh the same, however many episodes follow them."""
    paths = [
        Path("a", 0.0),
        Path("b", 0.0),
        Path("c", 1.0, Branching("a", 2)),
        Path("d", 0.0, Branching("c", 4)),
        Path("e", 1.0, Branching("d", 4)),  # in the state where d began: one of c
        Path("f", 0.0, Branching("d", 1)),  # among the turns that all of them have of a
        Path("g", 1.0, Branching("f", 0)),  # at the start
    ]
    # c's subtree after turn 4: c, d, e -> 2/3; a after turn 2: (0 + 2/3) / 2; after 1: half of it.
    expected = [
        {0: 1 / 6 - 1 / 2, 1: 1 / 3 - 0, 2: 0 - 2 / 3},
        {0: 0 - (1 / 6 + 1) / 2},
        {2: 2 / 3 - 0, 4: 1 - (0 + 1) / 2},
        {4: 0 - (1 + 1) / 2},
        {4: 1 - (1 + 0) / 2},
        {1: 0 - 1 / 3},
        {0: 1 - (1 / 6 + 0) / 2},
    ]
    for found, of_episode in zip(tree(paths), expected, strict=True):
        assert dict(found) == pytest.approx(of_episode)
    assert vine(paths)[0] == [(0, 0 - 1 / 2), (1, 1 - 0), (2, 0 - 1.0)]


@pytest.mark.parametrize("size", [2, 3])
def test_gigpo_weighs_the_step_among_equal_states(size: int) -> None:
    """In `LATE`, whose episodes all pass through the same two states, both parts are (G - 1) / G
    of the exact advantage on average; the first action gets the noise of both."""
    sums = {"left": [0.0, 0.0], "good": [0.0, 0.0]}
    for episodes in product(played(LATE), repeat=size):
        probability = prod(one[0] for one in episodes)
        rewards = np.array([one[2] for one in episodes])
        visits = [
            [Visit(state, 1 - turn) for turn, (state, _) in enumerate(one[1])] for one in episodes
        ]
        first = gigpo(rewards, visits, discount=1.0)[0]
        for (_, action), value in zip(episodes[0][1], first, strict=True):
            if action in sums:
                sums[action][0] += probability
                sums[action][1] += probability * value
    means = {action: value / total for action, (total, value) in sums.items()}
    assert means == pytest.approx({"left": 0.0, "good": 2 * (size - 1) / size / 2})


def test_gigpo_of_states_that_only_one_episode_visits() -> None:
    """The step has the episode's advantage alone; a longer way to the same reward is worth less
    where its states are visited by others, too."""
    rewards = np.array([1.0, 1.0])
    visits = [[Visit("s", 0)], [Visit("t", 1), Visit("s", 0)]]
    assert gigpo(rewards, visits, discount=0.5) == [[0.0], [0.0, 0.0]]
    visits = [[Visit("s", 0)], [Visit("s", 1), Visit("u", 0)]]
    assert gigpo(rewards, visits, discount=0.5) == [[0.25], [-0.25, 0.0]]
    assert gigpo(rewards, visits, discount=0.5, weight=2.0) == [[0.5], [-0.5, 0.0]]
    assert gigpo(rewards, visits, discount=1.0) == [[0.0], [0.0, 0.0]]
