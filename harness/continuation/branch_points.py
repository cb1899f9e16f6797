"""Where the episodes of a group branch: a pure function of the episodes before them, so that a run
that is resumed has the same branches.

A branch begins in a state that an episode from the start passed through, after its first turn and
before its last one ended it. The states are chosen

    even       at equal distances, counted over all turns of these episodes
    entropy    before the most surprising turns: by the sum of -log p of the sampled tokens, which
               is on average the entropy of the turn
    spread     one after the other, each in the middle of the stretch between two states of known
               value whose values differ most: the value of a state is the mean reward of its
               branches, that of the start the mean of all episodes from there

Where there are too few states, some get branches twice. The choice by `spread` looks at rewards;
estimates that are unbiased under the others are so no longer.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rehearsal_room.harness.settings.branch import BranchSettings


class Root(NamedTuple):
    """An episode from the start, as far as branches need it; without turns none can begin there."""

    tokens: Sequence[int]  # sampled in each turn
    surprise: Sequence[float]  # in each turn, in nats
    reward: float = 0.0


class Point(NamedTuple):
    """A state: of the root with this number, before this turn."""

    root: int
    turn: int


class Choice(NamedTuple):
    """Where the branches of one state begin."""

    point: Point  # turn 0: at the start, because no episode passed through another state
    is_refused: bool = False  # it would exceed the budget


def first_points(roots: Sequence[Root], settings: BranchSettings, states: int) -> list[Choice]:
    """So many choices by `even` or `entropy`, in order."""
    points = [
        Point(number, turn)
        for number, root in enumerate(roots)
        for turn in range(1, len(root.tokens))
    ]
    if settings.by == "entropy":
        points.sort(key=lambda point: -roots[point.root].surprise[point.turn])
        points = points[:states]
    points = points or _starts(roots)
    if settings.by == "entropy":
        chosen = [points[number % len(points)] for number in range(states)]
    else:
        chosen = [points[(2 * one + 1) * len(points) // (2 * states)] for one in range(states)]
    return within_budget(chosen, roots, settings)


def next_point(roots: Sequence[Root], known: Mapping[Point, float]) -> Point | None:
    """The next state by `spread`; `known` are the values of the states with branches. None: all
    have some, or there is none."""
    start = sum(root.reward for root in roots) / len(roots)
    best: tuple[float, int, int, Point] | None = None
    for number, root in enumerate(roots):
        values = {0: start, len(root.tokens): root.reward}
        values |= {point.turn: value for point, value in known.items() if point.root == number}
        turns = sorted(values)
        for begin, end in pairwise(turns):
            if end - begin < 2:
                continue
            point = Point(number, (begin + end) // 2)
            found = (abs(values[end] - values[begin]), end - begin, -number, point)
            best = found if best is None or found > best else best
    return None if best is None else best[-1]


def points_by_spread(
    roots: Sequence[Root], rewards: Sequence[Sequence[float]], settings: BranchSettings
) -> list[Choice]:
    """The choices by `spread` so far, and the next one; `rewards` are those of the branches of each
    state so far."""
    points: list[Point] = []
    known: dict[Point, float] = {}
    for of_state in (*rewards, ()):
        point = next_point(roots, known)
        if point is None:
            again = list(dict.fromkeys(points)) or _starts(roots)
            point = again[len(points) % len(again)]
        points.append(point)
        if of_state:
            known[point] = sum(of_state) / len(of_state)
    return within_budget(points, roots, settings)


def _starts(roots: Sequence[Root]) -> list[Point]:
    return [Point(number, 0) for number in range(len(roots))]


def within_budget(
    points: Sequence[Point], roots: Sequence[Root], settings: BranchSettings
) -> list[Choice]:
    """The choices of these states, refused where the group's tokens would exceed the budget. A
    branch is expected to sample what its source sampled from there on."""
    spent = sum(sum(root.tokens) for root in roots)
    choices = []
    for point in points:
        cost = settings.width * sum(roots[point.root].tokens[point.turn :])
        is_refused = bool(settings.tokens) and spent + cost > settings.tokens
        spent += 0 if is_refused else cost
        choices.append(Choice(point, is_refused))
    return choices
