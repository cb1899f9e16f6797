"""Build groups from episodes: which episodes are compared, and which are not used.

A group is complete when all its members have ended and were judged. Whatever cannot be used is
counted by reason; nothing disappears silently.

A single episode is excluded from its group, which continues without it:

    world        the world failed (ending or label): not the agent's fault; AWM rewards it with 0.
                 A warning says how many: an agent that breaks worlds could avoid its failures so
    truncated    a limit ended it, where the settings exclude such episodes
    failed       the judge did not find it completed, where the settings exclude such episodes
    silent       it ended before the agent's first reply
    too_long     all of its replies end beyond the model's context (`data.too_long`)

A whole group is dropped:

    incomplete   a member was cancelled, cut off or never run, or its model could not be reached:
                 which episodes are missing may depend on how they went
    unjudged     a member's judge could not judge (this is not a reward of zero)
    few          fewer than two members are left: there is nothing to compare
    equal        all members have the same reward (and all steps, where step rewards are
                 compared, or returns by advantage `gigpo`): the group does not show what is better;
                 or none was completed, where only such episodes are used
    stale        its weights are older than allowed (checked when it is taken, see `is_stale`)

With `keep_equal`, groups of equal rewards are kept; groups of one member as well, if nothing is
compared (advantage `reward`), as in behaviour cloning.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal, get_args

import msgspec
import structlog

from rehearsal_room.harness.core.events import Ending, EpisodeStarted, ForkedFrom, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.settings import DataSettings, LossSettings
from rehearsal_room.learner.core.errors import SampleError
from rehearsal_room.learner.core.samples import Group, GroupSize, Rollout, Sample
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.sample_lengths import TokenLimits, control_tokens, within
from rehearsal_room.learner.data.trajectory_samples import (
    has_own_replies,
    latest_verdict,
    rollout_of,
)
from rehearsal_room.learner.losses.penalties import penalised

Reason = Literal["incomplete", "unjudged", "few", "equal", "stale"]
WHOLE = ("mean_std", "mean", "leave_one_out")  # advantages that compare episodes from one state
# Reasons that the agent does not cause: the model or the judge failed.
FAILURES: frozenset[Reason] = frozenset(("incomplete", "unjudged"))
Exclusion = Literal["world", "truncated", "failed", "silent", "too_long"]
_Unusable = Literal["incomplete", "unjudged", "world", "truncated", "failed", "silent", "too_long"]
_EQUAL = 1e-6  # rewards that differ by less are equal
_log = structlog.get_logger(__name__)
_VERSION = re.compile(r"v(\d+)", re.ASCII)


class DroppedGroup(msgspec.Struct, frozen=True):
    """A group that is not trained."""

    group: str
    reason: Reason
    size: GroupSize | None = None  # of a group of equal rewards that counts in denominators


class GroupingStatistics(msgspec.Struct, frozen=True):
    """Counts of the episodes and groups so far."""

    episodes: int  # that ended
    rollouts: int  # episodes that can be trained on, those of dropped groups included
    completed: int  # of the rollouts
    reward: float  # sum over the rollouts
    groups: int  # usable
    dropped: dict[Reason, int]
    excluded: dict[Exclusion, int]  # episodes
    equal_size: GroupSize = GroupSize()  # of the groups that are dropped and count


class Grouping:
    """Collects episodes until their groups are complete."""

    def __init__(
        self,
        settings: DataSettings | None = None,
        *,
        loss: LossSettings | None = None,
        aligner: Alignment | None = None,
        limits: TokenLimits | None = None,
    ) -> None:
        """`loss` decides which rewards are compared; `limits` are those of the model; None: they
        are not checked."""
        self._settings = settings or DataSettings()
        self._loss = loss or LossSettings()
        self._aligner = aligner
        self._limits = limits or TokenLimits()
        self._open: dict[tuple[str, str], _OpenGroup] = {}  # by log and group
        self._counts: Counter[str] = Counter()
        self._reward = 0.0
        self._equal_size = GroupSize()

    def add(self, trajectory: Trajectory, *, where: str) -> Group | DroppedGroup | None:
        """Add an episode's latest attempt, from the log or run that `where` names.

        Returns its group if this was the last member, or the reason for which that group is
        dropped; None: other members are still missing. An episode that has not ended or was
        cancelled may be tried again: its group waits for it (see `close`). Raises SampleError.
        """
        started, ended = trajectory.started, trajectory.ended
        if ended is None or ended.ending is Ending.CANCELLED:
            self._open_group(started, where)
            return None
        self._counts["episodes"] += 1
        member = self._rollout_or_reason(trajectory, where)
        group = self._open_group(started, where)
        group.members[started.member] = member
        if len(group.members) < started.group_size:
            return None
        del self._open[where, started.group]
        return self._finish(group)

    def use_scenarios(self, scenarios: Mapping[str, ScenarioSnapshot]) -> None:
        """Set the scenarios of the next episodes, by scenario digest."""
        if self._aligner is not None:
            self._aligner.use_scenarios(scenarios)

    def close(self) -> list[DroppedGroup]:
        """Drop the incomplete groups: no more episodes will arrive."""
        dropped = [self._drop(one.started.group, "incomplete") for one in self._open.values()]
        self._open.clear()
        return dropped

    def is_stale(self, group: Group, *, current: int, staleness: int) -> bool:
        """Whether the group's oldest weights are more than `staleness` versions behind version
        `current`, which is about to be trained; if so, the group is counted as dropped.

        Raises SampleError if a reply does not state its version.
        """
        try:
            oldest = min(map(version_number, group.versions))
        except SampleError as exc:
            raise SampleError(f"group {group.group!r}: {exc}") from exc
        if current - oldest <= staleness:
            return False
        self._counts["stale"] += 1
        self._counts["groups"] -= 1
        return True

    def statistics(self) -> GroupingStatistics:
        """Counts of the episodes and groups so far."""
        counts = self._counts
        return GroupingStatistics(
            counts["episodes"],
            counts["rollouts"],
            counts["completed"],
            self._reward,
            counts["groups"],
            {reason: counts[reason] for reason in get_args(Reason)},
            {reason: counts[reason] for reason in get_args(Exclusion)},
            self._equal_size,
        )

    def _open_group(self, started: EpisodeStarted, where: str) -> "_OpenGroup":
        group = self._open.setdefault((where, started.group), _OpenGroup(started, {}))
        first = group.started
        if _start_of(first) != _start_of(started):
            raise SampleError(
                f"{where}: group {started.group!r}: its episodes start differently:"
                f" {_describe_start(first)}, and {_describe_start(started)}"
            )
        return group

    def _rollout_or_reason(self, trajectory: Trajectory, where: str) -> "Rollout | _Unusable":
        reason = self._unusable(trajectory)
        if reason is not None:
            if reason in get_args(Exclusion):
                self._counts[reason] += 1
                self._warn_left_out(reason, trajectory, where)
            return reason
        prompts = (
            self._aligner.replacement_prompts(trajectory, where=where) if self._aligner else None
        )
        rollout = rollout_of(trajectory, where=where, vocab=self._limits.vocab, prompts=prompts)
        if not rollout.samples:  # only summaries, under windows that do not ask for them
            self._counts["silent"] += 1
            return "silent"
        if number := control_tokens(rollout, self._limits.control):
            rollout = msgspec.structs.replace(rollout, control_tokens=number)
        rollout = within(rollout, self._limits.context, self._settings.too_long)
        if rollout.too_long:
            self._warn_of_lengths(rollout, where)
        if not rollout.samples:
            self._counts["too_long"] += 1
            return "too_long"
        if rollout.branching is not None and self._loss.advantage in WHOLE:
            raise SampleError(
                f"{where}: episode {trajectory.episode!r} branches from"
                f" {rollout.branching.episode!r}, and advantage {self._loss.advantage!r} compares"
                " whole episodes; choose 'tree', 'vine' or 'gigpo'"
            )
        if rollout.branching is not None and (
            self._loss.overlong_from or self._loss.length_penalty
        ):
            raise SampleError(
                f"{where}: episode {trajectory.episode!r} branches from"
                f" {rollout.branching.episode!r}, so its length is that of a part only; leave out"
                " loss.overlong_from and loss.length_penalty"
            )
        if self._loss.advantage == "gigpo" and not trajectory.started.start_digest:
            raise SampleError(
                f"{where}: episode {trajectory.episode!r}: its world does not reveal its state, by"
                " which advantage 'gigpo' tells steps apart; choose 'mean' or 'leave_one_out'"
            )
        self._counts["rollouts"] += 1
        self._counts["completed"] += rollout.label == Label.COMPLETED
        self._reward += rollout.reward
        if self._settings.completed_only and rollout.label != Label.COMPLETED:
            self._counts["failed"] += 1
            return "failed"
        return rollout

    def _warn_left_out(self, reason: "_Unusable", trajectory: Trajectory, where: str) -> None:
        """Say how many episodes are left out because their world failed, or an agent of the user's
        own played without its model: at 1, 2, 4, 8, …"""
        why = "their world failed" if reason == "world" else ""
        if reason == "silent" and trajectory.asks_model:
            why = "their agent got no reply of the model"
        count = self._counts[reason]
        if why and count & (count - 1) == 0:
            _log.warning(
                "episodes_left_out",
                why=why,
                left_out=count,
                of=self._counts["episodes"],
                latest=f"{where}: {trajectory.episode}",
            )

    def _warn_of_lengths(self, rollout: Rollout, where: str) -> None:
        """Say how many replies are beyond the context: when their number has doubled."""
        before = self._counts["too_long replies"]
        self._counts["too_long replies"] = count = before + rollout.too_long
        if before.bit_length() < count.bit_length():
            _log.warning(
                "replies_too_long",
                why=f"they end beyond the model's context of {self._limits.context} tokens",
                done=f"data.too_long = {self._settings.too_long!r}",
                replies=count,
                latest=f"{where}: {rollout.episode}",
            )

    def _unusable(self, trajectory: Trajectory) -> _Unusable | None:
        """Why an ended episode cannot be a rollout; None: it can."""
        assert trajectory.ended is not None
        ending = trajectory.ended.ending
        judged = latest_verdict(trajectory)
        if ending.lacks_reply:
            return "incomplete"
        if ending is Ending.WORLD_ERROR:
            return "world"
        if judged is None:
            return "unjudged"
        if judged.label is Label.ENVIRONMENT_ERROR:
            return "world"
        if not has_own_replies(trajectory):
            return "silent"
        return "truncated" if self._settings.drop_truncated and ending.is_truncation else None

    def _finish(self, group: "_OpenGroup") -> Group | DroppedGroup:
        started, members = group.started, group.members
        for reason in ("incomplete", "unjudged"):
            if reason in members.values():
                return self._drop(started.group, reason)
        rollouts = tuple(
            member for _, member in sorted(members.items()) if isinstance(member, Rollout)
        )
        rollouts = penalised(rollouts, self._loss)
        keep_equal = self._settings.keep_equal
        if not rollouts and "failed" in members.values():
            return self._drop(started.group, "equal")
        if len(rollouts) < (1 if keep_equal and self._loss.advantage == "reward" else 2):
            return self._drop(started.group, "few")
        versions = versions_of([one for rollout in rollouts for one in rollout.samples])
        found = Group(started.group, started.scenario, started.task, rollouts, versions)
        if not keep_equal and self._is_equal(found):
            dropped = self._drop(started.group, "equal")
            if not self._loss.count_equal:
                return dropped
            self._equal_size += GroupSize.of(rollouts)
            return msgspec.structs.replace(dropped, size=GroupSize.of(rollouts))
        self._counts["groups"] += 1
        return found

    def _is_equal(self, group: Group) -> bool:
        """Whether every sample would have an advantage of 0."""
        rewards = [rollout.reward for rollout in group.rollouts]
        if self._loss.rewards == "step":
            rewards += [sample.reward for rollout in group.rollouts for sample in rollout.samples]
        if self._loss.advantage == "gigpo":  # discounted, equal rewards differ from step to step
            rewards = [0.0, *chain.from_iterable(advantages_of(group, self._loss))]
        return max(rewards) - min(rewards) < _EQUAL

    def _drop(self, group: str, reason: Reason) -> DroppedGroup:
        self._counts[reason] += 1
        return DroppedGroup(group, reason)


class _OpenGroup(msgspec.Struct):
    """A group that still misses members."""

    started: EpisodeStarted  # of the member that arrived first
    members: "dict[int, Rollout | _Unusable]"


def _start_of(started: EpisodeStarted) -> tuple[str, str, str, int, str, ForkedFrom | None]:
    """What the members of a group have in common; one of them may branch from another."""
    return (
        *(started.scenario, started.task, started.start_digest, started.group_size),
        started.history,
        None if started.is_branch else started.forked_from,
    )


def _describe_start(started: EpisodeStarted) -> str:
    text = f"task {started.scenario}:{started.task} from state {started.start_digest}"
    text += f" under {started.history}"
    if started.is_branch or (source := started.forked_from) is None:
        return text
    return f"{text} after turn {source.turn} of {source.where}"


def versions_of(samples: Sequence[Sample]) -> tuple[str, ...]:
    """The distinct versions of the weights that sampled: by number if all of them have one, else
    in the order of first use."""
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
            f"weights: {version!r} is not a version of a training run's weights (v0, v1, …)"
        )
    return int(found[1])
