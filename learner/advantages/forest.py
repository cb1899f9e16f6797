"""A group whose episodes branch: an episode begins after some turns of another one, in the state
that these turns left.

In a state with branches the policy has acted several times, so one action can be compared with the
others. Between two such states there is nothing to compare: the turns of a segment share the
advantage of its first action.

Example: episodes a and b from the start, c after two turns of a -> segments: a from turn 0 and from
turn 2, b from turn 0, c from turn 2. The actions at the start are a's and b's, those at turn 2 a's
and c's
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rehearsal_room.learner.core.samples import Branching

Credits = list[list[tuple[int, float]]]  # for each episode: a segment's first turn, its advantage
Action = tuple[int, int]  # the number of an episode, and the first turn of one of its segments
_State = tuple[str, int]  # before this turn of this episode; ("", 0): the start


class Path(NamedTuple):
    """One episode of a group."""

    episode: str
    reward: float
    branching: Branching | None = None  # None: it begins at the start


class Forest:
    """The states of a group in which episodes branch, and the actions in each."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._numbers = {path.episode: number for number, path in enumerate(paths)}
        self._starts = [self._start_of(path) for path in paths]
        self._branches: dict[_State, list[int]] = {}
        for number, state in enumerate(self._starts):
            self._branches.setdefault(state, []).append(number)
        self._segments = [self._segments_of(number) for number in range(len(paths))]

    def credits(self, advantage: Callable[[Action], float]) -> Credits:
        """The advantages of all segments, each computed from its action."""
        return [
            [(turn, advantage((number, turn))) for turn in turns]
            for number, turns in enumerate(self._segments)
        ]

    def others(self, action: Action) -> list[Action]:
        """The other actions in the state of this one."""
        number, turn = action
        state = self._starts[number]
        if turn != state[1]:  # later in the episode, whose own action it is
            state = (self.paths[number].episode, turn)
        actions = [(branch, turn) for branch in self._branches[state]]
        if (source := self._numbers.get(state[0])) is not None:
            actions.append((source, turn))
        return [one for one in actions if one != action]

    def later(self, action: Action) -> list[list[Action]]:
        """The actions of the episodes that branch from the same episode later, state by state."""
        number, turn = action
        name = self.paths[number].episode
        return [
            [(branch, one) for branch in self._branches[name, one]]
            for one in self._segments[number]
            if one > turn
        ]

    def _start_of(self, path: Path) -> _State:
        """The state in which an episode begins, under the name of the episode that led to it."""
        at = path.branching
        while at is not None:
            source = self._numbers.get(at.episode)
            before = None if source is None else self.paths[source].branching
            if before is None or at.turn > before.turn:
                break
            # These turns are among those that the source itself keeps of another episode.
            at = Branching(before.episode, at.turn)
        return ("", 0) if at is None or not at.turn else (at.episode, at.turn)

    def _segments_of(self, number: int) -> list[int]:
        name, first = self.paths[number].episode, self._starts[number][1]
        return [first, *sorted(turn for episode, turn in self._branches if episode == name)]


def at_turn(credits: Sequence[tuple[int, float]], turn: int) -> float:
    """The advantage of the segment that contains a turn of its episode."""
    return next(advantage for first, advantage in reversed(credits) if first <= turn)
