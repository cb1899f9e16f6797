"""From labels to rewards."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Ending, Judged, Label, ModelJudgement
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.rewards import (
    AWM,
    GRADED,
    PROFILES,
    SPARSE,
    RewardProfile,
    recompute_rewards,
    rewards_of,
    share_met,
    share_of,
)
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Call, read
from tests.support.cases import code_judge
from tests.support.mini_world import episode, library, oracle, variant

CALLS = [Call("list_overdue")] * 3
NO_STEPS = episode(library(), "overdue")


@pytest.mark.parametrize(
    ("label", "awm", "sparse"),
    [
        (Label.COMPLETED, 1.0, 1.0),
        (Label.PARTIALLY_COMPLETED, 0.1, 0.0),
        (Label.AGENT_ERROR, 0.0, 0.0),
        (Label.ENVIRONMENT_ERROR, 0.0, 0.0),
    ],
)
def test_every_step_of_a_normal_end_gets_the_reward_of_the_task(
    label: Label, awm: float, sparse: float
) -> None:
    """The agent's own answer spreads the label's worth over all steps."""
    trajectory = episode(library(), "overdue", CALLS, "302")
    assert rewards_of(label, trajectory, AWM) == (awm, (awm,) * 3)
    assert rewards_of(label, trajectory, SPARSE) == (sparse, (sparse,) * 3)


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending is not Ending.ANSWERED])
def test_another_end_spreads_nothing(ending: Ending) -> None:
    """Steps of an episode that was cut off get 0, whatever the task is worth."""
    trajectory = episode(library(), "overdue", CALLS, ending=ending)
    expected = (0.1, (0.0, 0.0, 0.0))
    assert rewards_of(Label.PARTIALLY_COMPLETED, trajectory, AWM) == expected


def test_a_format_error_costs_its_own_step() -> None:
    """The step that broke the format has the reward that the format rules gave it."""
    trajectory = episode(
        library(), "overdue", CALLS, ending=Ending.FORMAT_ERROR, step_rewards={2: -1.0}
    )
    assert rewards_of(Label.AGENT_ERROR, trajectory, AWM) == (0.0, (0.0, 0.0, -1.0))
    assert rewards_of(Label.AGENT_ERROR, trajectory, SPARSE) == (0.0, (0.0, 0.0, 0.0))


def test_a_format_error_that_did_not_end_the_episode() -> None:
    """The other steps of an episode that went on and was completed have the task's reward."""
    trajectory = episode(library(), "overdue", CALLS, "302", step_rewards={1: -1.0})
    assert rewards_of(Label.COMPLETED, trajectory, AWM) == (1.0, (1.0, -1.0, 1.0))


def test_no_steps() -> None:
    """An episode without a step has a reward and no step rewards."""
    assert rewards_of(Label.AGENT_ERROR, episode(library(), "overdue"), AWM) == (0.0, ())


def test_profiles_are_found_by_name() -> None:
    """A profile is a value; each is complete."""
    assert PROFILES == {"awm": AWM, "sparse": SPARSE, "graded": GRADED}
    for profile in PROFILES.values():
        assert isinstance(profile, RewardProfile)
        assert set(profile.labels) == set(Label)


def finding(name: str, passed: bool = True, kind: Literal["goal", "guard"] = "goal") -> Finding:
    return Finding(name, passed, "x", "y", kind)


MISSED = [finding("a"), finding("b"), finding("c", False), finding("g", kind="guard")]


@pytest.mark.parametrize(
    ("findings", "idle", "share"),
    [
        (MISSED, (), 2 / 3),
        (MISSED, ("a",), 1 / 2),
        (MISSED, ("a", "b"), None),
        (MISSED, ("c",), 2 / 3),
        ([finding("a"), finding("b", False), finding("c", False)], ("b",), 1 / 3),
        (MISSED, ("g",), 2 / 3),
        ([finding("a"), finding("a"), finding("a", False)], ("a",), 1 / 2),
        ([finding("a"), finding("b"), finding("c")], (), 3 / 4),
        ([finding("a"), finding("b"), finding("c")], ("c",), 2 / 3),
        ([finding("a"), finding("g", False, "guard")], (), 1 / 2),
        ([finding("a", False)], (), None),
        ([finding("g", kind="guard")], (), None),
        ([], (), None),
    ],
)
def test_the_share_of_goals_met(
    findings: list[Finding], idle: tuple[str, ...], share: float | None
) -> None:
    """What doing nothing would have met does not count, what it would have met and the agent undid
    does; guards are not goals; a part is never all; where no finding sees a part there is none."""
    assert share_met(findings, idle) == share


def test_a_graded_profile_pays_for_parts() -> None:
    """Partial completion is worth its share, or AWM's 0.1 where no share is known; the other labels
    are worth what they are in AWM, whatever the findings are."""
    trajectory = episode(library(), "overdue", CALLS, "302")
    part = rewards_of(Label.PARTIALLY_COMPLETED, trajectory, GRADED, MISSED, ("a",))
    assert part == (0.5, (0.5,) * 3)
    assert rewards_of(Label.PARTIALLY_COMPLETED, trajectory, GRADED) == (0.1, (0.1,) * 3)
    assert [
        rewards_of(label, trajectory, GRADED, MISSED)[0]
        for label in (Label.COMPLETED, Label.AGENT_ERROR, Label.ENVIRONMENT_ERROR)
    ] == [1.0, 0.0, 0.0]
    assert rewards_of(Label.PARTIALLY_COMPLETED, trajectory, AWM, MISSED)[0] == 0.1
    assert rewards_of(Label.PARTIALLY_COMPLETED, trajectory, SPARSE, MISSED)[0] == 0.0


@given(
    st.lists(st.builds(finding, st.sampled_from("abc"), st.booleans()), max_size=6),
    st.lists(st.sampled_from("abc"), max_size=4),
)
def test_graded_rewards_keep_the_order_of_the_labels(
    findings: list[Finding], idle: list[str]
) -> None:
    """Whatever was found, a part is worth more than nothing and less than all."""
    reward, _ = rewards_of(Label.PARTIALLY_COMPLETED, NO_STEPS, GRADED, findings, idle)
    assert 0.0 < reward < 1.0


def test_a_verdict_names_its_profile_and_what_doing_nothing_meets(tmp_path: Path) -> None:
    """What a graded reward depends on is stored with the verdict of the code judge."""
    old = '    check.created("loans", book_id=21'
    new = f'    check.goal("Books are there", True, "there", "there")\n{old}'
    world = HostedScenario(read(variant(tmp_path, verify=(old, new))))
    task = world.scenario.task("lend-two")
    half = oracle(world, "lend-two", calls=task.oracle[:-1])
    judged = code_judge(world, GRADED).verdict_at_once(half)
    goals = [one for one in judged.findings if one.kind == "goal"]
    met = sum(one.passed for one in goals)
    assert (judged.label, judged.rewards) == (Label.PARTIALLY_COMPLETED, "graded")
    assert judged.idle == ("Books are there",)
    assert judged.reward == (met - 1) / (len(goals) - 1)


@pytest.mark.parametrize("wanted", PROFILES.values(), ids=PROFILES)
def test_rewards_are_made_again_from_the_verdict(wanted: RewardProfile) -> None:
    """From whatever profile, the rewards are those that judging under the new one gives, with
    findings, opinions and all else as they were."""
    world = library()
    task = world.scenario.task("lend-two")
    episodes = [
        oracle(world, "lend-two"),
        oracle(world, "lend-two", calls=task.oracle[:-1], step_rewards={0: -1.0}),
        oracle(world, "lend-two", ending=Ending.STEP_LIMIT),
        episode(world, "lend-two", CALLS),
        oracle(world, "lend-two", ending=Ending.CANCELLED),
    ]
    for trajectory in episodes:
        expected = code_judge(world, wanted).verdict_at_once(trajectory)
        for profile in PROFILES.values():
            judged = code_judge(world, profile).verdict_at_once(trajectory)
            assert recompute_rewards(trajectory, judged, wanted) == expected


def test_making_rewards_again_costs_nothing() -> None:
    """What the verdict cost when models were asked is not spent again; their opinions stay, and
    what was left unjudged stays so."""
    judgement = ModelJudgement("m", Label.COMPLETED, requests=1, cost_usd=0.2)
    judged = Judged(
        "hybrid:m", Label.COMPLETED, 1.0, cost_usd=0.2, judgements=(judgement,), rewards="awm"
    )
    again = recompute_rewards(NO_STEPS, judged, SPARSE)
    free = msgspec.structs.replace(judgement, requests=0, cost_usd=0.0)
    assert again == msgspec.structs.replace(
        judged, cost_usd=0.0, judgements=(free,), rewards="sparse"
    )
    silent = Judged("hybrid:m", None, None, unjudged="budget: spent", cost_usd=0.2)
    assert recompute_rewards(NO_STEPS, silent, GRADED) == msgspec.structs.replace(
        silent, cost_usd=0.0
    )


def test_a_graded_reward_is_not_guessed() -> None:
    """A verdict that may not hold the goals that doing nothing meets must be made again, where
    they matter."""
    judged = Judged("code", Label.PARTIALLY_COMPLETED, 0.1, findings=tuple(MISSED))
    with pytest.raises(JudgeError, match="of judge 'code' on episode 'e1' does not list the goals"):
        recompute_rewards(NO_STEPS, judged, GRADED)
    assert recompute_rewards(NO_STEPS, judged, SPARSE).reward == 0.0
    completed = msgspec.structs.replace(judged, label=Label.COMPLETED)
    assert recompute_rewards(NO_STEPS, completed, GRADED).reward == 1.0


@pytest.mark.parametrize(
    ("shares", "share"),
    [
        ([], None),
        ([(None, 1.0)], None),  # a finding without a share counts in nothing
        ([(1.0, 3.0), (0.5, 1.0), (None, 9.0)], 0.875),
        ([(0.0, 1.0), (1.0, 1.0), (1.0, 1.0)], 2 / 3),
        ([(1.0, 0.0)], None),  # nothing has a weight
    ],
)
def test_the_share_of_a_task_is_the_weighed_mean_of_its_findings(
    shares: list[tuple[float | None, float]], share: float | None
) -> None:
    """A suite that pays for parts of a task gives its findings shares and weights."""
    findings = [
        Finding(str(number), part == 1, "", "", "goal", share=part, weight=weight)
        for number, (part, weight) in enumerate(shares)
    ]
    found = share_of(findings)
    assert found == (None if share is None else pytest.approx(share))
