"""From a label to rewards.

A verdict holds all that its rewards are computed from, so the rewards of another profile need no
verifier and no model (see `recompute_rewards`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.core.case import profile_without_cost, without_cost
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.scenarios.checks import Finding


class RewardProfile(msgspec.Struct, frozen=True):
    """What each label is worth, and how this reward is spread over the steps.

    Every step of an episode that ended normally (`answered`) gets the reward of the task, and
    every step of another episode 0. With `step_rewards`, a step to which the format rules gave a
    reward of its own (-1 for a format error) keeps it. With `graded`, partial completion is worth
    the share of the task's goals that were met (see `share_met`).
    """

    name: str
    labels: Mapping[Label, float]
    step_rewards: bool
    graded: bool = False


_AWM_LABELS = {
    Label.COMPLETED: 1.0,
    Label.PARTIALLY_COMPLETED: 0.1,
    Label.AGENT_ERROR: 0.0,
    Label.ENVIRONMENT_ERROR: 0.0,
}
AWM = RewardProfile("awm", _AWM_LABELS, step_rewards=True)  # arXiv:2602.10090
SPARSE = RewardProfile(
    "sparse", {**_AWM_LABELS, Label.PARTIALLY_COMPLETED: 0.0}, step_rewards=False
)
GRADED = RewardProfile("graded", _AWM_LABELS, step_rewards=True, graded=True)
PROFILES = {profile.name: profile for profile in (AWM, SPARSE, GRADED)}


def rewards_of(
    label: Label,
    trajectory: Trajectory,
    profile: RewardProfile,
    findings: Sequence[Finding] = (),
    idle: Iterable[str] = (),
) -> tuple[float, tuple[float, ...]]:
    """The reward of the task and those of the steps, one for each step.

    `idle` names the goals that doing nothing meets, one name for each time. Only a graded profile
    uses it and the findings.

    Example (awm): partially_completed, three steps, answered -> (0.1, (0.1, 0.1, 0.1))
    Example (awm): agent_error, the third step a format error -> (0.0, (0.0, 0.0, -1.0))
    Example (graded): partially_completed, 2 of 3 goals met, one step -> (0.667, (0.667,))
    """
    reward = profile.labels[label]
    if profile.graded and label is Label.PARTIALLY_COMPLETED:
        reward = share_met(findings, idle) or reward
    ended = trajectory.ended
    spread = reward if ended is not None and ended.ending is Ending.ANSWERED else 0.0
    if not profile.step_rewards:
        return reward, (spread,) * len(trajectory.steps)
    return reward, tuple(
        spread if step.reward is None else step.reward for step in trajectory.steps
    )


def share_met(findings: Iterable[Finding], idle: Iterable[str]) -> float | None:
    """The share of the task's goals that were met, without those that doing nothing meets too.

    More than 0 and less than 1, as a partial completion is. Where all goals were met (a limit cut
    the episode off, or something was harmed), what is missing counts as one more goal: 3 of 3 ->
    3/4. None: no goal was met by the agent's work, as where a verifier finds all or nothing. Of a
    task with criteria it is their share, without those that doing nothing meets.

    Example: goals a, b and c met, d not; a is met by doing nothing -> 2/3
    """
    findings, idle = tuple(findings), Counter(idle)
    if any(one.kind == "criterion" for one in findings):
        own = [
            msgspec.structs.replace(one, share=0.0) if idle[one.name] else one for one in findings
        ]
        share = share_of(own)
        return min(share, len(own) / (len(own) + 1)) if share else None
    goals = [finding for finding in findings if finding.kind == "goal"]
    met = Counter(goal.name for goal in goals if goal.passed)
    earned = (met - idle).total()
    asked = len(goals) - (met.total() - earned)
    if not earned:
        return None
    return earned / (asked if earned < asked else asked + 1)


def share_of(findings: Iterable[Finding]) -> float | None:
    """How much of the task is done, 0 to 1: the mean of its findings' shares by their weights; None
    where no finding has a share, those that have one weigh nothing, or a criterion has none: a
    model would have to be asked.

    Example: shares 1 and 0.5 with weights 3 and 1, and a finding without a share -> 0.875
    """
    findings = tuple(findings)
    if any(one.kind == "criterion" and one.share is None for one in findings):
        return None
    shared = [(one.share, one.weight) for one in findings if one.share is not None]
    total = math.fsum(weight for _, weight in shared)
    return math.fsum(share * weight for share, weight in shared) / total if total else None


def recompute_rewards(trajectory: Trajectory, judged: Judged, profile: RewardProfile) -> Judged:
    """The same verdict with the rewards of another profile, from what the verdict holds.

    It costs nothing. A verdict without a label has no reward under any profile and is unchanged.

    Raises JudgeError where a graded reward depends on goals met by doing nothing, and the verdict
    may not hold them because it names no profile.
    """
    judged = msgspec.structs.replace(judged, profile=profile_without_cost(judged.profile))
    if judged.label is None:
        return msgspec.structs.replace(judged, cost_usd=0.0)
    by_goals = profile.graded and judged.label is Label.PARTIALLY_COMPLETED and judged.findings
    if by_goals and not judged.rewards:
        raise JudgeError(
            f"the verdict of judge {judged.judge!r} on episode {trajectory.episode!r} does not list"
            " the goals that doing nothing meets: judge the run again by its verifiers (--mode"
            " code)"
        )
    reward, step_rewards = rewards_of(
        judged.label, trajectory, profile, judged.findings, judged.idle
    )
    return msgspec.structs.replace(
        judged,
        reward=reward,
        step_rewards=step_rewards,
        rewards=profile.name,
        cost_usd=0.0,
        judgements=tuple(map(without_cost, judged.judgements)),
        asked=tuple(map(without_cost, judged.asked)),
    )
