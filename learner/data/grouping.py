"""Groups out of episodes: which episodes are compared with each other, and which are not used.

A group is decided when all its members have ended and were judged. What cannot be used is counted
by reason, never dropped silently.

Of a group, an episode is left out, and the others go on without it:

    world        the world failed (ending or label): not the agent's doing, AWM pays 0 for it
    truncated    a limit cut it off, where the settings say so
    silent       it ended before the agent's first reply

A whole group is set aside:

    incomplete   a member was cancelled, cut off, never run, or its model could not be reached:
                 which episodes are missing may depend on how they went
    unjudged     a member's judge could not judge (that is no zero)
    few          fewer than two members are left: there is nothing to compare with
    equal        all members have the same reward, and where steps' own rewards are compared all of
                 their steps: nothing in it says what did better
    stale        its weights are older than is allowed (asked when it is taken, see `is_stale`)

Under `keep_equal` equal members are kept, and single ones where nothing is compared (advantage
`reward`), as for cloning.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, get_args

import msgspec

from harness.core.events import Ending, EpisodeStarted, Label
from harness.core.trajectory import Trajectory
from harness.log.schema import ScenarioSnapshot
from learner.config.settings import DataSettings, LossSettings
from learner.core.errors import SampleError
from learner.core.samples import Group, Rollout, Sample
from learner.data.trajectory_samples import Shown, rollout_of, verdict_on

Reason = Literal["incomplete", "unjudged", "few", "equal", "stale"]
FAILED: frozenset[Reason] = frozenset(("incomplete", "unjudged"))  # the model, or the judge, did
LeftOut = Literal["world", "truncated", "silent"]
_Fate = Literal["incomplete", "unjudged", "world", "truncated", "silent"]
_EQUAL = 1e-6  # rewards that differ by less are equal
_VERSION = re.compile(r"v(\d+)", re.ASCII)


class Aligner(Protocol):
    """Checks that an episode ran under the windows that are trained (learner.data.alignment)."""

    def know(self, worlds: Mapping[str, ScenarioSnapshot]) -> None:
        """What the worlds of episodes were, by package digest."""

    def shown(self, trajectory: Trajectory, *, where: str) -> Shown | None:
        """Prompts that take the place of the logged ones; None: the logged ones are right.

        Raises AlignmentError.
        """


class SetAside(msgspec.Struct, frozen=True):
    """A group that is not trained on."""

    group: str
    reason: Reason


class GroupingStatistics(msgspec.Struct, frozen=True):
    """What became of the episodes so far."""

    episodes: int  # that ended and were looked at
    rollouts: int  # of those, the ones that can be trained on, also in groups that were set aside
    completed: int  # of the rollouts
    reward: float  # of the rollouts, summed
    groups: int  # that were given
    set_aside: dict[Reason, int]
    left_out: dict[LeftOut, int]


class Grouping:
    """Collects episodes until their groups are whole."""

    def __init__(
        self,
        settings: DataSettings | None = None,
        *,
        loss: LossSettings | None = None,
        aligner: Aligner | None = None,
        vocab: int | None = None,
    ) -> None:
        """`loss` says what is compared; `vocab` is the number of the model's tokens, None: ids are
        not checked against it."""
        self._settings = settings or DataSettings()
        self._loss = loss or LossSettings()
        self._aligner = aligner
        self._vocab = vocab
        self._open: dict[tuple[str, str], _Open] = {}  # by log and group
        self._counts: Counter[str] = Counter()
        self._reward = 0.0

    def add(self, trajectory: Trajectory, *, where: str) -> Group | SetAside | None:
        """Take an episode's latest attempt, out of the log or run that `where` names.

        Gives its group when this was the last member, or why that is set aside; None: others are
        missing still. An episode that has not ended, or was cancelled, may be tried again: its
        group waits for it (see `close`). Raises SampleError.
        """
        started, ended = trajectory.started, trajectory.ended
        if ended is None or ended.ending is Ending.CANCELLED:
            self._open_of(started, where)
            return None
        self._counts["episodes"] += 1
        found = self._looked_at(trajectory, where)
        group = self._open_of(started, where)
        group.members[started.member] = found
        if len(group.members) < started.group_size:
            return None
        del self._open[where, started.group]
        return self._decided(group)

    def know(self, worlds: Mapping[str, ScenarioSnapshot]) -> None:
        """What the worlds of the next episodes were, by package digest."""
        if self._aligner is not None:
            self._aligner.know(worlds)

    def close(self) -> list[SetAside]:
        """No episode comes any more: what is not whole is set aside."""
        left = [self._aside(one.started.group, "incomplete") for one in self._open.values()]
        self._open.clear()
        return left

    def is_stale(self, group: Group, *, present: int, staleness: int) -> bool:
        """Whether the group's oldest weights are more than `staleness` versions behind version
        `present`, which is about to be trained; then it is counted as set aside.

        Raises SampleError where a reply does not say its version.
        """
        try:
            oldest = min(map(version_number, group.versions))
        except SampleError as exc:
            raise SampleError(f"group {group.group!r}: {exc}") from exc
        if present - oldest <= staleness:
            return False
        self._counts["stale"] += 1
        self._counts["groups"] -= 1
        return True

    def statistics(self) -> GroupingStatistics:
        """What became of the episodes so far."""
        counts = self._counts
        return GroupingStatistics(
            counts["episodes"],
            counts["rollouts"],
            counts["completed"],
            self._reward,
            counts["groups"],
            {reason: counts[reason] for reason in get_args(Reason)},
            {reason: counts[reason] for reason in get_args(LeftOut)},
        )

    def _open_of(self, started: EpisodeStarted, where: str) -> "_Open":
        group = self._open.setdefault((where, started.group), _Open(started, {}))
        first = group.started
        if _beginning(first) != _beginning(started):
            raise SampleError(
                f"{where}: group {started.group!r}: its episodes do not begin alike: task"
                f" {first.scenario}:{first.task} in world {first.start_digest}, and"
                f" {started.scenario}:{started.task} in world {started.start_digest}"
            )
        return group

    def _looked_at(self, trajectory: Trajectory, where: str) -> "Rollout | _Fate":
        fate = self._fate(trajectory)
        if fate is not None:
            if fate in get_args(LeftOut):
                self._counts[fate] += 1
            return fate
        shown = self._aligner.shown(trajectory, where=where) if self._aligner else None
        rollout = rollout_of(trajectory, where=where, vocab=self._vocab, shown=shown)
        if not rollout.samples:  # a summary alone, under windows that ask for none
            self._counts["silent"] += 1
            return "silent"
        self._counts["rollouts"] += 1
        self._counts["completed"] += rollout.label == Label.COMPLETED
        self._reward += rollout.reward
        return rollout

    def _fate(self, trajectory: Trajectory) -> _Fate | None:
        """Why an episode that has ended is no rollout; None: it is one."""
        assert trajectory.ended is not None
        ending = trajectory.ended.ending
        judged = verdict_on(trajectory)
        if ending is Ending.POLICY_ERROR:
            return "incomplete"
        if ending is Ending.WORLD_ERROR:
            return "world"
        if judged is None:
            return "unjudged"
        if judged.label is Label.ENVIRONMENT_ERROR:
            return "world"
        if not trajectory.steps and not trajectory.summaries:
            return "silent"
        return "truncated" if self._settings.drop_truncated and ending.is_truncation else None

    def _decided(self, group: "_Open") -> Group | SetAside:
        started, members = group.started, group.members
        for reason in ("incomplete", "unjudged"):
            if reason in members.values():
                return self._aside(started.group, reason)
        rollouts = tuple(
            found for _, found in sorted(members.items()) if isinstance(found, Rollout)
        )
        keep_equal = self._settings.keep_equal
        if len(rollouts) < (1 if keep_equal and self._loss.advantage == "reward" else 2):
            return self._aside(started.group, "few")
        if not keep_equal and self._is_equal(rollouts):
            return self._aside(started.group, "equal")
        self._counts["groups"] += 1
        versions = versions_of([one for rollout in rollouts for one in rollout.samples])
        return Group(started.group, started.scenario, started.task, rollouts, versions)

    def _is_equal(self, rollouts: Sequence[Rollout]) -> bool:
        """Whether every sample would have the advantage 0."""
        rewards = [rollout.reward for rollout in rollouts]
        if self._loss.rewards == "step":
            rewards += [sample.reward for rollout in rollouts for sample in rollout.samples]
        return max(rewards) - min(rewards) < _EQUAL

    def _aside(self, group: str, reason: Reason) -> SetAside:
        self._counts[reason] += 1
        return SetAside(group, reason)


class _Open(msgspec.Struct):
    """A group whose members have not all come."""

    started: EpisodeStarted  # the first member's
    members: "dict[int, Rollout | _Fate]"


def _beginning(started: EpisodeStarted) -> tuple[str, str, str, int]:
    return started.scenario, started.task, started.start_digest, started.group_size


def versions_of(samples: Sequence[Sample]) -> tuple[str, ...]:
    """The versions of weights that sampled, each once: by number where all have one."""
    names = dict.fromkeys(sample.weights for sample in samples)
    if all(map(_VERSION.fullmatch, names)):
        return tuple(sorted(names, key=version_number))
    return tuple(names)


def version_number(version: str) -> int:
    """The number of a version. Raises SampleError.

    Example: "v12" -> 12
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise SampleError(
            f"weights: {version!r} is no version of a training run's weights (v0, v1, …)"
        )
    return int(found[1])
