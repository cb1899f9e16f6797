"""What the microscope measures: states, the actions in each, and how episodes went on."""

from collections.abc import Sequence
from hashlib import blake2b
from math import sqrt
from statistics import fmean, pvariance

import msgspec

from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import HistoryFold, parse_history
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.learner.data.trajectory_samples import episode_reward, latest_verdict

Z_95 = 1.96


class Course(msgspec.Struct, frozen=True, gc=False):
    """An episode from some turn on."""

    reward: float
    anchors: tuple[int, ...]  # of the states before each of these turns


class ActionFacts(msgspec.Struct, frozen=True):
    """One action in a state."""

    name: str
    share: float  # of the policy's own choices in this state
    is_last: bool  # it ends the episode
    courses: tuple[Course, ...]  # of the episodes in which it was taken, from the turn after it

    @property
    def value(self) -> float:
        """Q: the mean reward."""
        return fmean([one.reward for one in self.courses])

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of Q. An episode that the action ends has one reward."""
        rewards = [one.reward for one in self.courses]
        if self.is_last and len(set(rewards)) == 1:
            return 0.0
        return Z_95 * sqrt(pvariance(rewards) / max(1, len(rewards) - 1))


class StateFacts(msgspec.Struct, frozen=True):
    """A state: an episode before one of its turns."""

    task: str
    turn: int
    before: tuple[int, ...]  # anchors of the episode's turns up to this one, which is the last
    actions: tuple[ActionFacts, ...]  # the most frequent ones, with many courses each
    rare: tuple[ActionFacts, ...]  # the others, as often as the policy chose them

    @property
    def everything(self) -> tuple[ActionFacts, ...]:
        """All actions that were seen; their shares sum to 1."""
        return (*self.actions, *self.rare)

    @property
    def value(self) -> float:
        """V: the mean of the actions' values under the policy."""
        return sum(one.share * one.value for one in self.everything)


class MeasuredTask(msgspec.Struct, frozen=True):
    """A task as the policy plays it from its start."""

    task: str
    courses: tuple[Course, ...]


def course_of(trajectory: Trajectory, scenario: ScenarioSnapshot, *, first: int) -> Course | None:
    """The course of an episode from turn `first` on; None: it cannot be used, because its world
    failed or it has no verdict."""
    judged, ended = latest_verdict(trajectory), trajectory.ended
    if judged is None or ended is None or judged.reward is None:
        return None
    anchors = anchors_of(trajectory, scenario)
    return Course(episode_reward(ended.ending, judged), tuple(anchors[first:]))


def anchors_of(trajectory: Trajectory, scenario: ScenarioSnapshot) -> list[int]:
    """The anchor of each turn: the world's digest and the window. Where samples have tokens, theirs
    are these windows (learner.advantages.registry); neither contains the ids of calls."""
    started = trajectory.started
    dialect = dialect_of(started.dialect)
    briefing = logged_briefing(
        started,
        rules=scenario.rules,
        tools=scenario.tools,
        user=scenario.user,
        now=scenario.now,
    )
    fold = HistoryFold(parse_history(started.history), dialect, briefing)
    head = len(dialect.opening_messages(briefing))
    digest, anchors = started.start_digest, []
    for step in trajectory.steps:
        anchors.append(_anchor(digest, fold.window().messages[head:]))
        fold.apply(step)
        digest = next((one.digest for one in reversed(step.results) if one.digest), digest)
    return anchors


def _anchor(digest: str, messages: Sequence[Message]) -> int:
    shown = [
        (one.role, one.content, [(call.name, call.arguments) for call in one.calls])
        for one in messages
    ]
    drawn = blake2b(digest.encode() + msgspec.json.encode(shown), digest_size=6)
    return int.from_bytes(drawn.digest())
